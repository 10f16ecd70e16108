"""The text that the models of a table are trained and tested on: the reader's own, or the street corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.demo.street.corpus import StreetPair, make_corpus, write_corpus
from regard.durable import make_directory, write_file
from regard.errors import DataError
from regard.evaluate import read_test_set
from regard.tasks import Raw
from regard.text import Corpus, held_out_share, is_held_out

STREET_SEED = 1
FilePair = tuple[Path, Path]  # source, target


@dataclass(frozen=True)
class PaperText:
    """Files for training, validation and test."""

    train: FilePair
    validation: FilePair
    test: FilePair
    street: tuple[StreetPair, ...] = ()  # the test set of the street corpus, with its pronouns

    @property
    def data(self) -> Raw:
        """The [data] section of a recipe."""
        parts = {"train": self.train, "validation": self.validation}
        return {name: [{"source": str(source), "target": str(target)}] for name, (source, target) in parts.items()}

    def test_pairs(self) -> tuple[list[str], list[str]]:
        """Source sentences and references."""
        source, target = self.test
        test_set = read_test_set([target], source)
        return test_set.sources or [], test_set.references[0]


def street_text(directory: Path, *, n_train: int = 40_000, n_test: int = 1_000) -> PaperText:
    """The street corpus, written into a directory."""
    corpus = make_corpus(STREET_SEED, n_train=n_train, n_valid=500, n_test=n_test, n_unseen=2)
    if not (directory / "unseen.de").exists():  # the last file to be written
        write_corpus(directory, corpus)
    train, validation, test = (
        (directory / f"{name}.en", directory / f"{name}.de") for name in ("train", "validation", "test")
    )
    return PaperText(train, validation, test, corpus.test)


def own_text(directory: Path, train: FilePair, validation: FilePair | None, test: FilePair | None) -> PaperText:
    """The reader's files. Without a validation set, some pairs are held out and written into the directory."""
    if validation is None:
        train, validation = _split(directory, train)
    return PaperText(train, validation, test or validation)


def _split(directory: Path, files: FilePair) -> tuple[FilePair, FilePair]:
    names = [
        f"{side}.{path.name.split('.')[1]}" if "." in path.name else side
        for side, path in zip(("source", "target"), files, strict=True)
    ]
    parts = {name: (directory / name / names[0], directory / name / names[1]) for name in ("train", "validation")}
    if not all(path.exists() for pair in parts.values() for path in pair):
        pairs = list(Corpus(source=files[0], target=files[1]).pairs())
        share = held_out_share(len(pairs))
        is_validation = [is_held_out(source, share, STREET_SEED) for source, _ in pairs]
        if not any(is_validation) or all(is_validation):
            raise DataError(
                f"{files[0]} is too short to hold out a validation set", hint="add --valid-source and --valid-target"
            )
        for name, wanted in (("validation", True), ("train", False)):
            write_pairs(
                parts[name], [pair for pair, held_out in zip(pairs, is_validation, strict=True) if held_out == wanted]
            )
    return parts["train"], parts["validation"]


def write_pairs(files: FilePair, pairs: Sequence[tuple[str, str]]) -> None:
    """One sentence per line; the target is written last."""
    make_directory(files[0].parent)
    for number, path in enumerate(files):
        write_file(path, "".join(f"{pair[number]}\n" for pair in pairs).encode())

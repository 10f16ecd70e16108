"""From text files to token stores: examine, make the vocabulary, encode. Each part is made once and kept in `data/`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from regard.data import TokenStore, build_store, open_store
from regard.durable import commit_directory, read_regular_file, verify_directory
from regard.engines.engine import n_cores
from regard.errors import ArtifactError, DataError, RunError
from regard.run.recipe import DataConfig, TextConfig
from regard.text import (
    Corpus,
    CorpusReport,
    Tokenizer,
    TokenizerPair,
    count_pairs,
    examine,
    fingerprint,
    held_out_share,
    is_held_out,
    read_tokenizers,
    train_tokenizer,
)
from regard.text.corpus import OnBadPair

LARGE_ENOUGH_PAIRS = 1_000  # chance alone holds some of these out

_BAD_LINES = {"invalid-text", "tabs"}  # what the doctor calls lines that can be left out
_HOPELESS = {"empty", "unequal-counts"}  # and what no setting can help

LinePair = tuple[str, str, int]  # source, target, number of the corpus


class ShowProgress(Protocol):
    """Is told how far a stage of the preparation is; `total` is None where it is not known."""

    def __call__(self, stage: str, done: int, total: int | None) -> None: ...


@dataclass(frozen=True)
class Corpora:
    """The text of a run, and how it is divided."""

    train: tuple[Corpus, ...]
    validation: tuple[Corpus, ...]
    on_bad: OnBadPair
    held_out: float  # share of train, when there is no validation set
    seed: int  # picks what is held out
    fingerprint: str

    @classmethod
    def of(cls, data: DataConfig, seed: int) -> Corpora:
        """Of a settled recipe; refuses files that are no longer what they were."""
        found = fingerprint_all(data)
        if data.fingerprint is not None and found != data.fingerprint:
            raise RunError(
                "the training text was edited since this run began",
                hint="bring back the files as they were, or train in another directory",
            )
        train, validation = (tuple(one.corpus() for one in part) for part in (data.train, data.validation))
        held_out = 0.0 if data.validation else data.held_out or 0.0
        return cls(train, validation, data.on_bad, held_out, seed, found)

    @property
    def key(self) -> str:
        """Changes when any pair does, or its tag, or the side that it is on."""
        tags = [corpus.tag for corpus in (*self.train, *self.validation)]
        return _digest(self.fingerprint, self.held_out, self.seed, self.on_bad, len(self.train), tags)

    def training_pairs(self) -> Iterator[LinePair]:
        """(source, target, number of the corpus), without what is held out."""
        for pair in _all_pairs(self.train, self.on_bad):
            if not self.held_out or not is_held_out(pair[0], self.held_out, self.seed):
                yield pair

    def validation_pairs(self) -> Iterator[LinePair]:
        """The validation corpora, or what is held out of the training corpora."""
        n_pairs = 0
        for pair in _all_pairs(self.validation or self.train, self.on_bad):
            if self.validation or is_held_out(pair[0], self.held_out, self.seed):
                n_pairs += 1
                yield pair
        if n_pairs == 0:
            raise DataError(
                f"there is no pair to validate on (data.held_out is {self.held_out:g})",
                hint="raise data.held_out, or give --valid-source and --valid-target",
            )


@dataclass(frozen=True)
class Examined:
    """What the doctor says of the training text."""

    n_pairs: int
    reports: tuple[CorpusReport, ...]


def examine_all(data: DataConfig, show: ShowProgress) -> Examined:
    """Read everything once: whatever would spoil a training is found before any time is spent on it."""
    train = [one.corpus() for one in data.train]
    for one in data.validation:
        count_pairs(one.corpus(), on_bad=data.on_bad)
    if not data.doctor:
        return Examined(sum(count_pairs(one, on_bad=data.on_bad) for one in train), ())
    held = [one.corpus() for one in data.validation]
    reports = tuple(
        _forgiving_leaks(examine(one, against=held, progress=_stage(show, f"examining {one.name}"))) for one in train
    )
    for corpus, report in zip(train, reports, strict=True):
        _refuse_what_spoils(corpus, report, data.on_bad)
    return Examined(sum(report.n_pairs for report in reports), reports)


def settle_data(data: DataConfig, n_pairs: int, seed: int) -> dict[str, Any]:
    """The values of [data] that depend on the files."""
    held_out = data.held_out
    if held_out is None:
        held_out = 0.0 if data.validation else _share_that_divides(data, n_pairs, seed)
    return {"held_out": held_out, "fingerprint": fingerprint_all(data)}


def fingerprint_all(data: DataConfig) -> str:
    """Changes when any byte of any file does."""
    return _digest(*(fingerprint(one.corpus()) for one in (*data.train, *data.validation)))


def make_tokenizers(directory: Path, corpora: Corpora, text: TextConfig, show: ShowProgress) -> TokenizerPair:
    """The vocabulary, or one a side, from the training pairs alone."""
    wanted = text.model_dump_json(include={"kind", "joint", "vocabulary"})
    key = _digest(corpora.key, wanted)
    names = ("tokenizer",) if text.joint else ("source", "target")
    cached = _cached_tokenizers(directory, key)
    if cached is not None:
        return cached
    show("making the vocabulary", 0, None)
    tags = sorted({corpus.tag for corpus in corpora.train if corpus.tag is not None})
    made = [
        Tokenizer(
            train_tokenizer(_lines(corpora, name), size=text.vocabulary, kind=text.kind, tags=tags, seed=corpora.seed)
        )
        for name in names
    ]

    tokenizers = TokenizerPair(made[0], made[-1])

    def write(aside: Path) -> None:
        tokenizers.write(aside)
        (aside / "key.json").write_text(json.dumps({"key": key}), encoding="utf-8")

    commit_directory(directory, write)
    return tokenizers


def make_stores(
    directory: Path, corpora: Corpora, tokenizers: TokenizerPair, max_length: int, show: ShowProgress
) -> tuple[TokenStore, TokenStore]:
    """The training set and the validation set, as ids."""
    vocabularies = _digest(tokenizers.source.to_bytes(), tokenizers.target.to_bytes())
    key = _digest(corpora.key, vocabularies, max_length)

    def store(name: str, parts: tuple[Corpus, ...], pairs: Iterator[LinePair]) -> TokenStore:
        return open_store(directory / name, key) or build_store(
            directory / name,
            pairs,
            lambda chunk: _encode(tokenizers, parts, chunk),
            max_length=max_length,
            vocab_size=max(tokenizers.source.size, tokenizers.target.size),
            key=key,
            n_workers=n_cores(),
            progress=lambda done: show(f"encoding the {name} pairs", done, None),
        )

    train = store("train", corpora.train, corpora.training_pairs())
    return train, store("validation", corpora.validation or corpora.train, corpora.validation_pairs())


def _share_that_divides(data: DataConfig, n_pairs: int, seed: int) -> float:
    """The usual share; of a handful of pairs, the nearest one that holds out some, and at most half."""
    usual = held_out_share(n_pairs)
    if n_pairs >= LARGE_ENOUGH_PAIRS:
        return usual
    sources = [pair[0] for pair in _all_pairs(tuple(one.corpus() for one in data.train), data.on_bad)]
    finer = sorted((part / 128 for part in range(1, 128)), key=lambda share: abs(share - usual))
    for share in (usual, *finer):
        if 0 < sum(is_held_out(source, share, seed) for source in sources) <= len(sources) // 2:
            return share
    raise DataError(
        f"too few pairs ({len(sources)}) to hold some of them out for validation",
        hint="give more text, or a validation set with --valid-source and --valid-target",
    )


def _all_pairs(corpora: tuple[Corpus, ...], on_bad: OnBadPair) -> Iterator[LinePair]:
    for number, corpus in enumerate(corpora):
        for source, target in corpus.pairs(on_bad=on_bad):
            yield source, target, number


def _lines(corpora: Corpora, name: str) -> Iterator[str]:
    for source, target, _ in corpora.training_pairs():
        if name != "target":
            yield source
        if name != "source":
            yield target


def _encode(
    tokenizers: TokenizerPair, corpora: tuple[Corpus, ...], chunk: list[LinePair]
) -> tuple[list[list[int]], list[list[int]]]:
    front = [[] if one.tag is None else tokenizers.source.encode("", tag=one.tag) for one in corpora]
    sources = tokenizers.source.encode_many(source for source, _, _ in chunk)
    tagged = [front[number] + ids for (_, _, number), ids in zip(chunk, sources, strict=True)]
    return tagged, tokenizers.target.encode_many(target for _, target, _ in chunk)


def _cached_tokenizers(directory: Path, key: str) -> TokenizerPair | None:
    """Those trained earlier on the same text; None if there are none, or they are damaged."""
    try:
        verify_directory(directory)
        if json.loads(read_regular_file(directory / "key.json", 10_000)) != {"key": key}:
            return None
        return read_tokenizers(directory)
    except (ArtifactError, ValueError, OSError):
        return None


def _forgiving_leaks(report: CorpusReport) -> CorpusReport:
    """Validation text that is learned from spoils scores, not the model: it is said, and that is all."""
    said = (replace(one, severity="warning") if one.kind == "leak" else one for one in report.findings)
    return replace(report, findings=tuple(said))


def _refuse_what_spoils(corpus: Corpus, report: CorpusReport, on_bad: OnBadPair) -> None:
    spoiling = [finding for finding in report.findings if finding.severity == "spoils"]
    if on_bad == "raise" and any(finding.kind in _BAD_LINES for finding in spoiling):
        _refuse_bad_lines(corpus)
    for finding in spoiling:
        if finding.kind not in _BAD_LINES:
            where = f" (line {finding.lines[0]})" if finding.lines else ""
            all_the_same = "" if finding.kind in _HOPELESS else "; or train all the same with --set data.doctor=false"
            hint = finding.advice.rstrip(".") + all_the_same
            raise DataError(f"{corpus.name}: {finding.message}{where}", hint=hint)


def _refuse_bad_lines(corpus: Corpus) -> None:
    """Read on to the first line that is not text, for an error that names it."""
    try:
        count_pairs(corpus)
    except DataError as error:
        raise DataError(error.message, hint=f"{error.hint}; or leave such lines out: --set data.on_bad=skip") from error


def _stage(show: ShowProgress, stage: str) -> Any:
    return lambda done, total: show(stage, done, total)


def _digest(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()

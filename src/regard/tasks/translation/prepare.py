"""From text files to token stores: examine, build the vocabulary, encode. Results are cached in `data/`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.artifact import Description
from regard.data import TokenStore, build_store, open_store
from regard.data.build import LinePair
from regard.errors import DataError, RunError
from regard.processes import n_cores
from regard.tasks.task import OnProgress
from regard.tasks.translation.sections import DataConfig, TextConfig
from regard.tasks.vocabulary import cached_tokenizers, digest
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
    normalise,
    train_tokenizer,
)
from regard.text.corpus import OnBadPair
from regard.text.language_profile import make_profile
from regard.text.languages import Languages, find_languages
from regard.text.lines import require_file

MAX_PROFILE_PAIRS = 4_000  # of all corpora together; letter frequencies are stable long before
KEPT_HELD_OUT = 0.02  # share of the general text that measures whether a fine-tuned model has forgotten
MIN_UNSEEN = 0.5  # of the held-out pairs; with fewer, targets repeat by nature: they are answers, labels or numbers
MIN_PAIRS_FOR_USUAL_SHARE = 1_000  # with fewer, the usual share may hold out no pair at all

FileStates = tuple[tuple[int, int, int], ...]

_BAD_LINES = {"invalid-text", "tabs"}  # findings of the doctor about lines that can be skipped
_FATAL = {"empty", "unequal-counts"}  # findings that no setting can override


@dataclass(frozen=True)
class Corpora:
    """The text of a run, and how it is split into training and validation sets."""

    train: tuple[Corpus, ...]
    keep: tuple[Corpus, ...]  # general text, for fine-tuning
    validation: tuple[Corpus, ...]
    on_bad: OnBadPair
    held_out: float  # share of the training text that is held out; 0 where there is a validation set
    seed: int  # decides which pairs are held out
    fingerprint: str
    file_states: FileStates = ()  # when the fingerprint was computed

    @classmethod
    def of(cls, data: DataConfig, seed: int) -> Corpora:
        """The corpora of a complete recipe; raises RunError if a file has changed since the run began."""
        states = file_states(data)
        current = fingerprint_all(data)
        if data.fingerprint is not None and current != data.fingerprint:
            raise _changed("the training text has changed since this run began")
        train, keep, validation = (
            tuple(config.corpus() for config in part) for part in (data.train, data.keep, data.validation)
        )
        held_out = 0.0 if data.validation else data.held_out or 0.0
        return cls(train, keep, validation, data.on_bad, held_out, seed, current, states)

    @property
    def key(self) -> str:
        """Changes with any pair, its tag, or whether it is for training or validation."""
        tags = [corpus.tag for corpus in self.all]
        kept = [len(self.keep)] if self.keep else []  # a run of an older version has the same key
        return digest(self.fingerprint, self.held_out, self.seed, self.on_bad, len(self.train), tags, *kept)

    @property
    def all(self) -> tuple[Corpus, ...]:
        return (*self.train, *self.keep, *self.validation)

    @property
    def learned(self) -> tuple[Corpus, ...]:
        return (*self.train, *self.keep)

    def training_pairs(self) -> Iterator[LinePair]:
        """(source, target, number of the corpus), without the held-out pairs."""
        for pair in _all_pairs(self.learned, self.on_bad):
            share = self.held_out if pair[2] < len(self.train) else KEPT_HELD_OUT
            if not share or not is_held_out(pair[0], share, self.seed):
                yield pair
        self.require_unchanged()

    def general_pairs(self) -> Iterator[LinePair]:
        """The held-out pairs of the general text."""
        yield from self._unseen(self.keep, KEPT_HELD_OUT)
        self.require_unchanged()

    def validation_pairs(self) -> Iterator[LinePair]:
        """The pairs of the validation corpora, or the held-out pairs of the training corpora."""
        given = _all_pairs(self.validation, self.on_bad)
        n_pairs = 0
        for pair in given if self.validation else self._unseen(self.train, self.held_out):
            n_pairs += 1
            yield pair
        if n_pairs == 0:
            raise DataError(
                f"the validation set is empty (data.held_out is {self.held_out:g})",
                hint="raise data.held_out, or give --valid-source and --valid-target",
            )
        self.require_unchanged()

    def _unseen(self, corpora: tuple[Corpus, ...], share: float) -> Iterator[LinePair]:
        """The held-out pairs whose target is not in the training set with another source."""
        held_out = [pair for pair in _all_pairs(corpora, self.on_bad) if is_held_out(pair[0], share, self.seed)]
        targets = [_folded(pair[1]) for pair in held_out]
        wanted = set(targets)
        seen = {target for pair in self.training_pairs() if (target := _folded(pair[1])) in wanted}
        unseen = [pair for pair, target in zip(held_out, targets, strict=True) if target not in seen]
        return iter(unseen if len(unseen) >= MIN_UNSEEN * len(held_out) else held_out)

    def require_unchanged(self) -> None:
        """Raises RunError if a file was changed since `of`: vocabulary and token stores would be of different texts."""
        paths = [path for corpus in self.all for path in corpus.files]
        if _states(paths) != self.file_states and digest(*map(fingerprint, self.all)) != self.fingerprint:
            raise _changed("the training text was changed while it was being prepared")


def examine_corpora(data: DataConfig, on_progress: OnProgress) -> tuple[int, list[CorpusReport]]:
    """The number of training pairs without general text, and what the doctor reports about all of them.

    Reads all text once, so that errors in it are found before any time is spent on training.
    """
    train = [config.corpus() for config in data.learned]
    validation = [config.corpus() for config in data.validation]
    for path in (path for corpus in (*train, *validation) for path in corpus.files):
        require_file(path)
    for corpus in validation:
        count_pairs(corpus, on_bad=data.on_bad)
    if not data.doctor:
        return sum([count_pairs(corpus, on_bad=data.on_bad) for corpus in train][: len(data.train)]), []
    progress = [partial(on_progress, f"examining {corpus.name}") for corpus in train]
    examined = [
        examine(corpus, against=validation, progress=part) for corpus, part in zip(train, progress, strict=True)
    ]
    reports = [_leaks_as_warnings(report) for report in examined]
    for corpus, report in zip(train, reports, strict=True):
        _raise_on_errors(corpus, report, data.on_bad)
    return sum(report.n_pairs for report in reports[: len(data.train)]), reports


def file_states(data: DataConfig) -> FileStates:
    """Size, time and identity of every file: if these stay the same, so does its content."""
    return _states([path for config in (*data.learned, *data.validation) for path in config.corpus().files])


def data_values(data: DataConfig, n_pairs: int, seed: int) -> dict[str, Any]:
    """The values of [data] that depend on the files."""
    held_out = data.held_out
    if held_out is None:
        held_out = 0.0 if data.validation else _default_held_out(data, n_pairs, seed)
    return {"held_out": held_out, "fingerprint": fingerprint_all(data)}


def fingerprint_all(data: DataConfig) -> str:
    """Changes with any byte of any file."""
    return digest(*(fingerprint(config.corpus()) for config in (*data.learned, *data.validation)))


def language_facts(corpora: Corpora, text: TextConfig, parent: Description | None) -> dict[str, Any]:
    """Languages from the recipe, the file names or the parent model; profiles from the first lines of the text."""
    languages = find_languages(corpora.train, text.source_language, text.target_language)
    if parent is not None:
        known = Languages.from_facts(parent.facts)
        languages = Languages(languages.source or known.source, languages.targets or known.targets)
    profiles = {code: make_profile(_lines_in(corpora, languages, code)) for code in languages.all}
    seen = {code: profile for code, profile in profiles.items() if profile is not None}
    return {"languages": languages.to_facts(), "profiles": seen}


def make_tokenizers(directory: Path, corpora: Corpora, text: TextConfig, on_progress: OnProgress) -> TokenizerPair:
    """One joint vocabulary or one per language, built from the training pairs only; cached in `directory`."""
    settings = text.model_dump_json(include={"kind", "joint", "vocabulary"})
    names = ("tokenizer",) if text.joint else ("source", "target")
    tags = sorted({corpus.tag for corpus in corpora.train if corpus.tag is not None})

    def train() -> TokenizerPair:
        on_progress("building the vocabulary", 0, None)
        models = (
            train_tokenizer(_lines(corpora, name), size=text.vocabulary, kind=text.kind, tags=tags, seed=corpora.seed)
            for name in names
        )
        built = [Tokenizer(model) for model in models]
        return TokenizerPair(built[0], built[-1])

    return cached_tokenizers(directory, digest(corpora.key, settings), train)


def make_stores(
    directory: Path, corpora: Corpora, tokenizers: TokenizerPair, max_length: int, on_progress: OnProgress
) -> tuple[TokenStore, TokenStore, TokenStore | None]:
    """The training set, the validation set, and held-out general text, as token ids; cached in `directory`."""
    vocabularies = digest(tokenizers.source.to_bytes(), tokenizers.target.to_bytes())
    key = digest(corpora.key, vocabularies, max_length)

    def store(name: str, parts: tuple[Corpus, ...], pairs: Iterator[LinePair]) -> TokenStore:
        return open_store(directory / name, key) or build_store(
            directory / name,
            pairs,
            lambda chunk: _encode(tokenizers, parts, chunk),
            max_length=max_length,
            vocab_size=max(tokenizers.source.size, tokenizers.target.size),
            key=key,
            n_workers=n_cores(),
            progress=lambda done: on_progress(f"encoding {name} pairs", done, None),
        )

    train = store("train", corpora.learned, corpora.training_pairs())
    validation = store("validation", corpora.validation or corpora.train, corpora.validation_pairs())
    return train, validation, store("general", corpora.keep, corpora.general_pairs()) if corpora.keep else None


def corpus_weights(data: DataConfig, train: TokenStore) -> NDArray[np.float32]:
    """How often each training pair occurs in an epoch; general text at most as often as all other text together."""
    weights = [corpus.weight for corpus in data.learned]
    counts = np.bincount(train.corpora, minlength=len(weights))
    n_own, n_kept = counts[: len(data.train)].sum(), counts[len(data.train) :].sum()
    for number in range(len(data.train), len(weights)):
        weights[number] *= min(1.0, n_own / max(1, n_kept))
    return np.array(weights, dtype=np.float32)[train.corpora]


def _states(paths: list[Path]) -> FileStates:
    return tuple(map(_state, paths))


def _state(path: Path) -> tuple[int, int, int]:
    try:
        state = path.stat()
    except OSError:  # reading the file will report it
        return 0, 0, 0
    return state.st_size, state.st_mtime_ns, state.st_ino


def _changed(message: str) -> RunError:
    return RunError(message, hint="restore the original files, or train in another directory")


def _default_held_out(data: DataConfig, n_pairs: int, seed: int) -> float:
    """The usual share; for a very small corpus, the nearest one that holds out at least one pair and at most half."""
    usual = held_out_share(n_pairs)
    if n_pairs >= MIN_PAIRS_FOR_USUAL_SHARE:
        return usual
    sources = [pair[0] for pair in _all_pairs(tuple(config.corpus() for config in data.train), data.on_bad)]
    shares = sorted((part / 128 for part in range(1, 128)), key=lambda share: abs(share - usual))
    for share in (usual, *shares):
        if 0 < sum(is_held_out(source, share, seed) for source in sources) <= len(sources) // 2:
            return share
    n_different = len({normalise(source).casefold() for source in sources})
    counted = f"{len(sources)}" if n_different == len(sources) else f"{len(sources)}, {n_different} of them different"
    raise DataError(
        f"too few pairs ({counted}) to hold out a validation set",
        hint="add more text, or give a validation set with --valid-source and --valid-target",
    )


def _folded(text: str) -> str:
    return normalise(text).casefold()


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


def _lines_in(corpora: Corpora, languages: Languages, code: str) -> Iterator[str]:
    """The first lines in a language, from every corpus that has it."""
    n_pairs = 1 + MAX_PROFILE_PAIRS // len(corpora.train)
    for corpus in corpora.train:
        target_language = corpus.tag or languages.targets[0] if languages.targets else None
        for source, target in islice(corpus.pairs(on_bad=corpora.on_bad), n_pairs):
            if code == languages.source:
                yield source
            if code == target_language:
                yield target


def _encode(
    tokenizers: TokenizerPair, corpora: tuple[Corpus, ...], chunk: list[LinePair]
) -> tuple[list[list[int]], list[list[int]]]:
    tag_ids = [[] if corpus.tag is None else tokenizers.source.encode("", tag=corpus.tag) for corpus in corpora]
    sources = tokenizers.source.encode_many(source for source, _, _ in chunk)
    tagged = [tag_ids[number] + ids for (_, _, number), ids in zip(chunk, sources, strict=True)]
    return tagged, tokenizers.target.encode_many(target for _, target, _ in chunk)


def _leaks_as_warnings(report: CorpusReport) -> CorpusReport:
    """Validation text inside the training text makes scores too good, not the model worse: reported, not refused."""
    findings = (replace(item, severity="warning") if item.kind == "leak" else item for item in report.findings)
    return replace(report, findings=tuple(findings))


def _raise_on_errors(corpus: Corpus, report: CorpusReport, on_bad: OnBadPair) -> None:
    """Raises DataError for the first finding that would make the training useless."""
    errors = [finding for finding in report.findings if finding.severity == "spoils"]
    if on_bad == "raise" and any(finding.kind in _BAD_LINES for finding in errors):
        _raise_on_bad_line(corpus)
    for finding in errors:
        if finding.kind not in _BAD_LINES:
            where = f" (line {finding.lines[0]})" if finding.lines else ""
            anyway = "" if finding.kind in _FATAL else "; or train anyway with --set data.doctor=false"
            raise DataError(f"{corpus.name}: {finding.message}{where}", hint=finding.advice.rstrip(".") + anyway)


def _raise_on_bad_line(corpus: Corpus) -> None:
    """Reads the corpus again up to its first bad line, for an error with the line number."""
    try:
        count_pairs(corpus)
    except DataError as error:
        raise DataError(error.message, hint=f"{error.hint}; or skip such lines with --set data.on_bad=skip") from error

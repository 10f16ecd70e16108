"""From text files to token stores: examine, build the vocabulary, encode. Results are cached in `data/`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from regard.artifact import Description
from regard.data import TokenStore, open_store, write_store
from regard.data.build import LinePair
from regard.data.shards import ShardedStore, ShardIndex
from regard.errors import ArtifactError, DataError, RecipeError
from regard.processes import ordered_map
from regard.tasks.sections import changed_error
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
    read_tokenizers,
    train_tokenizer,
)
from regard.text.blocks import RawBlock, total_bytes, useful_processes
from regard.text.code_points import Hashes
from regard.text.corpus import OnBadPair
from regard.text.doctor.examine import EarlierPairs
from regard.text.encoding import EncodedBlock, Encoding, Split, encode_block, training_lines
from regard.text.language_profile import make_profile
from regard.text.languages import Languages, find_languages
from regard.text.lines import require_file
from regard.translator.protected import number_facts
from regard.translator.splitting import sentence_facts

MAX_PROFILE_PAIRS = 4_000  # of all corpora together; letter frequencies are stable long before
KEPT_HELD_OUT = 0.02  # share of the general text that measures whether a fine-tuned model has forgotten
MIN_UNSEEN = 0.5  # of the held-out pairs; with fewer, targets repeat by nature: they are answers, labels or numbers
MIN_PAIRS_FOR_USUAL_SHARE = 1_000  # with fewer, the usual share may hold out no pair at all

Encode = Callable[[Corpus, OnBadPair, Split], Encoding]
OnBytes = Callable[[int], None]  # called with the number of bytes read
FileStates = tuple[tuple[int, int, int], ...]

_HASH_BYTES = 1 << 20  # that are compared at once
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
            raise changed_error("the training text has changed since this run began")
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

    @property
    def splits(self) -> tuple[Split, ...]:
        """What is held out of each corpus that is trained on."""
        own, kept = Split(self.held_out, self.seed), Split(KEPT_HELD_OUT, self.seed)
        return (own,) * len(self.train) + (kept,) * len(self.keep)

    def encoded(
        self, corpora: Sequence[Corpus], splits: Sequence[Split], how: Encode, on_bytes: OnBytes
    ) -> Iterator[tuple[int, EncodedBlock, EncodedBlock]]:
        """The number of the corpus, the training pairs and the held-out pairs of each block."""
        encodings = [how(corpus, self.on_bad, split) for corpus, split in zip(corpora, splits, strict=True)]
        blocks = _blocks(corpora, on_bytes)
        yield from ordered_map(partial(encode_block, encodings), blocks, _processes(corpora))
        self.require_unchanged()

    def require_unchanged(self) -> None:
        """Raises RunError if a file was changed since `of`: vocabulary and token stores would be of different texts."""
        paths = [path for corpus in self.all for path in corpus.files]
        if _states(paths) != self.file_states and digest(*map(fingerprint, self.all)) != self.fingerprint:
            raise changed_error("the training text was changed while it was being prepared")


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
    earlier = EarlierPairs()
    examined = [
        examine(corpus, against=validation, earlier=earlier, progress=part)
        for corpus, part in zip(train, progress, strict=True)
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
            train_tokenizer(
                _lines(corpora, name, on_progress),
                size=text.vocabulary,
                kind=text.kind,
                tags=tags,
                seed=corpora.seed,
                normalised=True,
            )
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
    names = ("train", "validation", "general") if corpora.keep else ("train", "validation")
    stores = [open_store(directory / name, key) for name in names]
    if None in stores:
        size = max(tokenizers.source.size, tokenizers.target.size)
        write = partial(write_store, max_length=max_length, vocab_size=size, key=key)
        parts = _encode(corpora, partial(Encoding, tokenizers=tokenizers, max_length=max_length), on_progress)
        stores = [write(directory / name, part) for name, part in zip(names, parts, strict=True)]
    train, validation, *general = stores
    assert train is not None and validation is not None
    return train, validation, general[0] if general else None


def _encode(corpora: Corpora, how: Encode, on_progress: OnProgress) -> Iterator[Iterable[EncodedBlock]]:
    """The blocks of the training set, of the validation set, and of the held-out general text.

    The text is read once, so the first have to be consumed before the others.
    """
    held_out: list[EncodedBlock] = []
    general: list[EncodedBlock] = []
    with tempfile.TemporaryFile() as seen:  # hashes of all targets

        def training() -> Iterator[EncodedBlock]:
            on_bytes = _byte_progress("encoding", corpora.learned, on_progress)
            for number, train, held in corpora.encoded(corpora.learned, corpora.splits, how, on_bytes):
                if number < len(corpora.train):
                    held_out.append(held)
                else:
                    general.append(replace(held, corpora=held.corpora - np.uint8(len(corpora.train))))
                seen.write(train.target_hashes.tobytes())
                yield train

        yield training()
        if corpora.validation:
            splits = [Split(0.0, corpora.seed)] * len(corpora.validation)
            on_bytes = _byte_progress("encoding validation pairs", corpora.validation, on_progress)
            held_out = [block for _, block, _ in corpora.encoded(corpora.validation, splits, how, on_bytes)]
        else:
            held_out = unseen(held_out, _stored(seen))
        if not sum(block.n_read for block in held_out):
            raise DataError(
                f"the validation set is empty (data.held_out is {corpora.held_out:g})",
                hint="raise data.held_out, or give --valid-source and --valid-target",
            )
        yield held_out
        if corpora.keep:
            yield unseen(general, _stored(seen))


def _stored(file: IO[bytes]) -> Iterator[Hashes]:
    """All hashes that have been written to a file."""
    file.seek(0)
    while data := file.read(_HASH_BYTES):
        yield np.frombuffer(data, np.uint64)
    file.seek(0, os.SEEK_END)


def unseen(held_out: list[EncodedBlock], training: Iterable[Hashes]) -> list[EncodedBlock]:
    """The held-out pairs whose target is not in the training set, given by hashes, with another source."""
    wanted = np.unique(np.concatenate([block.target_hashes for block in held_out] or [np.zeros(0, np.uint64)]))
    seen = np.unique(np.concatenate([part[np.isin(part, wanted)] for part in training] or [wanted[:0]]))
    kept = [block.select(~np.isin(block.target_hashes, seen)) for block in held_out]
    n_kept, n_all = (sum(len(block.corpora) for block in blocks) for blocks in (kept, held_out))
    return kept if n_kept >= MIN_UNSEEN * n_all else held_out


def text_facts(
    pairs: Sequence[tuple[list[int], list[int]]], tokenizers: TokenizerPair, languages: dict[str, Any]
) -> dict[str, float]:
    """What the training text is like: sentences per line, whether its translations keep numbers."""
    texts = [(tokenizers.source.decode(source), tokenizers.target.decode(target)) for source, target in pairs]
    return sentence_facts((source for source, _ in texts), languages) | number_facts(texts)


def store_values(store: Path, text: TextConfig) -> dict[str, Any]:
    """The values of a recipe that follow from a store of shards; raises RecipeError for other ones in the recipe."""
    index = ShardIndex.read(store)
    for name in text.model_fields_set - {"sampling"}:
        if (value := text.model_dump(mode="json")[name]) != (stored := index.text.get(name)):
            raise RecipeError(f"text.{name} cannot be {value!r}: it is {stored!r} in {store}", hint="leave it out")
    return {"data": {"fingerprint": index.key, "held_out": 0.0}, "text": dict(index.text)}


def open_shards(store: Path, fingerprint: str | None) -> tuple[ShardedStore, TokenStore, TokenizerPair]:
    """The training set, the validation set and the vocabulary of a store of shards."""
    index = ShardIndex.read(store)
    if index.key != fingerprint:
        raise changed_error(f"{store} has changed since this run began")
    validation = open_store(store / "validation", index.key)
    if validation is None:
        raise ArtifactError(f"{store / 'validation'} is damaged", hint=f"run regard encode --out {store} --join")
    return ShardedStore(store, index), validation, read_tokenizers(store / "tokenizer")


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


def _all_pairs(corpora: tuple[Corpus, ...], on_bad: OnBadPair) -> Iterator[LinePair]:
    for number, corpus in enumerate(corpora):
        for source, target in corpus.pairs(on_bad=on_bad):
            yield source, target, number


def _lines(corpora: Corpora, name: str, on_progress: OnProgress) -> Iterator[str]:
    """All lines that are trained on, normalised."""
    learned = list(zip(corpora.learned, corpora.splits, strict=True))
    read = partial(training_lines, learned, corpora.on_bad)
    blocks = _blocks(corpora.learned, _byte_progress("building the vocabulary", corpora.learned, on_progress))
    for sources, targets in ordered_map(read, blocks, _processes(corpora.learned)):
        if name == "tokenizer":
            yield from chain.from_iterable(zip(sources, targets, strict=True))
        else:
            yield from sources if name == "source" else targets
    corpora.require_unchanged()


def _blocks(corpora: Sequence[Corpus], on_bytes: OnBytes) -> Iterator[tuple[int, RawBlock]]:
    """The blocks of all corpora, each with the number of its corpus."""
    n_bytes = 0
    for number, corpus in enumerate(corpora):
        for block in corpus.blocks():
            yield number, block
            n_bytes += sum(map(len, block.files))
            on_bytes(n_bytes)


def _byte_progress(stage: str, corpora: Sequence[Corpus], on_progress: OnProgress) -> OnBytes:
    total = total_bytes(path for corpus in corpora for path in corpus.files)
    return lambda n_bytes: on_progress(stage, n_bytes if total is None else min(n_bytes, total), total)


def _processes(corpora: Sequence[Corpus]) -> int:
    return useful_processes(path for corpus in corpora for path in corpus.files)


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

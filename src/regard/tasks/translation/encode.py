"""Encodes a large corpus into a store of shards: planned once, built in parts by any number of processes and machines.

What is in a shard is decided by the plan alone, so it is the same, byte for byte, on every machine. A part that was
killed is built again; shards that are finished are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from regard.artifact import describe
from regard.data import write_store
from regard.data.shards import ShardedStore, ShardEntry, ShardIndex, shard_path, shards_per_window
from regard.durable import commit_directory, make_directory, read_regular_file, remove_leftovers, write_file
from regard.errors import DataError, RunError
from regard.processes import ordered_map
from regard.ray_tasks import ray_map
from regard.tasks.task import OnProgress
from regard.tasks.translation.prepare import (
    Corpora,
    data_values,
    fingerprint_all,
    language_facts,
    text_facts,
    unseen,
)
from regard.tasks.translation.sections import DataConfig, TextConfig
from regard.tasks.vocabulary import digest
from regard.text import Corpus, Tokenizer, TokenizerPair, read_tokenizers, train_tokenizer
from regard.text.blocks import LineRange, RawBlock, line_ranges
from regard.text.code_points import Hashes
from regard.text.encoding import EncodedBlock, EncodedSide, Encoding, Split, encode_block, training_lines

PLAN_NAME = "plan.json"
LINES_PER_SHARD = 500_000
MAX_LINES_PER_SHARD = 5_000_000
VOCABULARY_PAIRS = 1_000_000  # the vocabulary is built from the first lines of every shard
SAMPLED_PAIRS = 20_000  # to see what the text is like
_MAX_PLAN_BYTES = 100_000_000
_HELD_OUT, _HASHES = "held-out.npz", "target.hashes"  # in the `join` directory of a shard
_ARRAYS = ("source_ids", "source_lengths", "target_ids", "target_lengths", "corpora", "target_hashes", "counts")


class ShardSpec(BaseModel, frozen=True, extra="forbid"):
    """The lines of a shard."""

    corpus: int
    lines: LineRange


class EncodingPlan(BaseModel, frozen=True, extra="forbid"):
    """Everything that the shards depend on; the content of plan.json."""

    data: DataConfig
    text: TextConfig
    seed: int
    n_lines: int
    shards: tuple[ShardSpec, ...]
    vocabularies: str  # digest of the tokenizers

    @property
    def key(self) -> str:
        return digest(self.model_dump_json())

    @property
    def corpora(self) -> tuple[Corpus, ...]:
        return tuple(config.corpus() for config in self.data.train)

    @classmethod
    def read(cls, out: Path) -> EncodingPlan:
        """Raises RunError if there is none."""
        if not (out / PLAN_NAME).exists():
            raise RunError(
                f"there is no {PLAN_NAME} in {out}", hint="name the files with --source and --target, or --tsv"
            )
        try:
            return cls.model_validate_json(read_regular_file(out / PLAN_NAME, _MAX_PLAN_BYTES))
        except ValidationError as error:
            hint = "remove it, and encode again"
            raise RunError(f"{out / PLAN_NAME} is damaged, or of another version of regard", hint=hint) from error


def plan_encoding(
    out: Path,
    data: DataConfig,
    text: TextConfig,
    *,
    seed: int,
    lines_per_shard: int | None,  # LINES_PER_SHARD, or as in the plan that is there
    start_from: Path | None,
    n_processes: int,
    on_progress: OnProgress,
) -> EncodingPlan:
    """Counts lines, builds the vocabulary and writes the plan; or reads it, if it is there already."""
    make_directory(out)
    remove_leftovers(out)
    if data.keep:
        raise DataError("a token store has no general text", hint="drop data.keep")
    fingerprint = fingerprint_all(data)
    if (out / PLAN_NAME).exists():
        plan = EncodingPlan.read(out)
        _require_same(plan, data, text, fingerprint, lines_per_shard, out)
        return plan
    lines_per_shard = lines_per_shard or LINES_PER_SHARD
    corpora = [config.corpus() for config in data.train]
    shards = []
    for number, corpus in enumerate(corpora):
        for done, lines in enumerate(line_ranges(corpus.files, lines_per_shard)):
            shards.append(ShardSpec(corpus=number, lines=lines))
            on_progress(f"counting the lines of {corpus.name}", (done + 1) * lines_per_shard, None)
    n_lines = sum(shard.lines.n_lines for shard in shards)
    values = data_values(data, n_lines, seed) | {"fingerprint": fingerprint}
    data = data.model_copy(update=values)
    if start_from is not None:
        tokenizers = describe(start_from).tokenizers
        text = text.model_copy(update={"joint": tokenizers.joint, "kind": tokenizers.target.kind})
    else:
        tokenizers = _train_tokenizers(data, text, seed, shards, n_lines, n_processes, on_progress)
    files = tokenizers.files()

    def write(temporary: Path) -> None:
        for name, content in files.items():
            (temporary / name).write_bytes(content)

    commit_directory(out / "tokenizer", write)
    plan = EncodingPlan(
        data=data, text=text, seed=seed, n_lines=n_lines, shards=tuple(shards), vocabularies=_digest(tokenizers)
    )
    write_file(out / PLAN_NAME, (plan.model_dump_json(indent=1) + "\n").encode())
    return plan


def build_shards(
    out: Path,
    plan: EncodingPlan,
    part: tuple[int, int],
    n_processes: int,
    on_progress: OnProgress,
    ray: str | None = None,
) -> None:
    """Builds the shards of part i of n, counted from 1, that are not there yet: here, or on the Ray cluster `ray`."""
    make_directory(out / "shards")
    remove_leftovers(out / "shards")
    mine = range(part[0] - 1, len(plan.shards), part[1])
    missing = [number for number in mine if ShardEntry.of(shard_path(out, number), _shard_key(plan, number)) is None]
    total = sum(plan.shards[number].lines.n_lines for number in missing)
    done = 0
    on_progress("encoding", 0, total)
    build = partial(build_shard, out.absolute())
    n_processes = min(n_processes, len(missing))
    built = ordered_map(build, missing, n_processes) if ray is None else ray_map(build, missing, ray)
    for number in built:
        done += plan.shards[number].lines.n_lines
        on_progress("encoding", done, total)


def build_shard(out: Path, number: int) -> int:
    """Builds one shard, and returns its number."""
    plan = EncodingPlan.read(out)
    tokenizers = read_tokenizers(out / "tokenizer")
    if _digest(tokenizers) != plan.vocabularies:
        raise RunError(f"{out / 'tokenizer'} is not the one of the plan", hint="encode again in an empty directory")
    spec = plan.shards[number]
    corpus, split = plan.corpora[spec.corpus], Split(plan.data.held_out or 0.0, plan.seed)
    encoding = Encoding(corpus, plan.data.on_bad, split, tokenizers, plan.text.max_length)
    held_out: list[EncodedBlock] = []
    hashes: list[Hashes] = []

    def blocks() -> Iterator[EncodedBlock]:
        for raw in spec.lines.blocks(corpus.files):
            _, train, held = encode_block([encoding], (0, raw))
            held_out.append(held)
            hashes.append(train.target_hashes)
            yield train.of_corpus(spec.corpus)

    def write_rest(directory: Path) -> None:
        (directory / "join").mkdir()
        _save(directory / "join" / _HELD_OUT, [block.of_corpus(spec.corpus) for block in held_out])
        np.concatenate([*hashes, np.zeros(0, np.uint64)]).tofile(directory / "join" / _HASHES)

    write_store(
        shard_path(out, number),
        blocks(),
        max_length=plan.text.max_length,
        vocab_size=max(tokenizers.source.size, tokenizers.target.size),
        key=_shard_key(plan, number),
        write_rest=write_rest,
    )
    return number


def join_shards(out: Path, plan: EncodingPlan, on_progress: OnProgress) -> ShardIndex:
    """Checks that every shard is there, builds the validation set, and writes the index."""
    entries = [ShardEntry.of(shard_path(out, number), _shard_key(plan, number)) for number in range(len(plan.shards))]
    missing = [number for number, entry in enumerate(entries) if entry is None]
    if missing:
        some = ", ".join(map(str, missing[:5])) + (" …" if len(missing) > 5 else "")
        message = f"{len(missing)} of {len(entries)} shards are missing in {out}: {some}"
        raise RunError(message, hint=f"run `regard encode --out {out}` or the parts that were not finished")
    shards = tuple(entry for entry in entries if entry is not None)
    if fingerprint_all(plan.data) != plan.data.fingerprint:
        raise RunError("the text was changed while it was encoded", hint="encode it again in an empty directory")
    tokenizers = read_tokenizers(out / "tokenizer")
    corpora = Corpora.of(plan.data, plan.seed)
    size = max(tokenizers.source.size, tokenizers.target.size)
    on_progress("joining", 0, len(shards))
    held_out = _validation_blocks(out, plan, corpora, tokenizers)
    write_store(out / "validation", held_out, max_length=plan.text.max_length, vocab_size=size, key=plan.key)
    languages = language_facts(corpora, plan.text, None)
    index = ShardIndex(
        key=plan.key,
        shards=shards,
        shards_per_window=shards_per_window(shards),
        weights=tuple(corpus.weight for corpus in plan.corpora),
        max_length=plan.text.max_length,
        vocab_size=size,
        text=plan.text.model_dump(mode="json", exclude={"sampling"}, exclude_none=True) | {"vocabulary": size},
        facts={},
        files=tuple(path.name for corpus in plan.corpora for path in corpus.files),
    )
    if not sum(entry.n_pairs for entry in shards):
        raise DataError("no pairs to train on", hint="look at the text with `regard check`")
    pairs = ShardedStore(out, index).sample(SAMPLED_PAIRS)
    index = ShardIndex(**vars(index) | {"facts": {**languages, **text_facts(pairs, tokenizers, languages)}})
    index.write(out)
    on_progress("joining", len(shards), len(shards))
    return index


def _validation_blocks(
    out: Path, plan: EncodingPlan, corpora: Corpora, tokenizers: TokenizerPair
) -> Iterable[EncodedBlock]:
    if plan.data.validation:
        how = partial(Encoding, tokenizers=tokenizers, max_length=plan.text.max_length)
        splits = [Split(0.0, plan.seed)] * len(corpora.validation)
        return [block for _, block, _ in corpora.encoded(corpora.validation, splits, how, lambda n_bytes: None)]
    paths = [shard_path(out, number) / "join" for number in range(len(plan.shards))]
    held_out = [_load(path / _HELD_OUT) for path in paths]
    blocks = unseen(held_out, (np.fromfile(path / _HASHES, np.uint64) for path in paths))
    if not sum(block.n_read for block in blocks):
        hint = "raise data.held_out, or give --valid-source and --valid-target"
        raise DataError(f"the validation set is empty (data.held_out is {plan.data.held_out:g})", hint=hint)
    return blocks


def _train_tokenizers(
    data: DataConfig,
    text: TextConfig,
    seed: int,
    shards: Sequence[ShardSpec],
    n_lines: int,
    n_processes: int,
    on_progress: OnProgress,
) -> TokenizerPair:
    """From the first lines of every shard."""
    corpora = [(config.corpus(), Split(data.held_out or 0.0, seed)) for config in data.train]
    each = -(-VOCABULARY_PAIRS // max(1, len(shards)))

    def tasks() -> Iterator[tuple[int, RawBlock]]:
        for done, shard in enumerate(shards):
            on_progress("building the vocabulary", done, len(shards))
            first = replace(shard.lines, n_lines=min(each, shard.lines.n_lines))
            for block in first.blocks(corpora[shard.corpus][0].files):
                yield shard.corpus, block

    def train(side: int | None) -> Tokenizer:
        read = ordered_map(partial(training_lines, corpora, data.on_bad), tasks(), n_processes)
        if side is None:
            lines = (line for pairs in read for pair in zip(*pairs, strict=True) for line in pair)
        else:
            lines = (line for pairs in read for line in pairs[side])
        tags = sorted({corpus.tag for corpus, _ in corpora if corpus.tag is not None})
        options: dict[str, Any] = {"size": text.vocabulary, "kind": text.kind, "tags": tags, "seed": seed}
        n_all = n_lines * (2 if side is None else 1)
        return Tokenizer(train_tokenizer(lines, **options, normalised=True, n_lines=n_all))

    sides = [None] if text.joint else [0, 1]
    built = [train(side) for side in sides]
    return TokenizerPair(built[0], built[-1])


def _require_same(
    plan: EncodingPlan, data: DataConfig, text: TextConfig, fingerprint: str, lines_per_shard: int | None, out: Path
) -> None:
    """Raises RunError if the plan in a directory is of other text or settings."""
    hint = "encode in another directory, or give the same files and settings"
    if fingerprint != plan.data.fingerprint:
        raise RunError(f"the plan in {out} is of other text, or the text has changed", hint=hint)
    for before, now in ((plan.data, data), (plan.text, text)):
        for name in now.model_fields_set:
            if getattr(now, name) != getattr(before, name):
                raise RunError(f"the plan in {out} has another value of {name}", hint=hint)
    sizes = {  # of all shards but the last one of each corpus
        first.lines.n_lines for first, second in pairwise(plan.shards) if first.corpus == second.corpus
    }
    largest = max((shard.lines.n_lines for shard in plan.shards), default=0)
    if lines_per_shard is not None and (largest > lines_per_shard or sizes - {lines_per_shard}):
        raise RunError(f"the shards in {out} have {largest:,} lines, not {lines_per_shard:,}", hint=hint)


def _shard_key(plan: EncodingPlan, number: int) -> str:
    return digest(plan.key, number)


def _digest(tokenizers: TokenizerPair) -> str:
    return digest(tokenizers.source.to_bytes(), tokenizers.target.to_bytes())


def _save(path: Path, blocks: Sequence[EncodedBlock]) -> None:
    """Held-out pairs as plain arrays."""
    columns: list[list[Any]] = [
        [block.source.ids for block in blocks],
        [block.source.lengths for block in blocks],
        [block.target.ids for block in blocks],
        [block.target.lengths for block in blocks],
        [block.corpora for block in blocks],
        [block.target_hashes for block in blocks],
        [np.array([block.n_read, block.n_blank, block.n_too_long]) for block in blocks],
    ]
    arrays: dict[str, Any] = {name: np.concatenate(column) for name, column in zip(_ARRAYS, columns, strict=True)}
    np.savez(path, **arrays)


def _load(path: Path) -> EncodedBlock:
    with np.load(path, allow_pickle=False) as file:
        arrays = [file[name] for name in _ARRAYS]
    counts = arrays[6].reshape(-1, 3).sum(0).tolist()
    return EncodedBlock(EncodedSide(*arrays[0:2]), EncodedSide(*arrays[2:4]), arrays[4], arrays[5], *counts)

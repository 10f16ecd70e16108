"""Lines on which an exported model is compared with the original, and what the original makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import torch

from regard.artifact import Description, LoadedModel, max_length
from regard.data.store import STORE_ERRORS, open_store, read_meta
from regard.decoding import DecodingOptions, Hypothesis
from regard.engines.torch_engine import TorchEngine
from regard.errors import ArtifactError
from regard.text import TokenizerPair

N_LINES = 100
EXTRA_LENGTH = 10  # of a greedy translation, in tokens more than the source has
MIN_EQUAL = 0.95  # of the greedy translations: the order of additions may decide between two tokens
MAX_DIFFERENCE = 1e-3  # of a log-probability, in float32
IMPOSSIBLE = -1e3  # a log-probability below it is not compared: float32 has no digits left for it

_MAX_TOKENS = 60  # of a line


class Probe(NamedTuple):
    """The lines, their ids with the tag of the target language, and their greedy translations by torch in float32."""

    lines: list[str]
    tag: str | None
    sources: list[list[int]]
    hypotheses: list[Hypothesis]
    origin: str  # "lines of the validation text"

    @property
    def limits(self) -> list[int]:
        """The maximum number of tokens of each translation, with the end token."""
        return [len(source) + EXTRA_LENGTH for source in self.sources]

    def require(self, condition: bool, software: str, problem: str) -> None:
        """Raises ArtifactError unless the exported model does what the original does."""
        if not condition:
            raise ArtifactError(f"the export is wrong, and nothing was written: {software} {problem}")

    def compare(self, theirs: Sequence[Sequence[int]], software: str) -> str:
        """A sentence about how many greedy translations are equal; raises ArtifactError if they are too few.

        `theirs` may go on behind the limits of the lines, and end with anything behind the end token.
        """
        pairs = zip(self.hypotheses, theirs, self.limits, strict=True)
        n_equal = sum(list(ours.ids) == list(ids[: min(limit, len(ours.ids))]) for ours, ids, limit in pairs)
        self.require(
            n_equal >= MIN_EQUAL * len(self.lines),
            software,
            f"translates {n_equal} of {len(self.lines)} {self.origin} as torch does",
        )
        return f"greedy translations of {n_equal} of {len(self.lines)} {self.origin}"


def make_probe(described: Description, loaded: LoadedModel, n: int = N_LINES) -> Probe:
    """From the validation text of a run; a model directory has no text, so random tokens are joined into lines."""
    tokenizers, limit = loaded.tokenizers, min(_MAX_TOKENS, max_length(loaded.facts, loaded.config.max_length))
    lines = _validation_lines(described.directory.parent / "data" / "validation", tokenizers, n, limit)
    origin = "lines of the validation text" if lines else "lines of random tokens"
    lines = lines or _random_lines(tokenizers, n)
    tag = tokenizers.source.tags[0] if tokenizers.source.tags else None
    sources = [ids[:limit] for ids in tokenizers.source.encode_many(lines, tag=tag)]
    with torch.inference_mode():
        options = DecodingOptions(beam=1, extra_length=EXTRA_LENGTH)
        hypotheses = [found[0] for found in TorchEngine(loaded).translate(sources, options)]
    return Probe(lines, tag, sources, hypotheses, origin)


def _validation_lines(directory: Path, tokenizers: TokenizerPair, n: int, limit: int) -> list[str]:
    """Lines from everywhere in the store of a run."""
    try:
        store = open_store(directory, read_meta(directory).key)
    except STORE_ERRORS:
        return []
    if store is None or store.meta.vocab_size > max(tokenizers.source.size, tokenizers.target.size):
        return []
    every = max(1, len(store) // n)
    sources = (store.pair(i)[0].tolist() for i in range(0, len(store), every))
    lines = [tokenizers.source.decode(ids) for ids in sources if len(ids) < limit - 5]
    return [line for line in lines if line][:n]


def _random_lines(tokenizers: TokenizerPair, n: int) -> list[str]:
    rng, tokenizer = Random(1), tokenizers.source
    lines = [tokenizer.decode(rng.choices(range(4, tokenizer.size), k=rng.randint(1, 20))) for _ in range(2 * n)]
    return [line for line in lines if line and len(tokenizer.encode(line)) < _MAX_TOKENS][:n]

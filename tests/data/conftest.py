"""A made-up language for the tests of `data`: each word is a number, which is also its id."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from regard.data import TokenStore, build_store

VOCAB_SIZE = 1000
StoreMaker = Callable[..., TokenStore]


def encode_numbers(pairs: list[tuple[str, str, int]]) -> tuple[list[list[int]], list[list[int]]]:
    """The ids of lines such as `12 7 7`."""
    sources, targets = ([[int(word) for word in pair[side].split()] for pair in pairs] for side in (0, 1))
    return sources, targets


def make_pairs(n_pairs: int, *, max_length: int = 30, n_corpora: int = 1) -> Iterable[tuple[str, str, int]]:
    """Random but deterministic pairs."""
    rng = np.random.default_rng(7)
    for index in range(n_pairs):
        source, target = (rng.integers(4, VOCAB_SIZE, size=rng.integers(1, max_length + 1)) for _ in range(2))
        yield " ".join(map(str, source)), " ".join(map(str, target)), index % n_corpora


@pytest.fixture
def make_store(tmp_path: Path) -> StoreMaker:
    """A function that builds a store of random pairs."""

    def make(n_pairs: int, *, n_corpora: int = 1) -> TokenStore:
        pairs = make_pairs(n_pairs, n_corpora=n_corpora)
        directory = tmp_path / f"tokens-{n_pairs}-{n_corpora}"
        return build_store(directory, pairs, encode_numbers, max_length=30, vocab_size=VOCAB_SIZE, key="k")

    return make

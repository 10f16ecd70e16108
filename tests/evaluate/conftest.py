"""Translations that are wrong in places, from a seed."""

import random
from collections.abc import Callable
from itertools import product

import pytest

_SYLLABLES = ("ba", "re", "ti", "lo", "mu", "sen", "kar", "flo", "wei", "dä")
# many words: TER looks for phrases that moved, which takes long where the same words come again and again
WORDS = ["".join(one) for one in product(_SYLLABLES, repeat=3)] + [",", "-"]

N_SENTENCES = 120

Spoil = Callable[[list[str], float, int], list[str]]


@pytest.fixture(scope="session")
def references() -> list[str]:
    rng = random.Random(1)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 35))).capitalize() + "." for _ in range(N_SENTENCES)]


@pytest.fixture(scope="session")
def spoil() -> Spoil:
    """Replace, drop and move words of each line with a probability."""

    def spoiled(lines: list[str], share: float, seed: int) -> list[str]:
        rng = random.Random(seed)
        out = []
        for line in lines:
            words = [rng.choice(WORDS) if rng.random() < share else word for word in line.split()]
            words = [word for word in words if rng.random() > share / 3]
            if words and rng.random() < share:
                words.insert(rng.randrange(len(words)), words.pop())
            out.append(" ".join(words))
        return out

    return spoiled

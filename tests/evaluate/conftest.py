"""Random references, and copies of them with random errors."""

import random
from collections.abc import Callable
from itertools import product

import pytest

_SYLLABLES = ("ba", "re", "ti", "lo", "mu", "sen", "kar", "flo", "wei", "dä")
# many words: TER searches for moved phrases, which is slow if words repeat often
WORDS = ["".join(syllables) for syllables in product(_SYLLABLES, repeat=3)] + [",", "-"]

N_SENTENCES = 120

Corrupt = Callable[[list[str], float, int], list[str]]


@pytest.fixture(scope="session")
def references() -> list[str]:
    rng = random.Random(1)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 35))).capitalize() + "." for _ in range(N_SENTENCES)]


@pytest.fixture(scope="session")
def corrupt() -> Corrupt:
    """Replace, drop and move words of each line with a probability."""

    def corrupted(lines: list[str], share: float, seed: int) -> list[str]:
        rng = random.Random(seed)
        out = []
        for line in lines:
            words = [rng.choice(WORDS) if rng.random() < share else word for word in line.split()]
            words = [word for word in words if rng.random() > share / 3]
            if words and rng.random() < share:
                words.insert(rng.randrange(len(words)), words.pop())
            out.append(" ".join(words))
        return out

    return corrupted

"""The addition corpora: pairs of binary numbers and their sums, as text.

Numbers are written from the lowest bit (little-endian), in the order in which one adds: "1 1 0 + 1 0 0" is 3 + 1, and
its target "0 0 1 0" is 4, with one bit more. In columns, "1+1 1+0 0+0 0+0", a model has to learn only the carry; else
also to bring the two numbers together. Models learn sums of up to 20 bits. Whether they learned the algorithm shows in
longer ones, and where a carry runs through the whole number, which is rare in random sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Literal

from regard.durable import make_directory, write_file

Pair = tuple[str, str]  # source, target
Form = Literal["addition", "addition-in-columns"]
Bits = list[int]  # from the lowest

N_BITS = 20  # of the longest numbers in the training set
TEST_BITS = (20, 40, 100)
SEED = 1
LONG_CARRIES = 0.9  # probability that a bit passes a carry on, in half of the training set; in random sums 0.5


def to_pair(a: Bits, b: Bits, form: Form = "addition") -> Pair:
    """Two numbers of n bits, and their sum of n + 1 bits."""
    carry, total = 0, []
    for x, y in zip(a, b, strict=True):
        carry, bit = divmod(x + y + carry, 2)
        total.append(bit)
    columns = (f"{x}+{y}" for x, y in zip([*a, 0], [*b, 0], strict=True))
    source = f"{_text(a)} + {_text(b)}" if form == "addition" else " ".join(columns)
    return source, _text([*total, carry])


def random_sum(n_bits: int, rng: Random, passing: float = 0.5, form: Form = "addition") -> Pair:
    """`passing` is the probability that a bit passes a carry on: that the two numbers differ there."""
    a = [rng.randrange(2) for _ in range(n_bits)]
    return to_pair(a, [1 - bit if rng.random() < passing else bit for bit in a], form)


def carry_through(n_bits: int, rng: Random, form: Form = "addition") -> Pair:
    """A sum with a carry from the lowest bit to the highest."""
    a = [1, *(rng.randrange(2) for _ in range(n_bits - 1))]
    return to_pair(a, [1, *(1 - bit for bit in a[1:])], form)


def make_corpus(
    seed: int,
    form: Form = "addition",
    *,
    n_bits: int = N_BITS,
    n_train: int = 50_000,
    n_valid: int = 500,
    n_test: int = 200,
) -> dict[str, list[Pair]]:
    """`train` and `validation`, which share no sum; `test-N` and `carry-N` with numbers of N bits."""
    rng = Random(seed)
    distinct = list(dict.fromkeys(_training_sums(n_bits, n_train + n_valid, rng, form)))
    rng.shuffle(distinct)
    corpus = {"train": distinct[n_valid:], "validation": distinct[:n_valid]}
    for n in TEST_BITS:
        corpus[f"test-{n}"] = [random_sum(n, rng, form=form) for _ in range(n_test)]
        corpus[f"carry-{n}"] = [carry_through(n, rng, form) for _ in range(n_test)]
    return corpus


def write_corpus(directory: Path, corpus: dict[str, list[Pair]]) -> None:
    """Writes `train.sum` and `train.result` and so on, one sum per line; `train.result` is the last file."""
    make_directory(directory)
    for name, pairs in reversed(corpus.items()):
        for number, suffix in enumerate(("sum", "result")):
            write_file(directory / f"{name}.{suffix}", "".join(f"{pair[number]}\n" for pair in pairs).encode())


def addition_text(out: Path, form: Form = "addition") -> Path:
    """Writes a corpus into a run directory, unless it is there, and returns its path."""
    text = out / "data" / form
    if not (text / "train.result").exists():
        write_corpus(text, make_corpus(SEED, form))
    return text


def _training_sums(n_bits: int, n: int, rng: Random, form: Form) -> Iterator[Pair]:
    """Every length equally often, half of them with long carries; of the shortest numbers there are fewer sums."""
    for number in range(n):
        yield random_sum(1 + number % n_bits, rng, LONG_CARRIES if number // n_bits % 2 else 0.5, form)


def _text(bits: Bits) -> str:
    return " ".join(map(str, bits))

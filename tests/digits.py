"""A generated corpus with one correct translation per sentence: digits, and the same digits reversed.

For tests that need text which a small model learns completely.
"""

from pathlib import Path
from random import Random

MIN_DIGITS, MAX_DIGITS = 4, 12


def reversed_digits(n_pairs: int, seed: int) -> list[tuple[str, str]]:
    """Distinct pairs such as ("3 1 4 1", "1 4 1 3")."""
    rng, seen = Random(seed), set()
    pairs: list[tuple[str, str]] = []
    while len(pairs) < n_pairs:
        digits = " ".join(rng.choices("0123456789", k=rng.randint(MIN_DIGITS, MAX_DIGITS)))
        if digits not in seen:
            seen.add(digits)
            pairs.append((digits, digits[::-1]))
    return pairs


def write_digits(directory: Path, n_pairs: int, seed: int) -> tuple[Path, Path]:
    """Writes the pairs to two text files, and returns their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    pairs = reversed_digits(n_pairs, seed)
    source, target = directory / "digits.src", directory / "digits.tgt"
    source.write_text("".join(f"{digits}\n" for digits, _ in pairs), encoding="utf-8")
    target.write_text("".join(f"{digits}\n" for _, digits in pairs), encoding="utf-8")
    return source, target

"""A generated corpus of labelled texts that a small model learns: praise and blame, with a few words in between."""

from pathlib import Path
from random import Random

GOOD, BAD = ("fine", "lovely", "warm", "clever"), ("dull", "cold", "stale", "noisy")
FILLERS = ("the", "film", "a", "play", "was", "we", "saw", "last", "night", "and", "with", "friends")


def labelled_texts(n: int, seed: int) -> list[tuple[str, str]]:
    """Such as ("good", "the play was lovely last night")."""
    rng, examples = Random(seed), []
    for _ in range(n):
        label = rng.choice(("good", "bad"))
        words = rng.choices(FILLERS, k=rng.randint(3, 9))
        words.insert(rng.randint(0, len(words)), rng.choice(GOOD if label == "good" else BAD))
        examples.append((label, " ".join(words)))
    return examples


def write_labelled(path: Path, n: int, seed: int = 1) -> Path:
    """A TSV file: label, tab, text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{label}\t{text}\n" for label, text in labelled_texts(n, seed)), encoding="utf-8")
    return path

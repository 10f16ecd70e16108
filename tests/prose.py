"""A small running text with rules that a model can learn: a story about one animal, which every later line names."""

import random
from pathlib import Path

ANIMALS = ("cat", "dog", "horse", "mouse")
VERBS = ("saw", "heard", "liked")
PLACES = ("park", "street", "garden")


def write_prose(path: Path, n_stories: int, seed: int = 1) -> Path:
    """Stories of a title, three lines and a blank line."""
    rng = random.Random(seed)
    lines = []
    for _ in range(n_stories):
        animal = rng.choice(ANIMALS)
        lines.append(f"= the {animal} =")
        lines += [f"the {animal} {rng.choice(VERBS)} the {rng.choice(PLACES)} ." for _ in range(3)]
        lines.append("")
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path

"""Generated stories that a small model learns: people go to places, and one of them is asked for."""

from pathlib import Path
from random import Random

PEOPLE, PLACES = ("Ann", "Ben", "Cleo"), ("garden", "kitchen", "office", "hall")


def story_lines(n_stories: int, seed: int, n_questions: int = 2) -> list[str]:
    """In bAbI's format; the sentence that supports an answer is the last one about the person."""
    rng, lines = Random(seed), []
    for _ in range(n_stories):
        number, told = 0, {}
        for _ in range(n_questions):
            for _ in range(2):
                number += 1
                person, place = rng.choice(PEOPLE), rng.choice(PLACES)
                told[person] = place, number
                lines.append(f"{number} {person} went to the {place}.")
            number += 1
            person = rng.choice(sorted(told))
            place, supporting = told[person]
            lines.append(f"{number} Where is {person}? \t{place}\t{supporting}")
    return lines


def write_stories(path: Path, n_stories: int, seed: int = 1) -> Path:
    path.write_text("".join(f"{line}\n" for line in story_lines(n_stories, seed)), encoding="utf-8")
    return path

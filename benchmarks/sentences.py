"""Sentence splitting: the rules of Regard compared with sentencex and ICU.

    pip install sentencex PyICU
    python benchmarks/sentences.py --data DIR

Two kinds of text: examples with abbreviations, numbers and quotations (tests/text/sentences), and lines of corpora, ten
of them joined with spaces, of which the ends are known. DIR has multi30k/val.fr, tatoeba-en-de/val.{en,de} and
en-ko/val.{en,ko}.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from regard.text.sentences import sentences

EXAMPLES = Path(__file__).parents[1] / "tests" / "text" / "sentences"
CORPORA = ("multi30k/val.fr", "tatoeba-en-de/val.en", "tatoeba-en-de/val.de", "en-ko/val.en", "en-ko/val.ko")


def by_rules(text: str, language: str) -> list[str]:
    return [part.text for part in sentences(text, language)]


def by_sentencex(text: str, language: str) -> list[str]:
    import sentencex

    return [part.strip() for part in sentencex.segment(language, text) if part.strip()]


def by_icu(text: str, language: str) -> list[str]:
    """With ICU's own list of abbreviations."""
    import icu

    iterator = icu.BreakIterator.createSentenceInstance(icu.Locale(f"{language}@ss=standard"))
    iterator.setText(text)
    stops = [0, *iterator]
    return [part for a, b in pairwise(stops) if (part := text[a:b].strip())]


SPLITTERS: dict[str, Callable[[str, str], list[str]]] = {"rules": by_rules, "sentencex": by_sentencex, "ICU": by_icu}


def ends(parts: Sequence[str]) -> set[int]:
    """After how many characters that are not spaces a sentence ends."""
    n_characters, places = 0, set()
    for part in parts[:-1]:
        n_characters += len("".join(part.split()))
        places.add(n_characters)
    return places


def compare(texts: Sequence[Sequence[str]], language: str, split: Callable[[str, str], list[str]]) -> str:
    """Exactly right texts; ends found; splits inside a sentence."""
    n_right = n_found = n_ends = n_wrong = 0
    for parts in texts:
        expected, given = ends(parts), ends(split(" ".join(parts), language))
        n_right += expected == given
        n_found += len(expected & given)
        n_ends += len(expected)
        n_wrong += len(given - expected)
    return f"{n_right}/{len(texts)} right, {n_found / n_ends:.1%} of ends found, {n_wrong} wrong"


def joined_lines(path: Path) -> list[list[str]]:
    lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line.endswith((".", "!", "?"))]
    random.Random(1).shuffle(lines)
    return [lines[i : i + 10] for i in range(0, len(lines) - 9, 10)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    for file in sorted(EXAMPLES.iterdir()):
        examples = [line.split(" | ") for line in file.read_text(encoding="utf-8").splitlines()]
        for name, split in SPLITTERS.items():
            print(f"examples {file.stem:14} {name:10} {compare(examples, file.stem, split)}")
    for corpus in CORPORA:
        texts = joined_lines(data / corpus)
        for name, split in SPLITTERS.items():
            started_at = time.perf_counter()
            result = compare(texts, corpus[-2:], split)
            print(f"{corpus:23} {name:10} {result}, {1000 * (time.perf_counter() - started_at):.0f} ms")


if __name__ == "__main__":
    main()

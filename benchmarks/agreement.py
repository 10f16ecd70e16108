"""How far attention, gradients and words left out agree on what each word of a translation depends on.

    python benchmarks/agreement.py runs/lstm runs/transformer --source val.en --sentences 200

Prints Kendall's τ, as in `regard look --show dependence`: the mean over the words of all translations, with a 95%
interval (bootstrap over sentences). The translations are the model's own (greedy), or with --reference given ones.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.lens import Lens
from regard.text import read_lines

N_RESAMPLED, SEED = 1000, 12345

Pair = tuple[str, str]


def sentence_sums(lens: Lens, text: str, translation: str | None) -> dict[Pair, tuple[float, int]]:
    """For each pair of measures, the sum of τ over the words of a translation, and their number."""
    look = lens.look(text, translation, beam=1, dependence=True)
    found = {}
    for pair, (by_word, _) in look.agreement().items():
        defined = by_word[~np.isnan(by_word)]
        found[pair] = float(defined.sum()), len(defined)
    return found


def interval(sums: NDArray[np.float64]) -> tuple[float, float, float]:
    """(N, 2) sums and numbers of words per sentence → the mean τ, and its 95% interval."""
    rng = np.random.default_rng(SEED)
    resampled = sums[rng.integers(len(sums), size=(N_RESAMPLED, len(sums)))].sum(1)  # (R, 2)
    low, high = np.percentile(resampled[:, 0] / np.maximum(resampled[:, 1], 1), (2.5, 97.5))
    return float(sums[:, 0].sum() / max(sums[:, 1].sum(), 1)), float(low), float(high)


def measure(run: Path, lines: Iterable[tuple[str, str | None]]) -> list[str]:
    """The rows of a run."""
    lens = Lens.load(run)
    by_pair: dict[Pair, list[tuple[float, int]]] = {}
    for text, translation in lines:
        for pair, sums in sentence_sums(lens, text, translation).items():
            by_pair.setdefault(pair, []).append(sums)
    rows = []
    for (a, b), sums in by_pair.items():
        mean, low, high = interval(np.array(sums, dtype=np.float64))
        n_words = sum(n for _, n in sums)
        names = f"{a} and {b}".replace("_", " ")
        model = lens.loaded.config.describe()
        rows.append(f"| {run} | {model} | {names} | {mean:.3f} | {low:.3f} to {high:.3f} | {n_words:,} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--source", type=Path, required=True, help="sentences, one per line")
    parser.add_argument("--reference", type=Path, help="their translations; without, the model's own are measured")
    parser.add_argument("--sentences", type=int, default=200, help="spread evenly over the file")
    options = parser.parse_args()
    sources = list(read_lines(options.source))
    translations = list(read_lines(options.reference)) if options.reference else [None] * len(sources)
    if len(sources) != len(translations):
        sys.exit(f"{options.source} has {len(sources)} lines, {options.reference} has {len(translations)}")
    chosen = np.unique(np.linspace(0, len(sources) - 1, min(options.sentences, len(sources))).astype(int))
    print("| run | model | between | mean τ | 95% interval | words |\n|---|---|---|---|---|---|")
    for run in options.runs:
        print("\n".join(measure(run, [(sources[i], translations[i]) for i in chosen])), flush=True)


if __name__ == "__main__":
    main()

"""Classifiers of texts from nothing: several seeds of each architecture, beside naive Bayes.

    python benchmarks/classify.py --sst2 DIR --cola DIR --work runs/classify

SST-2 here is its 6,920 training sentences (train.tsv, dev.tsv, test.tsv: label, tab, text). CoLA's files are those of
its release (in_domain_train.tsv, in_domain_dev.tsv, out_of_domain_dev.tsv); its checkpoints are chosen on training
texts that are held out. Writes results/classify.md. Runs are kept, and the same command resumes.
"""

import argparse
import json
import platform
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any, NamedTuple

from regard.evaluate.classes import Confusion
from regard.evaluate.significance import mean_interval
from regard.text import LabelledFile, read_labelled, sort_labels

RESULTS = Path(__file__).parent / "results" / "classify.md"
GOAL = ("sst2", 0.80)  # test accuracy
MEASURES = {"accuracy": "{:.1%}", "macro_f1": "{:.1%}", "matthews": "{:.3f}", "calibration_error": "{:.1%}"}
Examples = list[tuple[str, str]]  # label and text


class Corpus(NamedTuple):
    """The files of a data set."""

    name: str
    train: Path
    validation: Path | None  # None: some training texts are held out
    tests: tuple[Path, ...]


def sst2(folder: Path) -> Corpus:
    return Corpus("sst2", folder / "train.tsv", folder / "dev.tsv", (folder / "test.tsv",))


def cola(folder: Path) -> Corpus:
    tests = (folder / "in_domain_dev.tsv", folder / "out_of_domain_dev.tsv")
    return Corpus("cola", folder / "in_domain_train.tsv", None, tests)


def read(path: Path) -> Examples:
    lines = read_labelled(LabelledFile(path))
    return [(label, texts[0]) for label, texts in zip(lines.labels, lines.texts, strict=True)]


def naive_bayes(train: Examples, test: Examples) -> Confusion:
    """Multinomial naive Bayes over words and pairs of words, with add-one smoothing."""

    def features(text: str) -> Iterable[tuple[str, ...]]:
        words = text.lower().split()
        return {*((word,) for word in words), *pairwise(words)}

    labels = sort_labels({label for label, _ in train})
    counts: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for label, text in train:
        counts[label].update(features(text))
    prior = Counter(label for label, _ in train)
    n_features = len(set().union(*counts.values()))
    totals = {label: counts[label].total() + n_features for label in labels}

    def score(label: str, text: str) -> float:
        return log(prior[label]) + sum(log((counts[label][f] + 1) / totals[label]) for f in features(text))

    predicted = [max(labels, key=lambda label: score(label, text)) for _, text in test]
    return confusion(labels, test, predicted)


def most_frequent(train: Examples, test: Examples) -> Confusion:
    label = Counter(label for label, _ in train).most_common(1)[0][0]
    return confusion(sort_labels({label for label, _ in train}), test, [label] * len(test))


def confusion(labels: list[str], test: Examples, predicted: list[str]) -> Confusion:
    return Confusion.of(labels, [labels.index(label) for label, _ in test], [labels.index(p) for p in predicted])


def regard(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def train(corpus: Corpus, architecture: str, n_seeds: int, work: Path) -> Path:
    """Runs with several seeds, by the command line with its defaults."""
    out = work / f"{corpus.name}-{architecture}"
    best_by = "matthews" if corpus.name == "cola" else "loss"
    files = ["--labels", corpus.train, *(["--valid-labels", corpus.validation] if corpus.validation else [])]
    best = ["--set", f"training.best_by={best_by}"]
    regard("train", *files, "--architecture", architecture, *best, "--seeds", str(n_seeds), "--out", out)
    return out


def seed_rows(corpus: Corpus, architecture: str, out: Path) -> list[str]:
    """One row per test set: mean and standard deviation over the seeds, and the interval of the mean accuracy."""
    runs = sorted(path for path in out.glob("seed-*") if path.is_dir())
    finished = [events(run, "finished")[-1] for run in runs]
    seconds = [event["elapsed_seconds"] for event in finished]
    n_parameters = finished[0]["n_parameters"]
    duration = f"{sum(seconds) / len(seconds):.0f} s"
    name = f"{architecture}, {len(runs)} seeds of {duration}, {n_parameters / 1e6:.2f}M parameters"
    rows = []
    for test in corpus.tests:
        results = json.loads(regard("evaluate", out, test, "--json"))["seeds"]
        values = {name: [result["metrics"][name] for result in results] for name in MEASURES}
        interval = mean_interval(values["accuracy"])
        cells = []
        for measure, form in MEASURES.items():
            mean = sum(values[measure]) / len(results)
            deviation = (sum((v - mean) ** 2 for v in values[measure]) / (len(results) - 1)) ** 0.5
            cells.append(f"{form.format(mean)} ± {form.format(deviation)}")
        missed = corpus.name == GOAL[0] and sum(values["accuracy"]) / len(results) < GOAL[1]
        cells.insert(1, f"{interval.low:.1%} – {interval.high:.1%}" + (" goal missed" if missed else ""))
        rows.append(row(corpus.name, test.stem, name, *cells))
    return rows


def baseline_rows(corpus: Corpus) -> list[str]:
    rows, examples = [], read(corpus.train)
    for test in corpus.tests:
        for name, method in {"most frequent label": most_frequent, "naive Bayes": naive_bayes}.items():
            result = method(examples, read(test))
            cells = [MEASURES[measure].format(value) for measure, value in result.measures.items()]
            rows.append(row(corpus.name, test.stem, name, cells[0], "", *cells[1:], ""))
    return rows


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def events(run: Path, name: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (run / "journal.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sst2", type=Path)
    parser.add_argument("--cola", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--architectures", nargs="+", default=["encoder", "lstm"])
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    corpora = [make(folder) for make, folder in ((sst2, given.sst2), (cola, given.cola)) if folder is not None]
    rows = []
    for corpus in corpora:
        rows += baseline_rows(corpus)
        for architecture in given.architectures:
            rows += seed_rows(corpus, architecture, train(corpus, architecture, given.seeds, given.work))
    heading = f"{datetime.now(UTC):%Y-%m-%d}. Python {platform.python_version()}, PyTorch {version('torch')}."
    names = (
        "corpus",
        "test set",
        "model",
        "accuracy",
        "95% interval of the mean",
        "macro F1",
        "Matthews",
        "calibration error",
    )
    text = f"""# Classifiers from nothing

{heading} Written by: `python benchmarks/classify.py --sst2 DIR --cola DIR --work DIR`

Mean ± standard deviation over seeds. Goal: {GOAL[0]}: a test accuracy of {GOAL[1]:.0%}.

{row(*names)}
|{"---|" * len(names)}
{chr(10).join(rows)}
"""
    RESULTS.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()

"""Writes a copy of a corpus without the pairs that would harm a training, and a list of those with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import log
from pathlib import Path
from typing import TextIO

import numpy as np

from regard.errors import DataError
from regard.text.corpus import Corpus
from regard.text.doctor.checks import MIN_LENGTH_TO_COMPARE
from regard.text.doctor.examine import Examination, hash_texts
from regard.text.doctor.findings import CorpusReport
from regard.text.normalise import normalise

REJECTED = "rejected.tsv"
_NOT_CLEANABLE = {"unequal-counts", "empty", "unrelated", "slip"}  # nearly every pair would be rejected
_CHUNK = 5_000  # pairs whose words are compared at a time
_Pair = tuple[int, str, str]  # number, source, target


@dataclass(frozen=True)
class Cleaned:
    """What was written."""

    files: tuple[Path, ...]
    n_kept: int
    reasons: Counter[str]


def write_clean(examination: Examination, report: CorpusReport, directory: Path) -> Cleaned:
    """Writes the corpus without bad pairs into a new directory, with `rejected.tsv`: line, reason, source, target."""
    for finding in report.findings:
        if finding.kind in _NOT_CLEANABLE and finding.severity == "spoils":
            raise DataError(f"nothing was written: {finding.message}", hint=finding.advice)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{directory}: {(error.strerror or str(error)).lower()}", hint="choose another --write"
        ) from error
    if any(directory.iterdir()):
        raise DataError(f"{directory} is not empty", hint="choose another directory for --write")
    files = _file_names(examination.corpus, directory)
    unfinished = [path.with_name(f".{path.name}.part") for path in (*files, directory / REJECTED)]
    reasons: Counter[str] = Counter()
    n_kept = 0
    opened = [path.open("w", encoding="utf-8", newline="") for path in unfinished]
    *outputs, rejected = opened
    for reason, pair in _judged(examination):
        if reason is None:
            n_kept += 1
            _write(outputs, pair)
        else:
            reasons[reason] += 1
            rejected.write(f"{pair[0]}\t{reason}\t{pair[1]}\t{pair[2]}\n")
    for file, part, path in zip(opened, unfinished, (*files, directory / REJECTED), strict=True):
        file.close()
        part.replace(path)
    return Cleaned((*files, directory / REJECTED), n_kept, reasons)


def _file_names(corpus: Corpus, directory: Path) -> list[Path]:
    """The names of the originals, without .gz and .zst."""
    names = [path.name.removesuffix(".gz").removesuffix(".zst") for path in corpus.files]
    if len(set(names)) < len(names):
        names = [f"{name}.{side}" for name, side in zip(names, ("source", "target"), strict=True)]
    return [directory / name for name in names]


def _write(outputs: Sequence[TextIO], pair: _Pair) -> None:
    if len(outputs) == 1:
        outputs[0].write(f"{pair[1]}\t{pair[2]}\n")
    else:
        for file, line in zip(outputs, pair[1:], strict=True):
            file.write(f"{line}\n")


def _judged(examination: Examination) -> Iterator[tuple[str | None, _Pair]]:
    """Every pair, in order, with the reason why it is rejected, or None."""
    pairs = examination.repeats["pairs"]
    repeated = np.unique(np.concatenate([*pairs.lines(), *(lines for lines, _ in pairs.in_other_corpora())]))
    rows = enumerate(examination.rows(), start=1)
    while chunk := list(islice(rows, _CHUNK)):
        is_text = [source is not None and target is not None for _, (source, target) in chunk]
        given = [(number, source or "", target or "") for number, (source, target) in chunk]
        low, high = np.searchsorted(repeated, [given[0][0], given[-1][0] + 1])
        judged = _reasons(given, examination, set(repeated[low:high].tolist()))
        reasons = [reason if valid else "not valid text" for reason, valid in zip(judged, is_text, strict=True)]
        good = [index for index, reason in enumerate(reasons) if reason is None]
        for index in _mispaired(examination, [given[index] for index in good]):
            reasons[good[index]] = "words do not match"
        yield from zip(reasons, given, strict=True)


def _reasons(pairs: Sequence[_Pair], examination: Examination, repeated: set[int]) -> list[str | None]:
    sides = [hash_texts(texts)[0] for texts in ([pair[1] for pair in pairs], [pair[2] for pair in pairs])]
    usual = examination.ratios.usual()
    tests = set(examination.test_hashes.tolist())
    return [
        _reason(pair, hashes, tests, pair[0] in repeated, usual)
        for pair, hashes in zip(pairs, zip(*sides, strict=True), strict=True)
    ]


def _reason(
    pair: _Pair, hashes: tuple[int, int], tests: set[int], is_repeated: bool, usual: tuple[float, float] | None
) -> str | None:
    source, target = normalise(pair[1]), normalise(pair[2])
    if not source or not target:
        return "blank"
    if hashes[0] == hashes[1]:
        return "the same on both sides"
    if tests.intersection(hashes):
        return "in the test set"
    if is_repeated:
        return "repeated"
    is_long = max(len(source), len(target)) >= MIN_LENGTH_TO_COMPARE
    if usual is not None and is_long and abs(log(len(target) / len(source)) - usual[0]) > usual[1]:
        return "unusual length ratio"
    return None


def _mispaired(examination: Examination, pairs: list[_Pair]) -> list[int]:
    pairing = examination.pairing
    if pairing is None or not pairing.is_telling or not pairs:
        return []
    sources = [normalise(source) for _, source, _ in pairs]
    targets = [normalise(target) for _, _, target in pairs]
    return [int(index) for index in np.flatnonzero(pairing.is_mispaired(sources, targets))]

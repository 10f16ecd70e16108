"""Mispaired lines are found by a word model of the corpus, in any script, and good lines are left alone."""

import random
from pathlib import Path

import numpy as np
import pytest

from regard.text.corpus import Corpus
from regard.text.doctor.examine import examine, read_corpus
from regard.text.doctor.mispaired import Pairing, PairSample, split_words

LATIN, HAN, HANGUL = "abcdefghijklmnoprstuvwz", "".join(map(chr, range(0x4E00, 0x4E80))), "가나다라마바사아자차카타파하"


def corpus(n: int, target_letters: str = LATIN, seed: int = 0) -> tuple[list[str], list[str]]:
    """Pairs in two invented languages; words have the frequencies of a natural text."""
    rng = random.Random(seed)

    def word(letters: str) -> str:
        return "".join(rng.choices(letters, k=2 if letters == HAN else rng.randint(3, 8)))

    words = [(word(LATIN), word(target_letters)) for _ in range(1500)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    space = "" if target_letters == HAN else " "
    source, target = [], []
    for _ in range(n):
        picked = rng.choices(words, weights, k=rng.randint(4, 12))
        source.append(" ".join(a for a, _ in picked))
        endings = ["은" if target_letters == HANGUL and rng.random() < 0.5 else "" for _ in picked]
        target.append(space.join(b + end for (_, b), end in zip(reversed(picked), endings, strict=True)))
    return source, target


def mispair(target: list[str], share: float) -> tuple[list[str], set[int]]:
    """Moves a share of the lines; returns their numbers, from 1."""
    moved = random.Random(5).sample(range(len(target)), round(share * len(target)))
    result = list(target)
    for here, there in zip(moved, moved[1:] + moved[:1], strict=True):
        result[here] = target[there]
    return result, {i + 1 for i in moved}


def pairing(source: list[str], target: list[str]) -> Pairing:
    sample = PairSample()
    sample.add(zip(range(1, len(source) + 1), source, target, strict=True), len(source))
    return Pairing(sample)


@pytest.mark.parametrize("letters", [LATIN, HAN, HANGUL])
def test_mispaired_lines_are_found_in_any_script(letters: str) -> None:
    source, target = corpus(3000, letters)
    target, moved = mispair(target, 0.2)
    found = set(pairing(source, target).lines)
    assert len(found & moved) >= 0.9 * len(moved)
    assert len(found - moved) <= 0.05 * (3000 - len(moved))


def test_good_pairs_are_not_reported() -> None:
    result = pairing(*corpus(3000))
    assert result.related
    assert len(result.lines) <= 3


def test_a_repeated_wrong_pair_is_found() -> None:
    source, target = corpus(2000)
    wrong = [(source[0], target[1])] * 100
    result = pairing(source[2:] + [pair[0] for pair in wrong], target[2:] + [pair[1] for pair in wrong])
    assert set(range(1999, 2099)) <= set(result.lines)


def test_pairs_outside_the_sample_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.text.doctor.mispaired.MAX_PAIRS", 2000)
    source, target = corpus(6000)
    target, moved = mispair(target, 0.2)
    result = pairing(source, target)
    assert result.n_judged < 2000 < result.n_pairs == 6000
    found = {int(i) + 1 for i in np.flatnonzero(result.is_mispaired(source, target))}
    assert set(result.lines) <= found
    assert len(found & moved) >= 0.9 * len(moved)
    result.judge(zip(range(1, 6001), source, target, strict=True))
    assert set(result.lines) == found and result.n_judged == 6000
    assert result.is_mispaired(*([lines[result.lines[0] - 1]] for lines in (source, target))).all()


def test_check_reads_a_corpus_again_where_its_sample_has_mispaired_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.text.doctor.mispaired.MAX_PAIRS", 1000)
    source, target = corpus(3000)
    target, _ = mispair(target, 0.2)
    for name, lines in (("s", source), ("t", target)):
        (tmp_path / name).write_text("".join(f"{line}\r\n" for line in lines))
    examination = read_corpus(Corpus(source=tmp_path / "s", target=tmp_path / "t"))
    sampled = examination.report()
    examination.judge_pairs()
    report = examination.report()
    messages = [[item.message for item in result.findings if item.kind == "mispaired"] for result in (sampled, report)]
    assert messages[0][0].startswith("about") and messages[1][0].startswith(f"{len(examination.pairing.lines)} pairs")
    assert "limited" in {item.kind for item in sampled.findings} - {item.kind for item in report.findings}
    assert report.source.n_crlf == 3000  # not counted twice


@pytest.mark.parametrize(("share", "severity"), [(0.2, "warning"), (0.7, "spoils")])
def test_the_report_counts_mispaired_lines(tmp_path: Path, share: float, severity: str) -> None:
    source, target = corpus(3000)
    target, moved = mispair(target, share)
    for name, lines in (("s", source), ("t", target)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    report = examine(Corpus(source=tmp_path / "s", target=tmp_path / "t"))
    [finding] = [finding for finding in report.findings if finding.kind == "mispaired"]
    assert finding.severity == severity
    assert abs(finding.count - len(moved)) < 0.05 * 3000
    assert len(finding.lines) == 5 and set(finding.lines) <= moved


def test_words_are_shortened_and_scripts_without_spaces_are_split() -> None:
    assert split_words("Cameras, cameras!") == ["came", ",", "!"]
    assert split_words("학교에서 학교는") == ["학교"]
    assert split_words("東京都は 12") == ["東京", "都は", "12"]

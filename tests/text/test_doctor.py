"""The data doctor: finds problems and their lines, without false alarms."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from regard.text.code_points import CodeLines
from regard.text.corpus import Corpus
from regard.text.doctor import alignment_slip
from regard.text.doctor.alignment_slip import AlignmentScan, SideFeatures
from regard.text.doctor.examine import examine
from regard.text.doctor.findings import CorpusReport, Finding


def language(n: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Sentences in two invented languages that share only numbers and a few names."""
    rng = random.Random(seed)
    letters = "abcdefghijklmnoprstuvwz"
    words = [
        ("".join(rng.choices(letters, k=rng.randint(2, 9))), "".join(rng.choices(letters, k=6))) for _ in range(400)
    ]
    source, target = [], []
    for _ in range(n):
        picked = rng.choices(words, k=rng.randint(3, 14))
        extra = [str(rng.randint(1, 999))] if rng.random() < 0.3 else ["Anna"] if rng.random() < 0.2 else []
        source.append(" ".join([a for a, _ in picked] + extra))
        target.append(" ".join(extra + [b for _, b in reversed(picked)]))
    return source, target


def run(tmp_path: Path, source: list[str] | bytes, target: list[str] | bytes, **options: object) -> CorpusReport:
    for name, lines in (("s", source), ("t", target)):
        data = lines if isinstance(lines, bytes) else "".join(line + "\n" for line in lines).encode()
        (tmp_path / name).write_bytes(data)
    return examine(Corpus(source=tmp_path / "s", target=tmp_path / "t"), **options)  # type: ignore[arg-type]


def only(report: CorpusReport, kind: str) -> Finding:
    findings = [finding for finding in report.findings if finding.kind == kind]
    assert len(findings) == 1, [finding.message for finding in report.findings]
    return findings[0]


def test_good_text_has_no_findings(tmp_path: Path) -> None:
    report = run(tmp_path, *language(1500))
    assert report.findings == ()
    assert not report.has_errors
    assert report.n_pairs == report.source.n_lines == 1500
    assert 3 <= report.source.words.median <= report.source.words.p95 <= report.source.words.max <= 15


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n", [70, 300, 2000])
def test_parallel_text_has_no_slips(seed: int, n: int) -> None:
    assert slips(*language(n, seed)) == []


@pytest.mark.parametrize("seed", [0, 3, 6, 12, 19])
def test_paths_without_a_change_are_those_of_the_whole_search(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(-0.2, 1.0, (12, 3000)).astype(np.float32)
    scores[5] += 0.2
    scores[7, 1000 : 1000 + 10 * seed] += 1.0  # the more lines, the more is gained by a change
    quick = alignment_slip._best_path(scores, 5)
    monkeypatch.setattr(alignment_slip, "_largest_gain", lambda blocks, row: np.inf)
    assert (alignment_slip._best_path(scores, 5) == quick).all()
    assert (7 in quick) == (seed >= 12)


def slips(source: list[str], target: list[str]) -> list[tuple[int, int | None, int | None]]:
    scan = AlignmentScan()
    for first in range(0, len(source), 500):  # the last block has all lines of the longer side
        last = first + 500 >= len(source)
        parts = (lines[first:] if last else lines[first : first + 500] for lines in (source, target))
        scan.add(*(SideFeatures.of(CodeLines.of("".join(f"{line}\n" for line in lines))) for lines in parts))
    alignment = scan.finish()
    assert alignment is not None
    return [(slip.line, slip.offset, slip.until) for slip in alignment.slips]


@pytest.mark.parametrize("at", [150, 1000, 1850])
@pytest.mark.parametrize("n_missing", [1, 3])
def test_a_missing_line_is_located(at: int, n_missing: int) -> None:
    source, target = language(2000)
    [(line, offset, until)] = slips(source, target[:at] + target[at + n_missing :])
    assert abs(line - at) <= 50
    assert (offset, until) == (-n_missing, None)
    [(line, offset, until)] = slips(source[:at] + source[at + n_missing :], target)
    assert abs(line - at) <= 50
    assert (offset, until) == (n_missing, None)


def test_a_slip_behind_the_first_window_is_located_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.text.doctor.alignment_slip.WINDOW_LINES", 1000)
    source, target = language(6200)
    assert slips(source, target) == []
    [(line, offset, until)] = slips(source, target[:4600] + target[4601:5700] + ["extra line"] + target[5700:])
    assert abs(line - 4600) <= 50 and offset == -1 and until is not None and abs(until - 5700) <= 50


def test_the_end_of_a_slip_is_located() -> None:
    source, target = language(2000)
    [(line, offset, until)] = slips(source[:500] + source[501:], target[:1200] + target[1201:])
    assert abs(line - 500) <= 50
    assert offset == 1
    assert until is not None and abs(until - 1200) <= 50


def test_a_slip_of_many_lines_is_located_without_its_offset() -> None:
    source, target = language(3000)
    [(line, offset, _)] = slips(source, target[:1500] + target[1560:])
    assert abs(line - 1500) <= 50
    assert offset is None


def test_files_sorted_by_length_have_no_slips() -> None:
    source, target = language(2000)
    order = sorted(range(2000), key=lambda i: len(source[i]))
    assert slips([source[i] for i in order], [target[i] for i in order]) == []


def test_a_slip_is_an_error_that_names_the_shorter_file(tmp_path: Path) -> None:
    source, target = language(1200)
    report = run(tmp_path, source, target[:600] + target[601:])
    assert report.has_errors
    assert "/t lacks 1 line" in only(report, "slip").message
    assert "1200 lines" in only(report, "unequal-counts").message


def test_lines_that_fit_no_better_in_place_are_an_error(tmp_path: Path) -> None:
    assert only(run(tmp_path, language(1000, 1)[0], language(1000, 2)[1]), "unrelated").severity == "spoils"
    source, target = language(1000)
    random.Random(1).shuffle(target)
    report = run(tmp_path, source, target)
    assert [finding.kind for finding in report.findings] == ["unrelated"] and report.has_errors


def test_text_that_cannot_be_judged_is_not_refused(tmp_path: Path) -> None:
    rng = random.Random(1)
    unique = [["".join(rng.choices("abcdefghijklmnop", k=8)) for _ in range(1000)] for _ in range(2)]
    source, target = language(80)
    rng.shuffle(target)
    for pair in (unique, (source, target), (["the same line"] * 500, ["dieselbe Zeile"] * 500)):
        report = run(tmp_path, *pair)
        assert not report.has_errors
        assert not [finding for finding in report.findings if finding.kind == "mispaired"]


def test_words_are_compared_in_a_sample_which_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.text.doctor.mispaired.MAX_PAIRS", 500)
    finding = only(run(tmp_path, *language(1000)), "limited")
    assert finding.severity == "note" and "of 1,000 were examined" in finding.message


def test_blank_equal_and_repeated_lines_are_counted(tmp_path: Path) -> None:
    source, target = language(1000)
    source[10] = target[20] = target[21] = " "
    target[30] = source[30].upper()
    source += source[100:105]
    target += target[100:105]
    report = run(tmp_path, source, target)
    assert only(report, "one-side-blank").lines == (11, 21, 22)
    assert (report.source.n_blank, report.target.n_blank) == (1, 2)
    assert only(report, "source-equals-target").lines == (31,)
    assert only(report, "duplicate-pairs").count == 5
    assert not report.has_errors


def test_a_copy_of_the_source_is_an_error(tmp_path: Path) -> None:
    source, _ = language(500)
    assert only(run(tmp_path, source, source), "source-equals-target").severity == "spoils"


def test_odd_characters_and_line_ends_are_reported(tmp_path: Path) -> None:
    source, target = language(300)
    source[4] += " \u2028x"
    target[6] += " f\u00c3\u00bcr"
    target[7] += "\ufffd"
    lines = "\r\n".join(source).encode()
    report = run(tmp_path, b"\xef\xbb\xbf" + lines, target)
    kinds = {(finding.kind, finding.lines) for finding in report.findings}
    assert {("odd-characters", (5,)), ("odd-characters", (7,)), ("odd-characters", (8,)), ("bom", (1,))} <= kinds
    assert only(report, "crlf").count == 299
    assert not report.has_errors


def test_invalid_text_is_an_error_that_names_its_line(tmp_path: Path) -> None:
    source, target = language(100)
    data = "\n".join(source).encode().replace(b"\n", b"\xff\n", 1)
    finding = only(run(tmp_path, data, target), "invalid-text")
    assert (finding.severity, finding.lines) == ("spoils", (1,))


def test_empty_files_and_wrong_tabs_are_errors(tmp_path: Path) -> None:
    assert only(run(tmp_path, [], []), "empty").severity == "spoils"
    (tmp_path / "p.tsv").write_text("a\tb\nno tab\nc\td\n")
    report = examine(Corpus(tsv=tmp_path / "p.tsv"))
    assert only(report, "tabs").lines == (2,)
    assert report.n_pairs == 2


def test_unusual_length_ratios_are_reported(tmp_path: Path) -> None:
    source, target = language(500)
    target[77] = "x" * 900
    assert 78 in only(run(tmp_path, source, target), "length-ratio").lines


def test_test_lines_in_the_training_data_are_a_leak(tmp_path: Path) -> None:
    source, target = language(500)
    test = tmp_path / "test"
    test.write_text("".join(f"{line}\n" for line in [*language(100, 5)[0], f"  {source[9].upper()}", target[3]]))
    finding = only(run(tmp_path, source, target, against=[test]), "leak")
    assert (finding.count, finding.severity) == (1, "warning")
    assert only(run(tmp_path, source, target, against=[tmp_path / "s"]), "leak").severity == "spoils"


def test_leaks_from_a_tsv_test_set_are_reported_per_side(tmp_path: Path) -> None:
    source, target = language(500)
    rows = [f"{src}\t{tgt}" for src, tgt in zip([*source[:10], "a new one"], [*target[:10], "ein neues"], strict=True)]
    (tmp_path / "v.tsv").write_text("".join(f"{row}\n" for row in [*rows, "no tab"]))
    report = run(tmp_path, source, target, against=[Corpus(tsv=tmp_path / "v.tsv")])
    leaks = [finding for finding in report.findings if finding.kind == "leak"]
    assert [(finding.count, finding.message.split(":")[0]) for finding in leaks] == [
        (10, f"{tmp_path / 'v.tsv'} (source)"),
        (10, f"{tmp_path / 'v.tsv'} (target)"),
    ]


def test_the_report_converts_to_json_and_progress_is_reported(tmp_path: Path) -> None:
    calls: list[tuple[int, int | None]] = []
    report = run(tmp_path, *language(2500), progress=lambda done, total: calls.append((done, total)))
    assert json.loads(json.dumps(report.to_dict()))["n_pairs"] == 2500
    assert len(calls) == 2 and calls[-1][0] == calls[-1][1]

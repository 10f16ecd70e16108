"""The summary of a run: complete, without steps that were repeated, and bounded in size."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from regard.durable import lock_directory
from regard.errors import RunError
from regard.report import RunReader, report_page
from regard.report.replay import MAX_CHARACTERS, MAX_FINDINGS, MAX_NOTES, MAX_POINTS

from .conftest import finished, step, validation

Make = Callable[..., Path]


def test_summary_of_a_finished_run_is_complete(make_run: Make) -> None:
    plan = {"event": "plan", "n_parameters": 5, "steps": 4, "seconds_a_step": 2.0}
    events = [plan, *map(step, (1, 2)), validation(2, "ein"), *map(step, (3, 4)), validation(4), finished()]
    summary = RunReader(make_run(events)).read().to_dict()
    assert (summary["format"], summary["name"], summary["state"]) == ("regard-run/2", "en-de", "finished")
    assert summary["recipe"]["model"]["d_model"] == 128
    assert summary["plan"] == {"n_parameters": 5, "steps": 4, "seconds_a_step": 2.0}
    assert [point["step"] for point in summary["steps"]] == [1, 2, 3, 4]
    assert summary["steps"][0] == {
        "step": 1, "loss": 2.0, "nll": 1.0, "rate": 0.001,
        "tokens_per_second": 500.0, "elapsed_seconds": 12.0,
    }  # fmt: skip
    assert summary["validations"][0]["bleu"] == 31.4
    texts = [{"step": 2, "text": "ein"}, {"step": 4, "text": "ein Hund"}]
    given = {"source": "a dog", "reference": "ein Hund"}
    assert summary["samples"] == [{"given": given, "expected": "ein Hund", "outputs": texts}]
    assert summary["facts"]["alignment_head"]["head"] == 2
    assert "path" not in summary["facts"]
    assert summary["speed"] == {"tokens_per_second": 500.0, "elapsed_seconds": 18.0, "seconds_a_step": 2.0}
    assert summary["eta_seconds"] is None
    json.dumps(summary, allow_nan=False)


def test_repeated_steps_appear_once(make_run: Make) -> None:
    before = [*(step(i, nll=9.0) for i in range(1, 31)), validation(10), validation(30, "falsch")]
    after = [{"event": "resume", "step": 20, "steps": 100}, *(step(i, nll=1.0) for i in range(21, 26))]
    summary = RunReader(make_run(before + after)).read()
    assert [point.step for point in summary.steps] == list(range(1, 26))
    assert [point.loss for point in summary.steps] == [10.0] * 20 + [2.0] * 5
    assert [point.step for point in summary.validations] == [10]
    assert [sample.outputs for sample in summary.samples] == [((10, "ein Hund"),)]
    assert summary.notes == ("resumed after step 20",)


def test_run_restarted_without_a_checkpoint_forgets_its_old_steps(make_run: Make) -> None:
    summary = RunReader(make_run([*map(step, range(1, 9)), validation(8), *map(step, (1, 2))])).read()
    assert [point.step for point in summary.steps] == [1, 2]
    assert (summary.validations, summary.samples) == ((), ())


@pytest.mark.parametrize("tail", ['{"event": "step", "step": 3', "\x00\x00", '{"event": "step"'])
def test_partial_last_line_is_read_once_it_is_complete(make_run: Make, tail: str) -> None:
    run = make_run([step(1), step(2)], tail)
    reader = RunReader(run)
    assert len(reader.read().steps) == 2
    complete = (run / "journal.jsonl").read_bytes()[: -len(tail)] + json.dumps(step(3)).encode() + b"\n"
    (run / "journal.jsonl").write_bytes(complete)
    assert [point.step for point in reader.read().steps] == [1, 2, 3]


def test_reading_again_parses_only_new_lines(make_run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(map(step, range(1, 6)))
    reader, n_parsed = RunReader(run), 0
    reader.read()
    loads = json.loads

    def counted(line: bytes) -> Any:
        nonlocal n_parsed
        n_parsed += 1
        return loads(line)

    with (run / "journal.jsonl").open("a") as file:
        file.write(json.dumps(step(6)) + "\n")
    monkeypatch.setattr("regard.report.run_reader.json.loads", counted)
    assert len(reader.read().steps) == 6
    assert n_parsed == 1


def test_replaced_journal_is_read_from_its_start(make_run: Make) -> None:
    reader = RunReader(make_run(map(step, range(1, 6))))
    reader.read()
    make_run([step(1)])
    assert len(reader.read().steps) == 1


def test_locked_run_is_running_and_has_an_eta(make_run: Make) -> None:
    run = make_run(map(step, range(1, 11)))
    assert RunReader(run).read().state == "stopped"
    with lock_directory(run):
        summary = RunReader(run).read()
        assert (summary.state, summary.eta_seconds) == ("running", pytest.approx(180))
    assert RunReader(run).read().eta_seconds is None


def test_eta_is_measured_since_the_last_resume(make_run: Make) -> None:
    again = [step(i, elapsed_seconds=1000 + 5.0 * i) for i in range(11, 21)]
    run = make_run([*map(step, range(1, 11)), {"event": "resume", "step": 10, "steps": 100}, *again])
    with lock_directory(run):
        assert RunReader(run).read().eta_seconds == pytest.approx(80 * 5)


def test_run_without_a_journal_is_summarised_from_its_model(make_run: Make) -> None:
    run = make_run([])
    (run / "journal.jsonl").unlink()
    assert (RunReader(run).read().state, RunReader(run).read().steps) == ("stopped", ())
    digest = hashlib.sha256((run / "recipe.toml").read_bytes()).hexdigest()
    (run / "model").mkdir()
    facts = {"recipe": digest, "bleu": 12.5, "profiles": {"en": [1]}}
    (run / "model" / "config.json").write_text(json.dumps({"facts": facts}))
    summary = RunReader(run / "model").read()
    assert (summary.name, summary.state, summary.facts) == ("en-de", "finished", {"recipe": digest, "bleu": 12.5})


def test_directory_without_a_run_is_refused_with_a_hint(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "model", tmp_path / "nowhere"):
        with pytest.raises(RunError, match=r"there is no run in .*; hint: name a directory written by `regard train`"):
            RunReader(path).read()


def test_long_run_is_downsampled_and_keeps_its_ends(make_run: Make) -> None:
    steps = [point.step for point in RunReader(make_run(map(step, range(1, 20_001)))).read().steps]
    assert 400 <= len(steps) <= MAX_POINTS
    assert (steps[0], steps[-1]) == (1, 20_000)
    gaps = {later - earlier for earlier, later in pairwise(steps[:-1])}
    assert len(gaps) == 1  # evenly spaced


def test_invalid_events_are_skipped(make_run: Make) -> None:
    invalid: list[dict[str, Any]] = [
        {"event": "step"}, {"event": "step", "step": "7"}, {"event": "step", "step": True}, {"event": "nothing"},
        {}, {"event": ["step"]}, {"event": "step", "step": -1}, {"event": "validation", "step": None},
        {"event": "examined"},
        {"event": "examined", "report": {"source": 1, "target": 2}}, {"event": "resume", "step": 1.5},
        {"event": "plan"},
        {"event": "step", "step": 1, "loss": "nan", "nll": "inf", "rate": None, "elapsed_seconds": "x", "n_tokens": {}},
        {"event": "validation", "step": 1, "loss": "nan", "samples": [1, {"source": 2}, None]},
        {"event": "validation", "step": 1, "samples": "no"}, {"event": "refit"}, {"event": "warning"},
        {"event": "init"}, {"event": "step", "step": 10**400}, {"event": "plan", "steps": 10**400},
        {"event": "validation", "step": 2, "loss": 10**400, "bleu": -(10**400)}, {"event": "finished", "bleu": 10**400},
    ]  # fmt: skip
    run = make_run(invalid)
    text = (run / "journal.jsonl").read_text()
    (run / "journal.jsonl").write_text("not json\n[1]\n\n" + "[" * 100_000 + "\n" + text)
    (run / "recipe.toml").write_bytes(b"\xff\xfe = [")
    summary = RunReader(run).read()
    assert [(point.step, point.loss, point.nll) for point in summary.steps] == [(1, None, None)]
    assert summary.recipe == {}
    assert json.loads(json.dumps(summary.to_dict(), allow_nan=False))["facts"] == {"bleu": None}


def test_recipe_values_that_json_lacks_become_text(make_run: Make) -> None:
    run = make_run([step(1)])
    (run / "recipe.toml").write_text("a = 2026-01-02\nb = nan\nc = [inf, 1.5, true, 'x']\n[d]\ne = 07:30:00\n")
    summary = RunReader(run).read()
    assert summary.recipe == {"a": "2026-01-02", "b": "nan", "c": ["inf", 1.5, True, "x"], "d": {"e": "07:30:00"}}
    json.dumps(summary.to_dict(), allow_nan=False)
    assert "2026-01-02" in report_page(summary)
    (run / "recipe.toml").write_text(f"a = 0x{'f' * 9000}\n")
    assert RunReader(run).read().recipe == {}


def test_size_of_a_summary_is_bounded(make_run: Make) -> None:
    side = {"name": "a.en", "n_lines": 3}
    finding = {"kind": "x", "severity": "note", "message": "m" * 100_000, "lines": list(range(10_000))}
    events: list[dict[str, Any]] = [
        {"event": "examined", "report": {"n_pairs": 3, "source": side, "target": side, "findings": [finding] * 300}},
        *({"event": "warning", "message": "w" * 5000} for _ in range(200)),
    ]
    for i in range(1, 3001):
        samples = [{"source": f"s{i}-{j}" * 2000, "reference": "r", "translation": "t" * 9000} for j in range(3)]
        events.append(validation(i, samples=samples))
    summary = RunReader(make_run(events)).read()
    assert len(summary.findings) == MAX_FINDINGS
    assert len(summary.findings[0]["message"]) <= MAX_CHARACTERS + 1
    assert len(summary.notes) == MAX_NOTES
    assert len(summary.validations) <= MAX_POINTS
    assert len(json.dumps(summary.to_dict())) < 1_000_000


def test_reading_a_run_imports_no_torch(make_run: Make) -> None:
    run = make_run([step(1), validation(1), finished()])
    program = (
        "import sys; from regard.report import RunReader, report_page;"
        "assert report_page(RunReader(sys.argv[1]).read()); sys.exit('torch' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", program, str(run)], check=False, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr

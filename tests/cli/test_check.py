"""`regard check` from the command line."""

import json
import random
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from regard.cli.check import check
from regard.errors import DataError

app = typer.Typer(add_completion=False)
app.command()(check)
runner = CliRunner()


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    rng = random.Random(1)
    source = [" ".join(str(rng.randint(1, 10**6)) for _ in range(rng.randint(2, 9))) for _ in range(300)]
    (tmp_path / "a").write_text("".join(f"{line}\n" for line in source))
    (tmp_path / "b").write_text("".join(f"{' '.join(reversed(line.split()))}!\n" for line in source))
    return str(tmp_path / "a"), str(tmp_path / "b")


def test_good_corpus_exits_with_0(files: tuple[str, str]) -> None:
    result = runner.invoke(app, [*files])
    assert result.exit_code == 0, result.output
    assert "300 pairs" in result.stdout
    assert "Ready for training." in result.stdout


def test_errors_are_explained_and_exit_with_1(files: tuple[str, str]) -> None:
    result = runner.invoke(app, [*files, "--against", f"{files[0]},{files[1]}"])
    assert result.exit_code == 1
    assert result.stdout.count("are also in the training data") == 2
    assert "Not ready for training: fix the 2 errors first." in result.stdout


def test_pairs_of_another_corpus_are_named(files: tuple[str, str], tmp_path: Path) -> None:
    other = tmp_path / "other.tsv"
    lines = list(zip(*(Path(file).read_text().splitlines() for file in files), strict=True))
    other.write_text("".join(f"{a.upper()}\t{b}\n" for a, b in [*lines[40:43], ("new", "neu"), ("new", "neu")]))
    result = runner.invoke(app, [*files, "--also", str(other), "--also", ",".join(files), "--json"])
    findings = json.loads(result.stdout)["findings"]
    found = [finding for finding in findings if finding["kind"] == "in-other-corpus"]
    assert [(finding["count"], finding["lines"]) for finding in found] == [(297, [1, 2, 3, 4, 5]), (3, [41, 42, 43])]
    assert found[1]["message"] == f"3 pairs (1.0%) also in {other}"
    assert "duplicate-pairs" not in {finding["kind"] for finding in findings}
    refused = runner.invoke(app, [*files, "--also", "a,b,c"])
    assert refused.exception is not None and "more than two files; hint: give SRC,TGT" in str(refused.exception)


def test_json_is_the_only_output(files: tuple[str, str]) -> None:
    result = runner.invoke(app, [*files, "--json"])
    report = json.loads(result.stdout)
    assert (report["n_pairs"], report["spoils"], report["findings"]) == (300, False, [])


def test_tsv_file_is_read_without_a_target(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("a b\tc d\n")
    result = runner.invoke(app, [str(tmp_path / "p.tsv"), "--json"])
    assert json.loads(result.stdout)["n_pairs"] == 1


def test_missing_file_is_a_data_error(tmp_path: Path) -> None:
    result = runner.invoke(app, [str(tmp_path / "none"), str(tmp_path / "none")])
    assert isinstance(result.exception, DataError)


def test_clean_copy_is_written_on_request(files: tuple[str, str], tmp_path: Path) -> None:
    with Path(files[0]).open("a") as a, Path(files[1]).open("a") as b:
        a.write("\n")
        b.write("x\n")
    result = runner.invoke(app, [*files, "--write", str(tmp_path / "out")])
    assert f"wrote 300 pairs to {tmp_path / 'out' / 'a'} and {tmp_path / 'out' / 'b'}\n" in result.stderr
    assert f"rejected 1, listed in {tmp_path / 'out' / 'rejected.tsv'}: 1 blank\n" in result.stderr

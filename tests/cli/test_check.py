"""`regard check` through a command line."""

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


def test_a_good_corpus_is_fit_and_exits_with_0(files: tuple[str, str]) -> None:
    result = runner.invoke(app, [*files])
    assert result.exit_code == 0, result.output
    assert "300 pairs" in result.stdout
    assert "Fit for training." in result.stdout


def test_what_spoils_exits_with_1_and_says_why(files: tuple[str, str]) -> None:
    result = runner.invoke(app, [*files, "--against", f"{files[0]},{files[1]}"])
    assert result.exit_code == 1
    assert result.stdout.count("are also in the training data") == 2


def test_json_is_all_there_is_on_stdout(files: tuple[str, str]) -> None:
    result = runner.invoke(app, [*files, "--json"])
    report = json.loads(result.stdout)
    assert (report["n_pairs"], report["spoils"], report["findings"]) == (300, False, [])


def test_a_tsv_is_read_alone(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("a b\tc d\n")
    result = runner.invoke(app, [str(tmp_path / "p.tsv"), "--json"])
    assert json.loads(result.stdout)["n_pairs"] == 1


def test_a_missing_file_is_left_to_the_app_to_report(tmp_path: Path) -> None:
    result = runner.invoke(app, [str(tmp_path / "none"), str(tmp_path / "none")])
    assert isinstance(result.exception, DataError)

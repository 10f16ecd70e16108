"""`regard compare` from the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from regard.cli.compare import compare
from regard.errors import DataError, UserError

app = typer.Typer(add_completion=False)
app.command()(compare)
runner = CliRunner()

REFERENCE = [f"Der Hund Nummer {i} läuft heute über die breite Straße {i}." for i in range(40)]
BAD = [line.replace("läuft heute", "heute").replace("breite ", "") for line in REFERENCE]
GOOD = [line.replace("breite", "weite") if i % 4 == 0 else line for i, line in enumerate(REFERENCE)]
FILES = ["bad", "good", "--reference", "ref"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    sources = [f"Dog {i} runs." for i in range(40)]
    for name, lines in (("ref", REFERENCE), ("bad", BAD), ("good", GOOD), ("src", sources)):
        Path(name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def test_better_file_is_named_with_scores(folder: Path) -> None:
    result = runner.invoke(app, [*FILES, "--source", "src", "--most", "1"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("B is better by BLEU, chrF++ and TER.\n\nA  bad\nB  good\n40 sentences, 0 ")
    assert "Sentence by sentence (chrF++): A is better in 0, B in 40, equal in 0." in result.stdout
    shown = result.stdout[result.stdout.index("Where B is better") :]
    for part in ("source     Dog ", "reference  Der Hund", "A          Der Hund", "B          Der Hund"):
        assert shown.count(part) == 1
    assert "Where A is better" not in result.stdout
    assert "BLEU|nrefs:1|bs:1000|ar:10000|seed:12345|" in result.stdout


def test_piped_output_is_not_truncated_or_coloured(folder: Path) -> None:
    long = "sehr " * 60 + "lang."
    Path("good").write_text("".join(f"{long}\n" for _ in GOOD))
    stdout = runner.invoke(app, FILES).stdout
    assert f"  B          {long}\n" in stdout
    assert "\x1b" not in stdout


def test_control_characters_in_translations_are_escaped(folder: Path) -> None:
    Path("good").write_text("".join("\x1b[2J[red]rot[/red]\n" for _ in GOOD))
    stdout = runner.invoke(app, FILES).stdout
    assert "\x1b" not in stdout
    assert "\\x1b[2J[red]rot[/red]" in stdout


def test_json_is_the_only_output(folder: Path) -> None:
    report = json.loads(runner.invoke(app, [*FILES, "--json", "--most", "2"]).stdout)
    assert (report["a"], report["b"], report["n_sentences"]) == ("bad", "good", 40)
    assert [change["better"] for change in report["changes"]] == ["B", "B", "B"]
    assert report["changes"][0]["interval"]["low"] > 0
    assert report["changes"][0]["difference"] == report["changes"][0]["b"] - report["changes"][0]["a"]
    assert (len(report["better_in_a"]), len(report["better_in_b"])) == (0, 2)
    assert sum(bucket["n_sentences"] for bucket in report["buckets"]) == 40


def test_html_page_is_written_in_addition_to_the_table(folder: Path) -> None:
    result = runner.invoke(app, [*FILES, "--html", "page.html", "--most", "1"])
    assert result.exit_code == 0, result.output
    page = Path("page.html").read_text()
    assert page.startswith("<!doctype html>") and page.endswith("</html>\n")
    assert page.count('<div class="sample">') == 25
    assert "wrote page.html" in result.stderr and "wrote" not in result.stdout


def test_models_translate_and_files_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("run").mkdir()
    calls = []

    def translate(path: Path, test_set: object, beam: int, engine: str, target: str | None) -> list[str]:
        calls.append((str(path), beam, engine))
        return GOOD

    monkeypatch.setattr("regard.cli.evaluate._translate", translate)
    result = runner.invoke(app, ["run", "good", "--source", "src", "--reference", "ref", "--beam", "1"])
    assert result.exit_code == 0, result.output
    assert calls == [("run", 1, "auto")]
    assert result.stdout.startswith("No significant difference")


def test_model_without_a_source_is_refused(folder: Path) -> None:
    Path("run").mkdir()
    error = runner.invoke(app, ["run", "good", "--reference", "ref"]).exception
    assert isinstance(error, UserError) and "add --source FILE" in str(error)


def test_files_of_unequal_length_are_refused(folder: Path) -> None:
    Path("good").write_text("eins\n")
    error = runner.invoke(app, FILES).exception
    assert isinstance(error, DataError) and "good has 1 lines, but ref has 40" in str(error)


def test_unwritable_page_is_refused_before_the_work(folder: Path) -> None:
    error = runner.invoke(app, [*FILES, "--html", "none/page.html"]).exception
    assert isinstance(error, UserError) and "cannot write none/page.html" in str(error)


def test_comparing_files_imports_no_torch(folder: Path) -> None:
    program = (
        "import sys, typer; from regard.cli.compare import compare; app = typer.Typer(); app.command()(compare);"
        f"app({FILES!r} + ['--html', 'x.html'], standalone_mode=False); sys.exit('torch' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr

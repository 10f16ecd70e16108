"""`regard evaluate` through a command line."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from sacrebleu.metrics.bleu import BLEU
from typer.testing import CliRunner

from regard.cli.evaluate import evaluate
from regard.decoding import DecodingOptions
from regard.errors import DataError, UserError

app = typer.Typer(add_completion=False)
app.command()(evaluate)
runner = CliRunner()

REFERENCE = ["Ein Hund läuft schnell über die Straße.", "Das Tier war zu müde dafür.", "Sie sieht das Haus."]
OUTPUT = ["Ein Hund läuft über die Straße.", "Das Tier war zu breit.", "Sie sieht das Haus."]


@dataclass(frozen=True)
class FakeTranslation:
    text: str


class FakeTranslator:
    """Translates to OUTPUT, and records its arguments."""

    arguments: dict[str, object] = {}  # noqa: RUF012
    options = DecodingOptions(length_penalty=1.2)

    @classmethod
    def load(cls, path: Path, *, engine: str) -> "FakeTranslator":
        cls.arguments |= {"path": path, "engine": engine}
        return cls()

    def translate_iter(
        self, lines: list[str], *, options: object, target: str | None, batch_size: int
    ) -> Iterator[FakeTranslation]:
        self.arguments |= {"lines": lines, "options": options, "target": target}
        return map(FakeTranslation, OUTPUT)

    def __enter__(self) -> "FakeTranslator":
        return self

    def __exit__(self, *ignored: object) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("ref").write_text("".join(f"{line}\n" for line in REFERENCE))
    Path("out").write_text("".join(f"{line}\n" for line in OUTPUT))
    Path("src").write_text("A dog runs fast.\nThe animal was too tired.\nShe sees the house.\n")
    Path("run").mkdir()
    return tmp_path


@pytest.fixture
def translator(monkeypatch: pytest.MonkeyPatch) -> type[FakeTranslator]:
    monkeypatch.setattr("regard.translator.Translator", FakeTranslator)
    return FakeTranslator


def test_a_file_is_scored_in_a_table(folder: Path) -> None:
    result = runner.invoke(app, ["--output", "out", "--reference", "ref"])
    assert result.exit_code == 0, result.output
    header, bleu, chrf, ter = result.stdout.splitlines()
    assert header.split() == ["measure", "value", "95%", "interval", "signature"]
    expected = BLEU().corpus_score(OUTPUT, [REFERENCE]).score
    assert bleu.split()[:2] == ["BLEU", f"{expected:.2f}"]
    assert "|tok:13a|" in bleu
    assert (chrf.split()[0], ter.split()[0]) == ("chrF++", "TER")
    assert result.stderr == ""


def test_json_is_all_there_is_on_stdout(folder: Path) -> None:
    args = ["--output", "out", "--reference", "ref", "--json", "--worst", "1", "--source", "src"]
    report = json.loads(runner.invoke(app, args).stdout)
    assert [one["name"] for one in report["scores"]] == ["BLEU", "chrF++", "TER"]
    assert report["scores"][0]["interval"]["low"] <= report["scores"][0]["value"]
    (worst,) = report["worst"]
    assert (worst["line"], worst["output"]) == (2, OUTPUT[1])
    assert (worst["source"], worst["references"]) == ("The animal was too tired.", [REFERENCE[1]])


def test_the_worst_sentences_come_with_source_and_reference(folder: Path) -> None:
    result = runner.invoke(app, ["--output", "out", "--reference", "ref", "--source", "src", "--worst", "2"])
    shown = result.stdout.split("\n\n")[1:]
    assert len(shown) == 2
    assert shown[0].startswith("line 2, chrF++ ")
    for part in ("source     The animal", f"reference  {REFERENCE[1]}", f"output     {OUTPUT[1]}"):
        assert part in shown[0]


def test_a_run_translates_the_source_and_is_scored(folder: Path, translator: type[FakeTranslator]) -> None:
    args = ["run", "--source", "src", "--reference", "ref", "--beam", "2", "--engine", "torch", "--save-output", "kept"]
    result = runner.invoke(app, args)
    assert result.exit_code == 0, result.output
    assert result.stdout == runner.invoke(app, ["--output", "out", "--reference", "ref"]).stdout
    assert translator.arguments["engine"] == "torch"
    assert translator.arguments["options"] == DecodingOptions(beam=2, length_penalty=1.2)  # the model's own penalty
    assert translator.arguments["target"] is None
    assert Path("kept").read_text() == Path("out").read_text()


def test_a_length_penalty_of_the_command_line_comes_before_the_models(
    folder: Path, translator: type[FakeTranslator]
) -> None:
    result = runner.invoke(app, ["run", "--source", "src", "--reference", "ref", "--length-penalty", "0"])
    assert result.exit_code == 0, result.output
    assert translator.arguments["options"] == DecodingOptions(length_penalty=0.0)


def test_a_model_of_several_languages_is_told_which(folder: Path, translator: type[FakeTranslator]) -> None:
    result = runner.invoke(app, ["run", "--source", "src", "--reference", "ref", "--target", "de"])
    assert result.exit_code == 0, result.output
    assert translator.arguments["target"] == "de"


def test_no_line_is_lost_among_many_lines(
    folder: Path, translator: type[FakeTranslator], monkeypatch: pytest.MonkeyPatch
) -> None:
    def echo(self: object, lines: list[str], **_: object) -> Iterator[FakeTranslation]:
        return (FakeTranslation(line) for line in lines)

    monkeypatch.setattr(translator, "translate_iter", echo)
    lines = "".join(f"Satz Nummer {i} steht hier.\n" for i in range(1_203))
    Path("many").write_text(lines)
    args = ["run", "--source", "many", "--reference", "many", "--save-output", "kept"]
    assert runner.invoke(app, args).exit_code == 0
    assert Path("kept").read_text() == lines


def test_several_references_raise_the_score(folder: Path) -> None:
    args = ["--output", "out", "--reference", "ref", "--json"]
    one = json.loads(runner.invoke(app, args).stdout)
    two = json.loads(runner.invoke(app, [*args, "--reference", "out"]).stdout)
    assert one["scores"][0]["value"] < two["scores"][0]["value"] == pytest.approx(100)
    assert two["scores"][0]["signature"].startswith("nrefs:2|")


def test_lowercase_and_tokenizer_are_in_the_signature(folder: Path) -> None:
    result = runner.invoke(app, ["--output", "out", "--reference", "ref", "--lowercase", "--tokenize", "char"])
    assert "case:lc|eff:no|tok:char" in result.stdout


def test_unequal_files_are_refused_with_both_names_and_counts(folder: Path) -> None:
    Path("short").write_text("eins\n")
    for args in (["--output", "short"], ["--output", "out", "--source", "short"]):
        result = runner.invoke(app, [*args, "--reference", "ref"])
        assert isinstance(result.exception, DataError)
        assert "short has 1 lines, but ref has 3" in str(result.exception)


def test_odd_line_breaks_inside_a_line_do_not_shift_the_others(folder: Path) -> None:
    Path("odd").write_text("Ein\u2028Hund\x0cläuft.\nDas Tier.\nSie.\n")
    result = runner.invoke(app, ["--output", "odd", "--reference", "ref", "--worst", "3"])
    assert result.exit_code == 0, result.output
    assert "Ein\\u2028Hund\\x0cläuft." in result.stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "what is to be scored"),
        (["run", "--output", "out"], "what is to be scored"),
        (["run"], "give --source FILE"),
        (["--output", "out", "--save-output", "x"], "--save-output is for"),
        (["run", "--source", "src", "--save-output", "none/x"], "can not be written"),
        (["run", "--source", "src", "--tokenize", "14a"], "is not a tokenizer"),
        (["--output", "none"], "no such file"),
    ],
)
def test_what_can_not_be_done_is_said_in_one_line_with_a_hint(folder: Path, args: list[str], words: str) -> None:
    error = runner.invoke(app, [*args, "--reference", "ref"]).exception
    assert isinstance(error, UserError)
    assert words in str(error) and "hint: " in str(error) and "\n" not in str(error)


def test_an_empty_reference_is_refused(folder: Path) -> None:
    Path("ref").write_text("")
    assert "the file is empty" in str(runner.invoke(app, ["--output", "out", "--reference", "ref"]).exception)


def test_tokenised_output_is_warned_of_on_stderr(folder: Path) -> None:
    Path("out").write_text("Ein Hund .\nEin Tier .\nEin Haus.\n")
    result = runner.invoke(app, ["--output", "out", "--reference", "ref", "--json"])
    assert "2 of 3 outputs end in ' .'" in result.stderr
    json.loads(result.stdout)


def test_scoring_files_loads_no_torch(folder: Path) -> None:
    program = (
        "import sys, typer; from regard.cli.evaluate import evaluate; app = typer.Typer(); app.command()(evaluate);"
        "app(['--output', 'out', '--reference', 'ref'], standalone_mode=False); sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("measure")

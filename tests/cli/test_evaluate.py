"""`regard evaluate` from the command line."""

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


def test_scores_of_a_file_are_shown_as_a_table(folder: Path) -> None:
    result = runner.invoke(app, ["--output", "out", "--reference", "ref"])
    assert result.exit_code == 0, result.output
    header, bleu, chrf, ter = result.stdout.splitlines()
    assert header.split() == ["measure", "value", "95%", "interval", "signature"]
    expected = BLEU().corpus_score(OUTPUT, [REFERENCE]).score
    assert bleu.split()[:2] == ["BLEU", f"{expected:.2f}"]
    assert "|tok:13a|" in bleu
    assert (chrf.split()[0], ter.split()[0]) == ("chrF++", "TER")
    assert result.stderr == ""


def test_json_is_the_only_output(folder: Path) -> None:
    args = ["--output", "out", "--reference", "ref", "--json", "--worst", "1", "--source", "src"]
    report = json.loads(runner.invoke(app, args).stdout)
    assert [score["name"] for score in report["scores"]] == ["BLEU", "chrF++", "TER"]
    assert report["scores"][0]["interval"]["low"] <= report["scores"][0]["value"]
    (worst,) = report["worst"]
    assert (worst["line"], worst["output"]) == (2, OUTPUT[1])
    assert (worst["source"], worst["references"]) == ("The animal was too tired.", [REFERENCE[1]])


def test_scores_by_length_are_of_the_source_if_it_is_given(folder: Path) -> None:
    args = ["--output", "out", "--reference", "ref", "--by-length"]
    assert "\nreference tokens  sentences " in runner.invoke(app, args).stdout
    shown = runner.invoke(app, [*args, "--source", "src"]).stdout.partition("\n\n")[2]
    heading, *rows = shown.splitlines()
    assert heading.startswith("source tokens")
    by_length = json.loads(runner.invoke(app, [*args, "--source", "src", "--json"]).stdout)["by_length"]
    assert [row.split()[:3] for row in rows] == [
        [bucket["label"], str(bucket["n_sentences"]), f"{bucket['bleu']:.1f}"] for bucket in by_length
    ]
    assert sum(bucket["n_sentences"] for bucket in by_length) == len(REFERENCE)


def test_worst_sentences_are_shown_with_source_and_reference(folder: Path) -> None:
    result = runner.invoke(app, ["--output", "out", "--reference", "ref", "--source", "src", "--worst", "2"])
    shown = result.stdout.split("\n\n")[1:]
    assert len(shown) == 2
    assert shown[0].startswith("line 2, chrF++ ")
    for part in ("source     The animal", f"reference  {REFERENCE[1]}", f"output     {OUTPUT[1]}"):
        assert part in shown[0]


def test_run_translates_the_source_and_is_scored(folder: Path, translator: type[FakeTranslator]) -> None:
    args = ["run", "--source", "src", "--reference", "ref", "--beam", "2", "--engine", "torch", "--save-output", "kept"]
    result = runner.invoke(app, args)
    assert result.exit_code == 0, result.output
    assert result.stdout == runner.invoke(app, ["--output", "out", "--reference", "ref"]).stdout
    assert translator.arguments["engine"] == "torch"
    assert translator.arguments["options"] == DecodingOptions(
        beam=2, length_penalty=1.2
    )  # the penalty set in the model
    assert translator.arguments["target"] is None
    assert Path("kept").read_text() == Path("out").read_text()


def test_length_penalty_on_the_command_line_overrides_the_model(folder: Path, translator: type[FakeTranslator]) -> None:
    result = runner.invoke(app, ["run", "--source", "src", "--reference", "ref", "--length-penalty", "0"])
    assert result.exit_code == 0, result.output
    assert translator.arguments["options"] == DecodingOptions(length_penalty=0.0)


def test_target_language_is_passed_to_the_model(folder: Path, translator: type[FakeTranslator]) -> None:
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
    single = json.loads(runner.invoke(app, args).stdout)
    several = json.loads(runner.invoke(app, [*args, "--reference", "out"]).stdout)
    assert single["scores"][0]["value"] < several["scores"][0]["value"] == pytest.approx(100)
    assert several["scores"][0]["signature"].startswith("nrefs:2|")


def test_signature_includes_case_and_tokenizer(folder: Path) -> None:
    result = runner.invoke(app, ["--output", "out", "--reference", "ref", "--lowercase", "--tokenize", "char"])
    assert "case:lc|eff:no|tok:char" in result.stdout


def test_files_of_unequal_length_are_refused(folder: Path) -> None:
    Path("short").write_text("eins\n")
    for args in (["--output", "short"], ["--output", "out", "--source", "short"]):
        result = runner.invoke(app, [*args, "--reference", "ref"])
        assert isinstance(result.exception, DataError)
        assert "short has 1 lines, but ref has 3" in str(result.exception)


def test_unusual_line_separators_do_not_end_a_line(folder: Path) -> None:
    Path("odd").write_text("Ein\u2028Hund\x0cläuft.\nDas Tier.\nSie.\n")
    result = runner.invoke(app, ["--output", "odd", "--reference", "ref", "--worst", "3"])
    assert result.exit_code == 0, result.output
    assert "Ein\\u2028Hund\\x0cläuft." in result.stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "give either RUN or --output"),
        (["run", "--output", "out"], "give either RUN or --output"),
        (["run"], "add --source FILE"),
        (["--output", "out", "--save-output", "x"], "--save-output needs RUN"),
        (["run", "--source", "src", "--save-output", "none/x"], "cannot write none/x"),
        (["run", "--source", "src", "--tokenize", "14a"], "is not a tokenizer"),
        (["--output", "none"], "no such file"),
    ],
)
def test_usage_error_is_one_line_with_a_hint(folder: Path, args: list[str], words: str) -> None:
    error = runner.invoke(app, [*args, "--reference", "ref"]).exception
    assert isinstance(error, UserError)
    assert words in str(error) and "hint: " in str(error) and "\n" not in str(error)


def test_empty_reference_is_refused(folder: Path) -> None:
    Path("ref").write_text("")
    assert "the file is empty" in str(runner.invoke(app, ["--output", "out", "--reference", "ref"]).exception)


def test_tokenized_output_gives_a_warning(folder: Path) -> None:
    Path("out").write_text("Ein Hund .\nEin Tier .\nEin Haus.\n")
    result = runner.invoke(app, ["--output", "out", "--reference", "ref", "--json"])
    assert "2 of 3 outputs end in ' .'" in result.stderr
    json.loads(result.stdout)


def test_scoring_files_imports_no_torch(folder: Path) -> None:
    program = (
        "import sys, typer; from regard.cli.evaluate import evaluate; app = typer.Typer(); app.command()(evaluate);"
        "app(['--output', 'out', '--reference', 'ref'], standalone_mode=False); sys.exit('torch' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("measure")

"""`regard look` through a command line."""

import json
import re
from pathlib import Path
from typing import Literal

import pytest
import typer
from typer.testing import CliRunner, Result

from regard.cli.look.command import look
from regard.errors import DataError, UserError
from regard.lens import Lens

GOLDEN = Path(__file__).parent.parent / "golden"
MODEL, TEXT = str(GOLDEN / "model"), "7 4 7 1 2 1"

app = typer.Typer(add_completion=False)
app.command()(look)
runner = CliRunner()


def run(*flags: str | Path) -> Result:
    result = runner.invoke(app, [str(flag) for flag in flags])
    if isinstance(result.exception, UserError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("corpus")
    for name, source in (("src", "source.txt"), ("ref", "expected.txt")):
        lines = (GOLDEN / source).read_text(encoding="utf-8").splitlines()[:4]
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return ["--source", str(folder / "src"), "--reference", str(folder / "ref")]


def test_a_terminal_shows_words_probabilities_and_where_they_look() -> None:
    result = run(MODEL, TEXT)
    source, translation, blank, heading, *rows = result.stdout.splitlines()
    assert source == TEXT
    text, _, number = translation.partition("  log-probability ")
    assert float(number.replace("−", "-")) < 0
    assert blank == ""
    assert heading.split()[:2] == ["word", "probability"]
    assert [row.split()[0] for row in rows] == [*text.split(), "</s>"]
    assert all(re.search(r"\d+\.\d%  [·░▒▓█]{7}  ", row) for row in rows)
    assert "\x1b" not in result.stdout
    assert "--html FILE" in result.stderr


def test_a_change_is_shown_beside_what_was() -> None:
    stdout = run(MODEL, TEXT, "--positions-as", "none", "--heads-off", "decoder.1.2").stdout
    _, before, after, _, heading, *rows = stdout.splitlines()
    assert before.startswith("before  ")
    assert after.startswith("after   ")
    assert heading.split()[:3] == ["before", "unchanged", "changed"]
    assert len(rows) >= len(before.removeprefix("before  ").partition("  log")[0].split())


@pytest.mark.parametrize(
    ("flags", "title", "rows"),
    [
        (["--attention", "encoder", "--layer", "1", "--head", "2"], "Encoder · layer 1 · head 2", "source"),
        (["--attention", "decoder", "--layer", "1", "--head", "1"], "Decoder · layer 1 · head 1", "inputs"),
        (["--attention", "cross", "--layer", "1", "--head", "2"], "Encoder–decoder · layer 1 · head 2", "outputs"),
        (["--attention", "encoder"], "Encoder · all heads of layer 1, on average", "source"),
        (["--layer", "1", "--head", "1"], "Encoder · layer 1 · head 1", "source"),
    ],
)
@pytest.mark.parametrize("level", ["words", "pieces"])
def test_a_terminal_shows_the_head_and_the_level_that_were_asked_for(
    flags: list[str], title: str, rows: str, level: Literal["words", "pieces"]
) -> None:
    lines = run(MODEL, TEXT, *flags, "--level", level).stdout.splitlines()
    seen = Lens.load(MODEL).look(TEXT)
    side = {"source": seen.source, "inputs": seen.target.inputs, "outputs": seen.target.outputs}[rows]
    heading, *shown = lines[3:]
    assert heading.split()[0] == level.removesuffix("s")
    assert heading.endswith(f"looks at ({title})")
    assert ("probability" in heading) == (rows == "outputs")
    assert [line.split()[0] for line in shown] == side.labels(level)
    attention: Literal["encoder", "decoder", "cross"] = (
        "encoder" if rows == "source" else "decoder" if rows == "inputs" else "cross"
    )
    weights = seen.weights(attention, 0, level)
    expected = weights.mean(0) if "all heads" in title else weights[int(title[-1]) - 1]
    for line, row in zip(shown, expected, strict=True):
        assert line.endswith(f" {row.max():.2f}") or f" {row.max():.2f}, " in line


def test_pieces_have_probabilities_of_their_own() -> None:
    lines = run(MODEL, TEXT, "--level", "pieces").stdout.splitlines()
    steps = Lens.load(MODEL).look(TEXT).steps
    assert [line.split()[:2] for line in lines[4:]] == [
        [step.chosen.text, f"{step.chosen.probability:.1%}"] for step in steps
    ]


def test_the_map_of_a_changed_model_is_shown_when_it_is_asked_for() -> None:
    off = ["--heads-off", "cross.1.1"]
    assert "looks at" not in run(MODEL, TEXT, *off).stdout
    stdout = run(MODEL, TEXT, *off, "--attention", "cross", "--layer", "1", "--head", "1").stdout
    assert "unchanged" in stdout
    assert "looks at (Encoder–decoder · layer 1 · head 1 (off))" in stdout


def test_every_kind_of_file_is_written(tmp_path: Path) -> None:
    names = {form: tmp_path / f"look.{form}" for form in ("png", "svg", "html", "json")}
    flags = [part for form, path in names.items() for part in (f"--{form}", path)]
    result = run(MODEL, TEXT, *flags, "--attention", "cross")
    assert result.stdout == ""
    assert [line for line in result.stderr.splitlines() if line.startswith("wrote")] == [
        f"wrote {path}" for path in names.values()
    ]
    assert names["png"].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in names["svg"].read_bytes()
    page = names["html"].read_text(encoding="utf-8")
    assert 'data-place="stop=cross&amp;attention=cross&amp;level=words"' in page
    written = json.loads(names["json"].read_text(encoding="utf-8"))
    assert written["format"] == "regard-look/1"
    assert written["source"]["text"] == TEXT


def test_json_to_standard_output_is_nothing_but_json() -> None:
    found = json.loads(run(MODEL, TEXT, "--json", "-", "--translation", "1 2").stdout)
    assert found["target"]["given"]
    assert found["change"] is None


def test_one_head_is_drawn_large(tmp_path: Path) -> None:
    small, large = tmp_path / "all.svg", tmp_path / "one.svg"
    run(MODEL, TEXT, "--svg", small)
    run(MODEL, TEXT, "--svg", large, "--layer", "1", "--head", "2", "--level", "pieces")
    assert "Encoder · the source looks at itself" in small.read_text(encoding="utf-8")
    assert "Encoder · layer 1 · head 2" in large.read_text(encoding="utf-8")


def test_all_heads_over_a_corpus(corpus: list[str], tmp_path: Path) -> None:
    picture, table = tmp_path / "heads.png", tmp_path / "heads.json"
    result = run(MODEL, "--heads", *corpus, "--png", picture, "--json", table)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("4 sentences: ")
    places = [tuple(line.split()[:3]) for line in lines[3:9]]
    assert places == [(name, "1", head) for name in ("Encoder", "Decoder", "Encoder–decoder") for head in "12"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert json.loads(table.read_text(encoding="utf-8"))["format"] == "regard-heads/1"
    assert "measuring all heads over 4 sentences" in result.stderr


def test_the_legend_says_what_a_place_means_and_how_many_pairs_were_left_out(corpus: list[str], tmp_path: Path) -> None:
    paths = []
    for flag, path in zip(corpus[::2], corpus[1::2], strict=True):
        paths += [flag, str(tmp_path / Path(path).name)]
        Path(paths[-1]).write_text(Path(path).read_text(encoding="utf-8") + "\n", encoding="utf-8")
    lines = run(MODEL, "--heads", *paths).stdout.splitlines()
    assert lines[0].startswith("4 sentences (1 left out: blank, or too long): ")
    assert any(line.startswith("Encoder–decoder ") and "at the same place of the source" in line for line in lines)
    assert any(line.endswith("on </s>; of decoder heads: on <s>") for line in lines)


def test_bleu_without_each_head_on_request(corpus: list[str]) -> None:
    found = json.loads(run(MODEL, "--heads", *corpus, "--bleu", "--json", "-").stdout)
    assert found["baseline"]["bleu"] is not None
    assert all(head["bleu_drop"] is not None for head in found["heads"])


@pytest.mark.parametrize("of", [[], [MODEL]])
def test_the_waves(of: list[str], tmp_path: Path) -> None:
    result = run(*of, "--positions", "--png", tmp_path / "waves.png", "--svg", tmp_path / "waves.svg")
    assert result.stdout == ""
    assert (tmp_path / "waves.png").read_bytes().startswith(b"\x89PNG")
    assert "Positional encoding" in (tmp_path / "waves.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ([], "a sentence is missing"),
        ([MODEL], "a sentence is missing"),
        ([MODEL, " "], "no text to look at"),
        ([MODEL, TEXT, "--layer", "1"], "--layer and --head go together"),
        ([MODEL, TEXT, "--layer", "1", "--head", "3"], r"no head encoder\.1\.3; hint: .* counted from 1"),
        ([MODEL, TEXT, "--heads-off", "cross.2.1"], r"no head cross\.2\.1"),
        ([MODEL, TEXT, "--heads-off", "cross.0.1"], r"no head cross\.0\.1"),
        ([MODEL, TEXT, "--heads-off", "cross-1"], "'cross-1' is no head; hint: .*encoder.1.4"),
        ([MODEL, TEXT, "--bleu"], "--bleu has no meaning with a sentence"),
        ([MODEL, "--heads"], "--heads needs sentences"),
        ([MODEL, "--heads", "--no-mask"], "--no-mask has no meaning with --heads"),
        ([MODEL, TEXT, "--heads"], "TEXT has no meaning with --heads"),
        ([MODEL, TEXT, "--positions", "--png", "a.png"], "TEXT has no meaning with --positions"),
        ([MODEL, TEXT, "--translation", "1 2", "--beam", "4"], "--beam has no meaning with --translation"),
        ([MODEL, "--heads", "--beam", "4"], "--beam has no meaning with --heads"),
        (["--positions", "--beam", "4"], "--beam has no meaning with --positions"),
        (["--positions", "--target", "de"], "--target has no meaning with --positions"),
        ([MODEL, TEXT, "--json", "-", "--attention", "cross"], "--attention has no meaning with --json"),
        (["--positions"], "where is the picture to go"),
        (["--positions", "--json", "-"], "--json has no meaning with --positions"),
        ([MODEL, TEXT, "--png", "nowhere/a.png"], "can not be written"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_line(flags: list[str], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        run(*flags)


def test_files_of_different_lengths_are_refused(corpus: list[str], tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_text("1\n", encoding="utf-8")
    with pytest.raises(DataError, match="has 1 lines"):
        run(MODEL, "--heads", "--source", short, *corpus[2:])


def test_a_sentence_can_not_send_commands_to_the_terminal() -> None:
    stdout = run(MODEL, "7 \x1b[2J4 [red]7[/red]").stdout
    assert "\x1b" not in stdout
    assert "[red]" in stdout

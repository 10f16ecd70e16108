"""`regard look` on the command line."""

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


def test_terminal_shows_words_probabilities_and_attention() -> None:
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


def test_what_each_word_depends_on_is_shown_beside_attention(tmp_path: Path) -> None:
    record = json.loads(run(MODEL, TEXT, "--show", "dependence", "--json", "-").stdout)["dependence"]
    assert [pair["between"] for pair in record["agreement"]] == [
        ["attention", "gradient"],
        ["attention", "left_out"],
        ["gradient", "left_out"],
    ]
    for level, label in (("words", "word"), ("pieces", "piece")):
        _, _, _, heading, *rows = run(MODEL, TEXT, "--show", "dependence", "--level", level).stdout.splitlines()
        assert heading.split()[:5] == [label, "probability", "attention", "gradient", "left"]
        maps = re.compile(r"\d+\.\d%" + r" +[·░▒▓█]{7}" * 3)
        assert sum(bool(maps.search(row)) for row in rows) == len(record["gradients"])
        mean = f"{record['agreement'][0]['mean']:.2f}".replace("-", "−")
        assert any(row.startswith(f"mean τ: attention and gradient {mean}, ") for row in rows)
    run(MODEL, TEXT, "--show", "dependence", "--svg", tmp_path / "map.svg")
    assert "What each word depends on" in (tmp_path / "map.svg").read_text()


def test_scores_are_those_before_the_softmax(tmp_path: Path) -> None:
    heading, *rows = run(MODEL, TEXT, "--show", "scores").stdout.splitlines()[3:]
    expected_look = Lens.load(MODEL).look(TEXT)
    head = expected_look.model["alignment_head"]["head"]
    assert heading.endswith(f"scores before the softmax (Encoder–decoder · layer 1 · head {head + 1})")
    for row, values in zip(rows, expected_look.scores("cross", 0)[head], strict=True):
        assert f" {values.max():.2f}".replace("-", "−") in row
    run(MODEL, TEXT, "--show", "scores", "--png", tmp_path / "scores.png")
    assert (tmp_path / "scores.png").stat().st_size > 1_000


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--show", "states"], "no states over time"),
        (["--show", "dependence", "--layer", "1", "--head", "1"], "--layer cannot be used with --show dependence"),
        (["--show", "scores", "--json", "-"], "--show cannot be used with --json"),
    ],
)
def test_views_that_mean_nothing_are_refused(flags: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(MODEL, TEXT, *flags)


def test_intervention_shows_translations_before_and_after() -> None:
    stdout = run(MODEL, TEXT, "--positions-as", "none", "--heads-off", "decoder.1.2").stdout
    _, before, after, _, heading, *rows = stdout.splitlines()
    assert before.startswith("before  ")
    assert after.startswith("after   ")
    assert heading.startswith("before  original model  changed model")
    assert len(rows) >= len(before.removeprefix("before  ").partition("  log")[0].split())


@pytest.mark.parametrize(
    ("flags", "title", "rows"),
    [
        (["--attention", "encoder", "--layer", "1", "--head", "2"], "Encoder · layer 1 · head 2", "source"),
        (["--attention", "decoder", "--layer", "1", "--head", "1"], "Decoder · layer 1 · head 1", "inputs"),
        (["--attention", "cross", "--layer", "1", "--head", "2"], "Encoder–decoder · layer 1 · head 2", "outputs"),
        (["--attention", "encoder"], "Encoder · layer 1 · mean of all heads", "source"),
        (["--layer", "1", "--head", "1"], "Encoder · layer 1 · head 1", "source"),
    ],
)
@pytest.mark.parametrize("level", ["words", "pieces"])
def test_terminal_shows_the_selected_head_and_level(
    flags: list[str], title: str, rows: str, level: Literal["words", "pieces"]
) -> None:
    lines = run(MODEL, TEXT, *flags, "--level", level).stdout.splitlines()
    expected_look = Lens.load(MODEL).look(TEXT)
    target = expected_look.target
    row_text = {"source": expected_look.source, "inputs": target.inputs, "outputs": target.outputs}[rows]
    heading, *shown = lines[3:]
    assert heading.split()[0] == level.removesuffix("s")
    assert heading.endswith(f"attends to ({title})")
    assert ("probability" in heading) == (rows == "outputs")
    assert [line.split()[0] for line in shown] == row_text.labels(level)
    attention: Literal["encoder", "decoder", "cross"] = (
        "encoder" if rows == "source" else "decoder" if rows == "inputs" else "cross"
    )
    weights = expected_look.weights(attention, 0, level)
    expected = weights.mean(0) if "mean of all heads" in title else weights[int(title[-1]) - 1]
    for line, row in zip(shown, expected, strict=True):
        assert line.endswith(f" {row.max():.2f}") or f" {row.max():.2f}, " in line


def test_pieces_have_their_own_probabilities() -> None:
    lines = run(MODEL, TEXT, "--level", "pieces").stdout.splitlines()
    steps = Lens.load(MODEL).look(TEXT).steps
    assert [line.split()[:2] for line in lines[4:]] == [
        [step.chosen.text, f"{step.chosen.probability:.1%}"] for step in steps
    ]


def test_attention_of_an_ablated_model_is_shown_on_request() -> None:
    ablation = ["--heads-off", "cross.1.1"]
    assert "attends to" not in run(MODEL, TEXT, *ablation).stdout
    stdout = run(MODEL, TEXT, *ablation, "--attention", "cross", "--layer", "1", "--head", "1").stdout
    assert "original model" in stdout
    assert "attends to (Encoder–decoder · layer 1 · head 1 (off))" in stdout


def test_writes_every_kind_of_file(tmp_path: Path) -> None:
    paths = {suffix: tmp_path / f"look.{suffix}" for suffix in ("png", "svg", "html", "json")}
    flags = [part for suffix, path in paths.items() for part in (f"--{suffix}", path)]
    result = run(MODEL, TEXT, *flags, "--attention", "cross")
    assert result.stdout == ""
    assert [line for line in result.stderr.splitlines() if line.startswith("wrote")] == [
        f"wrote {path}" for path in paths.values()
    ]
    assert paths["png"].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in paths["svg"].read_bytes()
    page = paths["html"].read_text(encoding="utf-8")
    assert 'data-place="stop=cross&amp;attention=cross&amp;level=words"' in page
    record = json.loads(paths["json"].read_text(encoding="utf-8"))
    assert record["format"] == "regard-look/1"
    assert record["source"]["text"] == TEXT


def test_json_on_standard_output_has_nothing_else_around_it() -> None:
    record = json.loads(run(MODEL, TEXT, "--json", "-", "--translation", "1 2").stdout)
    assert record["target"]["given"]
    assert record["change"] is None


def test_layer_and_head_select_a_single_head_to_draw(tmp_path: Path) -> None:
    grid, single = tmp_path / "grid.svg", tmp_path / "single.svg"
    run(MODEL, TEXT, "--svg", grid)
    run(MODEL, TEXT, "--svg", single, "--layer", "1", "--head", "2", "--level", "pieces")
    assert "Encoder self-attention · the source attends to itself" in grid.read_text(encoding="utf-8")
    assert "Encoder · layer 1 · head 2" in single.read_text(encoding="utf-8")


def test_heads_prints_a_table_and_writes_picture_and_json(corpus: list[str], tmp_path: Path) -> None:
    picture, table = tmp_path / "heads.png", tmp_path / "heads.json"
    result = run(MODEL, "--heads", *corpus, "--png", picture, "--json", table)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("4 sentences: ")
    heads = [tuple(line.split()[:3]) for line in lines[3:9]]
    assert heads == [(name, "1", head) for name in ("Encoder", "Decoder", "Encoder–decoder") for head in "12"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert json.loads(table.read_text(encoding="utf-8"))["format"] == "regard-heads/1"
    assert "measuring all heads over 4 sentences" in result.stderr


def test_heads_table_has_a_legend_and_counts_skipped_pairs(corpus: list[str], tmp_path: Path) -> None:
    paths = []
    for flag, path in zip(corpus[::2], corpus[1::2], strict=True):
        paths += [flag, str(tmp_path / Path(path).name)]
        Path(paths[-1]).write_text(Path(path).read_text(encoding="utf-8") + "\n", encoding="utf-8")
    lines = run(MODEL, "--heads", *paths).stdout.splitlines()
    assert lines[0].startswith("4 sentences (1 left out: blank or too long): ")
    assert any(line.startswith("Encoder–decoder ") and "source word at the same position" in line for line in lines)
    assert any(line.endswith("share on </s>; for decoder heads, share on <s>") for line in lines)


def test_heads_can_measure_bleu_without_each_head(corpus: list[str]) -> None:
    record = json.loads(run(MODEL, "--heads", *corpus, "--bleu", "--json", "-").stdout)
    assert record["baseline"]["bleu"] is not None
    assert all(head["bleu_drop"] is not None for head in record["heads"])


@pytest.mark.parametrize("model", [[], [MODEL]])
def test_positions_draws_the_papers_or_the_models_encoding(model: list[str], tmp_path: Path) -> None:
    result = run(*model, "--positions", "--png", tmp_path / "positions.png", "--svg", tmp_path / "positions.svg")
    assert result.stdout == ""
    assert (tmp_path / "positions.png").read_bytes().startswith(b"\x89PNG")
    assert "Positional encoding" in (tmp_path / "positions.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ([], "a sentence is missing"),
        ([MODEL], "a sentence is missing"),
        ([MODEL, " "], "the text is blank"),
        ([MODEL, TEXT, "--layer", "1"], "--layer and --head must be given together"),
        ([MODEL, TEXT, "--layer", "1", "--head", "3"], r"no head encoder\.1\.3; hint: .* counted from 1"),
        ([MODEL, TEXT, "--heads-off", "cross.2.1"], r"no head cross\.2\.1"),
        ([MODEL, TEXT, "--heads-off", "cross.0.1"], r"no head cross\.0\.1"),
        ([MODEL, TEXT, "--heads-off", "cross-1"], "'cross-1' is not a head; hint: .*encoder.1.4"),
        ([MODEL, TEXT, "--bleu"], "--bleu cannot be used with a sentence"),
        ([MODEL, "--heads"], "--heads needs sentences"),
        ([MODEL, "--heads", "--no-mask"], "--no-mask cannot be used with --heads"),
        ([MODEL, TEXT, "--heads"], "TEXT cannot be used with --heads"),
        ([MODEL, TEXT, "--positions", "--png", "a.png"], "TEXT cannot be used with --positions"),
        ([MODEL, TEXT, "--translation", "1 2", "--beam", "4"], "--beam cannot be used with --translation"),
        ([MODEL, "--heads", "--beam", "4"], "--beam cannot be used with --heads"),
        (["--positions", "--beam", "4"], "--beam cannot be used with --positions"),
        (["--positions", "--target", "de"], "--target cannot be used with --positions"),
        ([MODEL, TEXT, "--json", "-", "--attention", "cross"], "--attention cannot be used with --json"),
        (["--positions"], "--positions needs an output file"),
        (["--positions", "--json", "-"], "--json cannot be used with --positions"),
        ([MODEL, TEXT, "--png", "nowhere/a.png"], "cannot write nowhere/a.png"),
    ],
)
def test_invalid_options_are_user_errors(flags: list[str], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        run(*flags)


def test_files_of_different_lengths_are_an_error(corpus: list[str], tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_text("1\n", encoding="utf-8")
    with pytest.raises(DataError, match="has 1 lines"):
        run(MODEL, "--heads", "--source", short, *corpus[2:])


def test_escape_sequences_never_reach_the_terminal() -> None:
    stdout = run(MODEL, "7 \x1b[2J4 [red]7[/red]").stdout
    assert "\x1b" not in stdout
    assert "[red]" in stdout


def test_reach_shows_how_far_each_layer_sees(tmp_path: Path) -> None:
    *_, heading, layer = run(MODEL, TEXT, "--show", "reach").stdout.splitlines()
    assert heading.split("  ")[0] == "after layer"
    assert all(title in heading for title in ("source ← source", "translation ← translation", "translation ← source"))
    assert layer.split()[0] == "1" and "(100%)" in layer  # attention sees the whole source
    record = json.loads(run(MODEL, TEXT, "--show", "reach", "--json", "-").stdout)
    n_source = len(record["source"]["pieces"])
    assert record["reach"][0]["first_layer"] == [[1] * n_source] * n_source
    run(MODEL, TEXT, "--show", "reach", "--svg", tmp_path / "reach.svg")
    assert "Reach" in (tmp_path / "reach.svg").read_text()

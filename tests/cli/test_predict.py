"""`regard predict`, `regard evaluate RUN FILES` and `regard.load`, with a translator and with a task from elsewhere."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import regard
from regard.cli.app import app
from regard.errors import ArtifactError, UserError

from ..sign_task import SignPredictor, SignTask, registered, write_sign_model

GOLDEN = str(Path(__file__).parents[1] / "golden" / "model")
runner = CliRunner()


@pytest.fixture
def task() -> Iterator[SignTask]:
    with registered() as task:
        yield task


@pytest.fixture
def sign(tmp_path: Path, task: SignTask) -> str:
    return str(write_sign_model(tmp_path / "sign"))


@pytest.fixture(autouse=True)
def standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that the commands read as standard input."""
    path = tmp_path / "stdin"
    path.touch()
    monkeypatch.setattr("regard.cli.translate.stream.STDIN", path)
    return path


def run(*arguments: str) -> str:
    return runner.invoke(app, arguments, catch_exceptions=False, standalone_mode=False).stdout


# regard.load


def test_load_gives_the_predictor_of_the_models_task(sign: str) -> None:
    assert isinstance(regard.load(sign), SignPredictor)
    with regard.load(GOLDEN) as translator:  # type: ignore[attr-defined]
        assert isinstance(translator, regard.Translator)
        assert [prediction.text for prediction in translator.predict(["1 2", ""])][1] == ""


def test_load_names_the_known_tasks_if_it_does_not_have_that_of_the_model(tmp_path: Path) -> None:
    path = write_sign_model(tmp_path / "sign")
    with pytest.raises(ArtifactError, match="unknown task 'sign'; hint: this version of regard has: translation"):
        regard.load(path)


def test_loading_a_translator_imports_no_torch() -> None:
    program = f"import sys, regard\nregard.load({GOLDEN!r}).predict(['1'])\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "False\n"


def test_a_translator_is_only_loaded_from_a_model_that_translates(sign: str) -> None:
    with pytest.raises(UserError, match=r"is no translator: its task is sign; hint: use regard predict"):
        regard.Translator.load(sign)


# regard predict


def test_one_line_out_for_each_line_in(sign: str, task: SignTask, standard_input: Path) -> None:
    assert run("predict", sign) == ""
    standard_input.write_text("1 2\n-3\n0.5 -1")
    assert run("predict", sign) == "positive\nnegative\nnegative\n"
    assert task.predictors[0].closed and task.predictors[1].batches == [["1 2", "-3", "0.5 -1"]]


def test_inputs_may_be_arguments(sign: str) -> None:
    assert run("predict", sign, "1 2", "--", "-3") == "positive\nnegative\n"


def test_json_is_one_object_per_line(sign: str) -> None:
    lines = run("predict", sign, "1 2", "--json").splitlines()
    assert [json.loads(line) for line in lines] == [{"label": "positive", "total": 3.0}]


def test_a_translator_translates(standard_input: Path) -> None:
    standard_input.write_text("12 34\n\n5 6\n")
    predicted = run("predict", GOLDEN)
    assert predicted == run("translate", GOLDEN)
    assert [bool(line) for line in predicted.splitlines()] == [True, False, True]
    [record] = [json.loads(line) for line in run("predict", GOLDEN, "5 6", "--json").splitlines()]
    assert record.keys() == {"text", "score", "warnings"}


def test_an_invalid_input_is_named_after_the_predictions_before_it(sign: str, standard_input: Path) -> None:
    standard_input.write_text("1\n2\nthree\n4\n")
    result = runner.invoke(app, ["predict", sign])
    assert isinstance(result.exception, UserError)
    assert str(result.exception) == 'input 3: an input must be numbers; hint: such as "1 -2.5"'
    assert result.stdout == "positive\npositive\n"


def test_a_line_is_answered_before_the_next_one_is_typed() -> None:
    command = [sys.executable, "-m", "regard", "predict", GOLDEN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        answers = []
        for line in ("1 2", "3 4"):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            answers.append(process.stdout.readline())
        process.stdin.close()
        assert process.stdout.read() == "" and all(answer.endswith("\n") for answer in answers)


def test_a_predictor_that_loses_an_input_is_an_error(sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SignPredictor, "predict", lambda self, inputs: [])
    with pytest.raises(RuntimeError, match="0 predictions for 1 inputs"):
        run("predict", sign, "1")


def test_translate_says_what_to_do_with_a_model_of_another_task(sign: str) -> None:
    with pytest.raises(UserError, match="is no translator: its task is sign; hint: use regard predict"):
        run("translate", sign)


# regard evaluate RUN FILES


@pytest.fixture
def test_file(tmp_path: Path) -> str:
    path = tmp_path / "test.tsv"
    path.write_text("1 2\tpositive\n-3\tnegative\n-4\tpositive\n")
    return str(path)


def test_evaluate_shows_the_measures_of_the_task_in_its_order(sign: str, test_file: str, task: SignTask) -> None:
    header, right, mean, count = run("evaluate", sign, test_file).splitlines()
    assert header.split() == ["measure", "value"]
    assert (right, mean, count) == ("right signs  66.7%", "mean sum     -1.333", "3 examples")
    assert task.predictors[0].closed
    assert json.loads(run("evaluate", sign, test_file, "--json")) == {
        "task": "sign",
        "n_examples": 3,
        "metrics": {"mean": -4 / 3, "right": 2 / 3},
    }


def test_evaluate_measures_a_translator_on_a_source_and_a_reference(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("1 2\n3 4 5\n")
    (tmp_path / "reference").write_text("2 1\n5 4 3\n")
    files = [str(tmp_path / "source"), str(tmp_path / "reference")]
    by_files = json.loads(run("evaluate", GOLDEN, *files, "--json"))["metrics"]
    by_options = json.loads(run("evaluate", GOLDEN, "--source", files[0], "--reference", files[1], "--json"))
    assert [by_files["bleu"], by_files["chrf"]] == [score["value"] for score in by_options["scores"][:2]]
    assert by_files["exact"] == 0.5
    assert run("evaluate", GOLDEN, *files).splitlines()[1].startswith("BLEU ")


def test_evaluate_refuses_options_that_files_do_not_have(sign: str, test_file: str) -> None:
    with pytest.raises(UserError, match="--beam does not go with FILES; hint: give --source and --reference"):
        run("evaluate", sign, test_file, "--beam", "4")


def test_evaluate_asks_for_what_is_missing(sign: str, test_file: str) -> None:
    with pytest.raises(UserError, match=r"no reference to score against; hint: .*FILES"):
        run("evaluate", sign)
    with pytest.raises(UserError, match=r"is no translator: its task is sign; hint: .*regard evaluate RUN FILES"):
        run("evaluate", sign, "--source", test_file, "--reference", test_file)
    with pytest.raises(UserError, match="a source and at least one reference"):
        run("evaluate", GOLDEN, test_file)

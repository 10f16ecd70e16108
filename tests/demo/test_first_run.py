"""The demo at a reduced size: a few steps teach little, but the whole output is there."""

import shutil
from pathlib import Path

import pytest

from regard.cli.demo import _summary
from regard.demo import first_run as module
from regard.demo.first_run import DemoResult, first_run, street_text
from regard.demo.street.corpus import make_corpus
from regard.errors import RunError, UserError
from regard.run import Callbacks
from regard.serve.inside.examples import read_examples


class Steps(Callbacks):
    """Counts the training steps."""

    def __init__(self) -> None:
        self.n = 0

    def on_event(self, event: str, **fields: object) -> None:
        self.n += event == "step"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        module,
        "make_corpus",
        lambda seed, n_train: make_corpus(seed, n_train=3_000, n_valid=30, n_test=60, n_unseen=60),
    )


def test_second_call_returns_the_stored_result_without_training(tmp_path: Path, small: None) -> None:
    first, second = Steps(), Steps()
    shown = first_run(tmp_path / "demo", first, steps=12)
    assert first.n == 12
    assert first_run(tmp_path / "demo", second, steps=12) == shown
    assert second.n == 0
    third = Steps()
    first_run(tmp_path / "demo", third, steps=12, again=True)
    assert third.n == 12


def test_output_has_both_sentences_and_the_next_commands(tmp_path: Path, small: None) -> None:
    shown: DemoResult = first_run(tmp_path / "demo", Callbacks(), steps=2)
    text = "\n".join(_summary(shown, tmp_path / "demo"))
    assert "because it was too tired." in text and "because it was too wide." in text
    assert 0 <= shown.test.exact <= 1 and 0 <= shown.unseen.pronouns <= 1
    assert 0 <= shown.head.right <= 1 and 0 <= shown.head.wrong <= 1
    assert text.count(" attends to ") == 2
    examples = read_examples(tmp_path / "demo")  # what the page opens with
    assert examples is not None
    assert examples.texts == tuple(example.source for example in shown.examples)
    assert examples.head.model_dump() == shown.head.place.model_dump()
    assert text.index("regard train --source") < text.index("regard translate")


def test_stored_result_of_another_model_is_ignored(tmp_path: Path, small: None) -> None:
    out = tmp_path / "demo"
    shown = first_run(out, Callbacks(), steps=2)
    (out / "demo.json").write_text(shown.model_copy(update={"recipe": "another"}).model_dump_json())
    assert first_run(out, Callbacks(), steps=2) == shown


def test_again_never_removes_another_run(tmp_path: Path, small: None) -> None:
    out = tmp_path / "mine"
    first_run(out, Callbacks(), steps=2)
    recipe = (out / "recipe.toml").read_text()
    (out / "recipe.toml").write_text(recipe.replace("street/train", "mine/train"))
    with pytest.raises(RunError, match=r"is a run with another corpus; hint: choose another directory with --out$"):
        first_run(out, Callbacks(), again=True)
    assert (out / "model" / "config.json").exists()


def test_leftovers_of_a_killed_training_are_removed(tmp_path: Path, small: None) -> None:
    out = tmp_path / "demo"
    street_text(out, 100)
    (out / ".recipe.toml.writing-0123abcd").write_text("half")
    (out / ".probe.writing-0123abcd").write_text("")
    assert street_text(out, 100) == out / "data" / "street"
    assert not list(out.glob(".*.writing-*"))


def test_nothing_is_written_into_another_run(tmp_path: Path, small: None) -> None:
    out = tmp_path / "mine"
    first_run(out, Callbacks(), steps=2)
    recipe = (out / "recipe.toml").read_text()
    (out / "recipe.toml").write_text(recipe.replace("street/train", "mine/train"))
    (out / "demo.json").unlink()
    shutil.rmtree(out / "data" / "street")
    for start in (lambda: first_run(out, Callbacks()), lambda: street_text(out, 100)):
        with pytest.raises(RunError, match=r"is a run with another corpus; hint: choose another directory with --out$"):
            start()
    assert not (out / "data" / "street").exists()


def test_incomplete_corpus_is_written_again(tmp_path: Path, small: None) -> None:
    text = tmp_path / "demo" / "data" / "street"
    text.mkdir(parents=True)
    (text / "train.en").write_text("half")
    assert len(street_text(tmp_path / "demo", 100).joinpath("train.en").read_text().splitlines()) == 3_000


def test_path_that_cannot_be_written_raises_user_error(tmp_path: Path, small: None) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file"):
        first_run(tmp_path / "file", Callbacks())

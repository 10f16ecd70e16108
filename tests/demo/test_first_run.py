"""The guided first run at a reduced size: a few steps teach little, but all that a person sees is there."""

import shutil
from pathlib import Path

import pytest

from regard.cli.demo import _summary
from regard.demo import first_run as module
from regard.demo.first_run import FirstRun, first_run, street_text
from regard.demo.street.corpus import split
from regard.errors import RunError, UserError
from regard.run import Callbacks


class Steps(Callbacks):
    """Counts the steps that were taken."""

    def __init__(self) -> None:
        self.n = 0

    def on_event(self, event: str, **fields: object) -> None:
        self.n += event == "step"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        module, "split", lambda seed, n_train: split(seed, n_train=3_000, n_valid=30, n_test=60, n_unseen=60)
    )


def test_it_measures_shows_and_opens_at_once_the_second_time(tmp_path: Path, small: None) -> None:
    first, second = Steps(), Steps()
    shown = first_run(tmp_path / "demo", first, steps=12)
    assert first.n == 12
    assert first_run(tmp_path / "demo", second, steps=12) == shown
    assert second.n == 0
    third = Steps()
    first_run(tmp_path / "demo", third, steps=12, again=True)
    assert third.n == 12


def test_the_story_names_both_sentences_and_what_to_try(tmp_path: Path, small: None) -> None:
    shown: FirstRun = first_run(tmp_path / "demo", Callbacks(), steps=2)
    text = "\n".join(_summary(shown, tmp_path / "demo"))
    assert "because it was too tired." in text and "because it was too wide." in text
    assert 0 <= shown.test.exact <= 1 and 0 <= shown.unseen.pronouns <= 1
    assert 0 <= shown.head.right <= 1 and 0 <= shown.head.wrong <= 1
    assert text.count(" attends to ") == 2
    assert text.index("regard train --source") < text.index("regard translate")


def test_what_was_measured_on_another_model_is_not_told(tmp_path: Path, small: None) -> None:
    out = tmp_path / "demo"
    shown = first_run(out, Callbacks(), steps=2)
    (out / "demo.json").write_text(shown.model_copy(update={"recipe": "another"}).model_dump_json())
    assert first_run(out, Callbacks(), steps=2) == shown


def test_again_never_removes_a_run_of_one_s_own(tmp_path: Path, small: None) -> None:
    out = tmp_path / "mine"
    first_run(out, Callbacks(), steps=2)
    recipe = (out / "recipe.toml").read_text()
    (out / "recipe.toml").write_text(recipe.replace("street/train", "mine/train"))
    with pytest.raises(RunError, match=r"not of the street's text; hint: choose another directory with --out$"):
        first_run(out, Callbacks(), again=True)
    assert (out / "model" / "config.json").exists()


def test_what_a_killed_training_left_behind_is_in_nobody_s_way(tmp_path: Path, small: None) -> None:
    out = tmp_path / "demo"
    street_text(out, 100)
    (out / ".recipe.toml.writing-0123abcd").write_text("half")
    (out / ".probe.writing-0123abcd").write_text("")
    assert street_text(out, 100) == out / "data" / "street"
    assert not list(out.glob(".*.writing-*"))


def test_nothing_is_written_into_a_run_of_one_s_own(tmp_path: Path, small: None) -> None:
    out = tmp_path / "mine"
    first_run(out, Callbacks(), steps=2)
    recipe = (out / "recipe.toml").read_text()
    (out / "recipe.toml").write_text(recipe.replace("street/train", "mine/train"))
    (out / "demo.json").unlink()
    shutil.rmtree(out / "data" / "street")
    for begin in (lambda: first_run(out, Callbacks()), lambda: street_text(out, 100)):
        with pytest.raises(RunError, match=r"not of the street's text; hint: choose another directory with --out$"):
            begin()
    assert not (out / "data" / "street").exists()


def test_half_written_text_is_written_again(tmp_path: Path, small: None) -> None:
    text = tmp_path / "demo" / "data" / "street"
    text.mkdir(parents=True)
    (text / "train.en").write_text("half")
    assert len(street_text(tmp_path / "demo", 100).joinpath("train.en").read_text().splitlines()) == 3_000


def test_a_place_that_can_not_be_written_is_named(tmp_path: Path, small: None) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file"):
        first_run(tmp_path / "file", Callbacks())

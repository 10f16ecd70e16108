"""The recipe: typed values with the paper's defaults, and readable errors."""

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import regard
from regard.errors import RecipeError
from regard.models import ARCHITECTURES, Transformer
from regard.run import Recipe, merge, parse_setting, read_recipe
from regard.run.recipe import differences, identity
from regard.tasks import TASKS
from regard.tasks.translation.sections import CorpusConfig
from regard.text.vocabulary import default_vocab_size
from regard.training import TrainingConfig

DATA: dict[str, Any] = {"train": [{"source": "a.en", "target": "a.de"}]}
SOURCE = Path(regard.__file__).parent
RECIPES = sorted((SOURCE.parents[1] / "recipes").glob("*.toml"))


def build(**sections: Any) -> Recipe:
    return Recipe.build({"data": DATA} | sections)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"model": {"d_modle": 3}}, "unknown key 'model.d_modle'; did you mean 'd_model'?"),
        ({"training": {"step": 3}}, "unknown key 'training.step'; did you mean 'steps'?"),
        ({"trainin": {}}, "unknown key 'trainin'; did you mean 'training'?"),
        ({"data": {"train": [{"sorce": "a"}]}}, "unknown key 'data.train.0.sorce'; did you mean 'source'?"),
        (
            {"data": DATA | {"validation": [{"source": "a", "target": "b", "wieght": 2}]}},
            "unknown key 'data.validation.0.wieght'; did you mean 'weight'?",
        ),
        ({"text": {"zzz": 1}}, "unknown key 'text.zzz'"),
        ({"data": {}}, "data.train is missing"),
        ({"data": {"train": []}}, "data.train is missing"),
        ({"training": 5}, "training is a section of the recipe: set one of its values, such as training.seed"),
        ({"training": {"steps": "abc"}}, "training.steps: Input should be a valid integer"),
        ({"model": {"d_model": 30, "n_heads": 4}}, "d_model (30) must be a multiple of n_heads (4)"),
        ({"text": {"joint": False}}, "text.joint = false needs model.tie = 'target' or 'none'"),
        (
            {"text": {"max_length": 64}, "model": {"positions": "learned", "max_positions": 64}},
            "text.max_length = 64 needs model.max_positions = 65 or more",
        ),
        ({"training": {"budget_seconds": 5}}, "budget_seconds needs schedule = 'cooldown'"),
        ({"data": {"train": [{"source": "a"}]}}, "a corpus needs a source and a target file, or one TSV file"),
        ({"data": {"train": [{"tsv": "a", "weight": 0}]}}, "data.train.0.weight: Input should be greater than 0"),
        ({"model": {"preset": "huge"}}, "model.preset: Input should be 'tiny', 'small', 'base' or 'big'"),
        ({"task": "translatoin"}, "task: there is no 'translatoin'; hint: did you mean 'translation'?"),
        ({"task": "zzz"}, "task: there is no 'zzz'; hint: use one of: translation"),
        ({"task": ["translation"]}, "task: there is no ['translation']; hint: "),
        ({"task": 3}, "task: there is no 3; hint: "),
        ({"model": {"architecture": "lstn"}}, "model.architecture: there is no 'lstn'; hint: did you mean 'lstm'?"),
        (
            {"model": {"architecture": "transfromer"}},
            "model.architecture: there is no 'transfromer'; hint: did you mean 'transformer'?",
        ),
        ({"model": {"architecture": {}}}, "model.architecture: there is no {}; hint: "),
        ({"model": 3}, "model is a section of the recipe"),
        ({"training": {"two_processes": "yes"}}, "training.two_processes: Input should be 'auto', 'on' or 'off'"),
        (
            {"training": {"best_by": "f1"}},
            "training.best_by = 'f1' is not one of loss, perplexity, accuracy, bleu, chrf",
        ),
        ({"training": {"best_by": "bleu", "translated": 0}}, "best_by = 'bleu' needs translated to be above 0"),
        ({"training": {"average_of": "best", "save_every": 5, "validate_every": 3}}, "needs save_every"),
    ],
)
def test_invalid_recipe_raises_a_readable_error(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError) as raised:
        Recipe.build({"data": DATA} | raw)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_only_learned_positions_limit_the_length() -> None:
    assert build(text={"max_length": 64}, model={"positions": "learned", "max_positions": 65}).model.max_positions == 65
    assert build(text={"max_length": 5_000}).text.max_length == 5_000


def test_separate_vocabularies_need_untied_embeddings() -> None:
    for tie in ("target", "none"):
        assert build(text={"joint": False}, model={"tie": tie}).model.tie == tie


def test_defaults_are_the_papers() -> None:
    """PAPER.md section 2."""
    recipe = build()
    model, training = recipe.model, recipe.training
    layers = (model.n_encoder_layers, model.n_decoder_layers)
    assert (*layers, model.d_model, model.d_ff, model.n_heads, model.dropout) == (6, 6, 512, 2048, 8, 0.1)
    assert (model.norm, model.positions, model.attention) == ("post", "sinusoidal", "scaled_dot_product")
    assert (model.activation, model.tie) == ("relu", "all")
    assert (training.beta1, training.beta2, training.epsilon) == (0.9, 0.98, 1e-9)
    assert (training.schedule, training.rate, training.warmup) == ("noam", None, 4000)
    assert (training.smoothing, training.steps, training.max_tokens) == (0.1, 100_000, 25_000)
    assert (training.average, training.average_of) == (5, "last")
    assert (training.accumulate, training.clip, training.ema, training.r_drop) == (1, None, None, 0.0)
    assert training.save_every == 10 * 60 / 0.4  # every 10 minutes, at 0.4 s per step
    assert (recipe.text.kind, recipe.text.joint) == ("bpe", True)
    assert default_vocab_size(2 * 4_500_000) == 37_000


def test_big_preset_is_the_papers() -> None:
    model = build(model={"preset": "big"}).model
    assert (model.d_model, model.d_ff, model.n_heads, model.dropout) == (1024, 4096, 16, 0.3)


def test_preset_provides_missing_values() -> None:
    model = build(model={"preset": "tiny", "dropout": 0.3, "n_encoder_layers": 1}).model
    assert (model.d_model, model.d_ff, model.n_heads, model.n_decoder_layers) == (128, 256, 4, 4)
    assert (model.dropout, model.n_encoder_layers) == (0.3, 1)


def test_architecture_without_a_model_for_the_task_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ARCHITECTURES["transformer"]._replace(models={"other": Transformer})
    monkeypatch.setitem(ARCHITECTURES, "classifier", other)
    with pytest.raises(RecipeError) as raised:
        build(model={"architecture": "classifier"})
    assert "classifier has no model for the task translation; hint: use one of: transformer, " in str(raised.value)
    assert "classifier" not in str(raised.value.hint)


def test_toml_round_trip_preserves_the_recipe() -> None:
    recipe = build(
        data=DATA | {"validation": [{"tsv": "v.tsv", "tag": "de"}], "held_out": 0.25},
        model={"preset": "small", "norm": "pre"},
        training={"rate": 0.003, "clip": 1.0, "ema": 0.999},
        start_from="runs/a",
    )
    again = Recipe.build(tomllib.loads(recipe.to_toml()))
    assert again == recipe
    assert again.to_toml() == recipe.to_toml()


def test_paths_are_absolute_so_that_a_run_resumes_from_any_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert build().data.train[0].source == tmp_path / "a.en"


@pytest.mark.parametrize(
    "change",
    [
        {"training": {"seed": 2}},
        {"model": {"dropout": 0.2}},
        {"text": {"max_length": 10}},
        {"data": DATA | {"on_bad": "skip"}},
        {"start_from": "m"},
    ],
)
def test_identity_changes_with_any_value(change: dict[str, Any]) -> None:
    plain, changed, same = (
        recipe.to_toml().encode() for recipe in (build(), build(**change), build(training={"seed": 1}))
    )
    assert identity(changed) != identity(plain) == identity(same)


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("training.steps=300", {"training": {"steps": 300}}),
        ("model.dropout=0.3", {"model": {"dropout": 0.3}}),
        ("model.norm=pre", {"model": {"norm": "pre"}}),
        ('model.norm="pre"', {"model": {"norm": "pre"}}),
        ("data.doctor=false", {"data": {"doctor": False}}),
        ("start_from=runs/a=b", {"start_from": "runs/a=b"}),
        (" training.steps = 3 ", {"training": {"steps": 3}}),
        ('data.train=[{tsv="x"}]', {"data": {"train": [{"tsv": "x"}]}}),
    ],
)
def test_setting_is_parsed_as_toml_or_as_a_string(text: str, raw: dict[str, Any]) -> None:
    assert parse_setting(text) == raw


@pytest.mark.parametrize("text", ["steps", "=3", ".steps=3", "training..steps=3", ""])
def test_invalid_setting_raises_recipe_error(text: str) -> None:
    with pytest.raises(RecipeError, match=r"is not a setting; hint: write it as training\.steps=300"):
        parse_setting(text)


def test_merge_prefers_later_values_and_keeps_the_rest() -> None:
    first, second = {"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"y": 5}, "c": {"z": 1}}
    assert merge(first, second, {"b": 4}) == {"a": {"x": 1, "y": 5}, "b": 4, "c": {"z": 1}}
    assert first == {"a": {"x": 1, "y": 2}, "b": 3}
    assert merge({"a": 1}, {"a": {"x": 1}}) == {"a": {"x": 1}}


def test_differences_name_the_key_and_both_values() -> None:
    was, now = {"model": {"dropout": 0.1, "d_model": 8}, "x": 1}, {"model": {"dropout": 0.3, "d_model": 8}, "x": 1}
    assert differences(was, now) == ["model.dropout was 0.1 and is 0.3"]
    assert differences({"a": 1}, {"b": 2}) == ["a was 1 and is not set", "b was not set and is 2"]
    assert differences(was, was) == []


def test_unreadable_recipe_file_raises_recipe_error(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("steps = = 3")
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe4'")
    for name, words in [("bad.toml", "is not TOML"), ("latin.toml", "is not TOML"), ("no.toml", "no such file")]:
        with pytest.raises(RecipeError, match=words):
            read_recipe(tmp_path / name)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_shipped_recipe_is_valid_and_short(path: Path) -> None:
    raw = read_recipe(path)
    of_task = {"classification": {"train": [{"labels": "train.tsv"}]}, "images": {"train": [{"images": "train"}]}}
    of_task |= {task: {"train": ["train.txt"]} for task in ("language", "pretraining", "answering")}
    data = of_task.get(raw.get("task", ""), DATA)
    Recipe.build(merge({"data": data}, raw))  # the data is given on the command line
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 40


def _attributes_read() -> set[str]:
    """The names of all attributes that the source code reads, outside the configuration classes."""
    names = set()
    for path in SOURCE.rglob("*.py"):
        if path.name in {"recipe.py", "config.py", "sections.py"}:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        configs = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name.endswith("Config")]
        inside = {id(node) for config in configs for node in ast.walk(config)}
        names |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and id(n) not in inside}
    return names


def test_every_field_of_a_recipe_is_read_by_some_code() -> None:
    read = _attributes_read()
    assert "no_such_field" not in read
    sections: list[type[BaseModel]] = [
        Recipe,
        TrainingConfig,
        *(kind for t in TASKS.values() for kind in t.sections.values()),
    ]
    sections += {architecture.config for architecture in ARCHITECTURES.values()}
    fields = [f"{section.__name__}.{name}" for section in sections for name in section.model_fields]
    assert [field for field in fields if field.split(".")[1] not in read] == []
    # the fields of a corpus are read through corpus()
    assert CorpusConfig(tsv=Path("x"), weight=2.0, tag="de").corpus().weight == 2.0

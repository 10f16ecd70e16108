"""Table 2: what every architecture reaches on the same text, and what its training costs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from regard.artifact import describe, model_spec
from regard.models import ARCHITECTURES, ModelSpec
from regard.paper.document import Document, Section, curves_chart
from regard.paper.measure import measure_quality, measure_training, measured
from regard.paper.rows import ARCHITECTURE_ROWS, Row, Trainer
from regard.paper.texts import PaperText
from regard.run import read_recipe

Equal = Literal["time", "steps", "parameters"]

REFERENCE = "transformer"  # the others get its batches, and its number of parameters
_GRAIN = 8  # widths are multiples of it

HEADER = (
    "model", "BLEU", "95%", "chrF++", "95%", "perplexity", "parameters", "steps", "s/step", "target tokens/s",
    "training FLOPs", "sentences/s",
)  # fmt: skip


def table2(text: PaperText, trainer: Trainer, equal: Equal, rows: Sequence[Row] = ARCHITECTURE_ROWS) -> Document:
    """Trains and measures the rows. `trainer` has the time or the number of steps of each."""
    runs = _train(rows, trainer, equal)
    sources, references = text.test_pairs()
    values: dict[str, Any] = {"equal": equal, "rows": {}}
    for row in rows:
        trainer.callbacks.on_progress(f"measuring {row.label}", 0, None)
        run = runs[row.name]
        quality = measured(run, "quality", partial(measure_quality, run, sources, references), sources, references)
        training = measured(run, "training", partial(measure_training, run))
        values["rows"][row.name] = (
            {"label": row.label, "short": row.short, "size": describe(run).size} | quality | training
        )
    return Document(
        "table2",
        f"Table 2, measured: one text, one training loop, {len(rows)} architectures",
        _sections(values, text),
        values,
    )


def _train(rows: Sequence[Row], trainer: Trainer, equal: Equal) -> dict[str, Path]:
    if equal == "time":
        return trainer.train(rows)
    first = [row for row in ARCHITECTURE_ROWS if row.name == REFERENCE]
    reference = trainer.train(first, to_come=len(rows) - 1)[REFERENCE]
    max_tokens = read_recipe(reference / "recipe.toml")["training"]["max_tokens"]
    others = [row for row in rows if row.name != REFERENCE]
    if equal == "parameters":
        others = [_with_parameters_of(reference, row) for row in others]
    same_batches = trainer.with_values({"training": {"max_tokens": max_tokens}})
    return {REFERENCE: reference} | same_batches.train(others, done=1)


def _with_parameters_of(reference: Path, row: Row) -> Row:
    """The row with the width that brings its number of parameters nearest to that of the reference."""
    spec = model_spec(describe(reference))
    name = row.settings["model"]["architecture"]
    given = {key: value for key, value in row.settings["model"].items() if key not in ("architecture", "preset")}

    def n_parameters(width: int) -> int:
        preset = ARCHITECTURES[name].presets["tiny"]
        config = type(preset).model_validate(preset.model_dump() | given | {"d_model": width})
        return ModelSpec(spec.task, name, config, spec.sizes).outline().n_parameters

    wanted = spec.outline().n_parameters
    low, high = _GRAIN, _GRAIN
    while n_parameters(high) < wanted:
        low, high = high, 2 * high
    while high - low > _GRAIN:
        middle = (low + high) // 2 // _GRAIN * _GRAIN
        low, high = (middle, high) if n_parameters(middle) < wanted else (low, middle)
    width = min((low, high), key=lambda width: abs(n_parameters(width) - wanted))
    return row.with_values({"model": {"d_model": width}})


def _sections(values: dict[str, Any], text: PaperText) -> list[Section]:
    rows = list(values["rows"].values())
    by_length = {row["short"]: [(bucket["mean_length"], bucket["bleu"]) for bucket in row["by_length"]] for row in rows}
    buckets = rows[0]["by_length"]
    lengths = [("tokens", *(bucket["label"] for bucket in buckets))]
    lengths += [(row["label"], *(f"{bucket['bleu']:.1f}" for bucket in row["by_length"])) for row in rows]
    return [
        Section(text=_introduction(values, text), table=[HEADER, *(_cells(row) for row in rows)]),
        Section(
            title="BLEU by length of the source",
            text="A model that has to put a sentence into one vector is expected to lose most on long ones.",
            table=lengths,
            figures=[curves_chart("BLEU", by_length, "token")],
        ),
    ]


def _introduction(values: dict[str, Any], text: PaperText) -> str:
    equal = {
        "time": "Every model was trained for the same time.",
        "steps": "Every model was trained for the same number of steps, on the same batches.",
        "parameters": "Every model has about as many parameters as the Transformer, and was trained for as many steps.",
    }
    return (
        f"{equal[values['equal']]} Text: {text.train[0].name} and {text.train[1].name}; scores on "
        f"{text.test[0].name}, with 95% intervals by the bootstrap.\n\nTraining FLOPs are three times those of the "
        "forward pass, which are those of its matrix products by formula, without padding. All models translate "
        "with PyTorch, with a beam of 4."
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    bleu, chrf = (next(score for score in row["scores"] if score["name"] == name) for name in ("BLEU", "chrF++"))
    scores = []
    for score in (bleu, chrf):
        scores += [f"{score['value']:.1f}", f"{score['interval']['low']:.1f}–{score['interval']['high']:.1f}"]
    return (
        row["label"],
        *scores,
        f"{row['perplexity']:.2f}",
        f"{row['n_parameters'] / 1e6:.2f}M",
        f"{row['steps']:,}",
        f"{row['seconds_per_step']:.3f}",
        f"{row['tokens_per_second']:,.0f}",
        f"{row['flops']:.1e}",
        f"{row['sentences_per_second']:.0f}",
    )

"""Table 3: the Transformer with one thing changed, at a size that trains in minutes, beside the paper's figures.

The paper's values are scaled to the size `tiny`: half of its 8 heads are half of 4. Row (B), smaller keys with values
as before, needs attention whose keys and values have different sizes, which Regard does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean, stdev
from typing import Any, NamedTuple

from regard.evaluate.significance import student_t
from regard.paper.document import Document, Section
from regard.paper.measure import measure_quality, measure_training, measured
from regard.paper.rows import Row, Trainer
from regard.paper.texts import PaperText
from regard.tasks import Raw

BASE = {"architecture": "transformer", "preset": "tiny", "dropout": 0.1}


class Variant(NamedTuple):
    """A row of the paper's table, and the same change here."""

    group: str
    name: str
    paper: str  # what the paper changed
    perplexity: float  # the paper's
    bleu: float
    model: Raw = {}  # noqa: RUF012
    training: Raw = {}  # noqa: RUF012

    @property
    def row(self) -> Row:
        training = {"smoothing": 0.1, **self.training}
        return Row(self.name, f"{self.group} {self.name}".strip(), {"model": BASE | self.model, "training": training})


VARIANTS = (
    Variant("", "base", "h 8, N 6, d_model 512, d_ff 2048", 4.92, 25.8),
    Variant("A", "heads-1", "h 1", 5.29, 24.9, {"n_heads": 1}),
    Variant("A", "heads-2", "h 4", 5.00, 25.5, {"n_heads": 2}),
    Variant("A", "heads-8", "h 16", 4.91, 25.8, {"n_heads": 8}),
    Variant("A", "heads-16", "h 32", 5.01, 25.4, {"n_heads": 16}),
    Variant("C", "layers-1", "N 2", 6.11, 23.7, {"n_encoder_layers": 1, "n_decoder_layers": 1}),
    Variant("C", "layers-3", "N 4", 5.19, 25.3, {"n_encoder_layers": 3, "n_decoder_layers": 3}),
    Variant("C", "layers-5", "N 8", 4.88, 25.5, {"n_encoder_layers": 5, "n_decoder_layers": 5}),
    Variant("C", "width-64", "d_model 256", 5.75, 24.5, {"d_model": 64}),
    Variant("C", "width-256", "d_model 1024", 4.66, 26.0, {"d_model": 256}),
    Variant("C", "d_ff-128", "d_ff 1024", 5.12, 25.4, {"d_ff": 128}),
    Variant("C", "d_ff-512", "d_ff 4096", 4.75, 26.2, {"d_ff": 512}),
    Variant("D", "dropout-0", "dropout 0", 5.77, 24.6, {"dropout": 0.0}),
    Variant("D", "dropout-0.2", "dropout 0.2", 4.95, 25.5, {"dropout": 0.2}),
    Variant("D", "smoothing-0", "smoothing 0", 4.67, 25.3, training={"smoothing": 0.0}),
    Variant("D", "smoothing-0.2", "smoothing 0.2", 5.47, 25.7, training={"smoothing": 0.2}),
    Variant("E", "learned-positions", "learned positions", 4.92, 25.7, {"positions": "learned", "max_positions": 512}),
)
HEADER = (
    "row", "here", "in the paper", "perplexity", "difference", "paper's", "BLEU", "difference", "paper's", "parameters",
    "s/step",
)  # fmt: skip


def table3(text: PaperText, trainer: Trainer, n_seeds: int, variants: Sequence[Variant] = VARIANTS) -> Document:
    """Trains base with several seeds, which tells what is noise, and every other row with one."""
    base, others = VARIANTS[0].row, [variant.row for variant in variants if variant != VARIANTS[0]]
    seeds = [
        base._replace(name=f"base-{seed}", label=f"base, seed {seed}", settings=_with_seed(base.settings, seed))
        for seed in range(2, n_seeds + 1)
    ]
    rows = [base, *seeds, *others]
    runs = trainer.train(rows)
    sources, references = text.test_pairs()
    measures: dict[str, dict[str, Any]] = {}
    for row in rows:
        trainer.callbacks.on_progress(f"measuring {row.label}", 0, None)
        quality = measured(
            runs[row.name],
            "quality",
            partial(measure_quality, runs[row.name], sources, references),
            sources,
            references,
        )
        measures[row.name] = quality | measured(runs[row.name], "training", partial(measure_training, runs[row.name]))
        measures[row.name]["bleu"] = quality["scores"][0]["value"]
    of_base = [measures[row.name] for row in (base, *seeds)]
    noise = {name: prediction_half_width([each[name] for each in of_base]) for name in ("perplexity", "bleu")}
    mean = {name: fmean(each[name] for each in of_base) for name in ("perplexity", "bleu")}
    values = {"n_seeds": n_seeds, "mean": mean, "noise": noise, "rows": measures}
    return Document(
        "table3",
        "Table 3, measured: one change at a time",
        [_section([v for v in VARIANTS if v.name in measures], values, text)],
        values,
    )


def _with_seed(settings: Raw, seed: int) -> Raw:
    return settings | {"training": settings["training"] | {"seed": seed}}


def prediction_half_width(values: Sequence[float]) -> float | None:
    """How far one more run with another seed is from the mean of these, in 95 of 100 cases; None of a single one."""
    n = len(values)
    return student_t(n - 1) * stdev(values) * (1 + 1 / n) ** 0.5 if n > 1 else None


def _section(variants: Sequence[Variant], values: dict[str, Any], text: PaperText) -> Section:
    table: list[tuple[str, ...]] = [HEADER]
    for variant in variants:
        row, is_base = values["rows"][variant.name], variant.name == "base"
        cells = [variant.group, variant.name, variant.paper]
        for name, digits, paper in (("perplexity", 2, variant.perplexity), ("bleu", 1, variant.bleu)):
            value = values["mean"][name] if is_base else row[name]
            difference = "" if is_base else _difference(value - values["mean"][name], values["noise"][name], digits)
            cells += [f"{value:.{digits}f}", difference, f"{paper:.{digits}f}"]
        table.append((*cells, f"{row['n_parameters'] / 1e6:.2f}M", f"{row['seconds_per_step']:.3f}"))
    return Section(text=_text(values, text), table=table)


def _difference(value: float, noise: float | None, digits: int) -> str:
    """In parentheses where another seed could make it."""
    shown = f"{value:+.{digits}f}".replace("-", "−")
    return f"({shown})" if noise is not None and abs(value) <= noise else shown


def _text(values: dict[str, Any], text: PaperText) -> str:
    noise, n = values["noise"], values["n_seeds"]
    seeds = (
        f"Base is the mean of {n} seeds. A difference in parentheses is within what another seed of base would show in "
        f"95 of 100 cases: ±{noise['perplexity']:.2f} in perplexity, ±{noise['bleu']:.1f} in BLEU."
        if noise["bleu"] is not None
        else "Base has one seed, so nothing is known of noise: use --seeds."
    )
    return (
        f"The size is `tiny`, 4+4 layers of 128; the paper's changes are scaled to it. Scores on {text.test[0].name}; "
        f"perplexity per sub-word on the validation set. The paper's figures are of newstest2013, after 100,000 "
        f"steps. {seeds}"
        "\n\nRow (B), keys smaller than values, is missing: Regard's attention has keys and values of one size."
    )

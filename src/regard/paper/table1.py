"""Table 1: operations, sequential operations and path length by formula, and what time and memory they cost here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from math import log
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import UserError
from regard.lens.reach import Reach, measure_reach
from regard.models import ARCHITECTURES, LanguageModel, ModelSpec, TranslationModel
from regard.paper.document import Document, Section, curves_chart
from regard.paper.rows import ARCHITECTURE_ROWS, Row
from regard.run import Callbacks

N_SYMBOLS = 8_000  # of both vocabularies
SHORTEST = 8
_PERTURBED = (8, 32)  # lengths at which paths are verified
_SECONDS = 0.3  # that a measurement is repeated for, or three times
_FITTED = 4  # the longest lengths: short ones take as long as calling PyTorch

_PAPER = (
    ("layer type", "complexity per layer", "sequential operations", "longest path"),
    ("self-attention", "O(n² · d)", "O(1)", "O(1)"),
    ("recurrent", "O(n · d²)", "O(n)", "O(n)"),
    ("convolutional", "O(k · n · d²)", "O(1)", "O(log_k n) if dilated, else O(n / k)"),
    ("self-attention, restricted to r neighbours", "O(r · n · d)", "O(1)", "O(n / r)"),
)


def table1(callbacks: Callbacks, longest: int = 1024, rows: Sequence[Row] = ARCHITECTURE_ROWS) -> Document:
    """Models with random weights in the size `tiny`, on a sentence of n tokens whose translation has n."""
    if longest < 2 * SHORTEST:
        raise UserError(f"--longest {longest} is too short to see a growth", hint=f"use {2 * SHORTEST} or more")
    lengths = [SHORTEST * 2**i for i in range(longest.bit_length()) if SHORTEST * 2**i <= longest]
    values: dict[str, Any] = {"lengths": lengths, "rows": {}}
    for number, row in enumerate(rows):
        model = build(row)
        points = []
        for i, n in enumerate(lengths):
            callbacks.on_progress(f"measuring {row.label}", number * len(lengths) + i, len(rows) * len(lengths))
            points.append({"n": n} | model.cost(n, n)._asdict() | measure(model, n))
        values["rows"][row.name] = {
            "label": row.label,
            "short": row.short,
            "size": model.config.describe(),
            "n_parameters": model.n_parameters,
            "points": points,
            "exponents": {
                name: exponent([(p["n"], p[name]) for p in points])
                for name in ("flops", "encoder_ms", "step_ms", "bytes")
            },
            "paths": {
                str(n): {"formula": model.cost(n, n).path, "layers": measured_path(model, n)}
                for n in _PERTURBED
                if n <= longest
            },
        }
    callbacks.on_progress("measuring restricted attention", 0, None)
    values["restricted"] = [_restricted(pattern, longest) for pattern in ("full", "strided", "fixed")]
    return Document("table1", "Table 1, measured: what a longer sentence costs", _sections(values), values)


@torch.inference_mode()
def _restricted(pattern: str, longest: int) -> dict[str, Any]:
    """A language model whose attention sees everything before, or only a part, as in the Sparse Transformer."""
    lengths = [longest, 2 * longest, 4 * longest]
    preset = ARCHITECTURES["language"].presets["tiny"]
    config = type(preset).model_validate(preset.model_dump() | {"pattern": pattern})
    torch.manual_seed(1)
    model = ModelSpec("language", "language", config, {"n_symbols": N_SYMBOLS, "segment": lengths[-1]}).build().eval()
    assert isinstance(model, LanguageModel)
    points = []
    for n in lengths:
        ids = _ids(n)
        ms = _milliseconds(lambda ids=ids: model.read(ids, model.start(1)))  # type: ignore[misc]
        points.append({"n": n, "ms": ms} | model.cost(n)._asdict())
    exponents = {name: exponent([(point["n"], point[name]) for point in points]) for name in ("flops", "ms")}
    return {"pattern": pattern, "points": points, "exponents": exponents}


def build(row: Row) -> TranslationModel:
    """A model with random weights."""
    given = {key: value for key, value in row.settings["model"].items() if key not in ("architecture", "preset")}
    architecture = row.settings["model"]["architecture"]
    preset = ARCHITECTURES[architecture].presets["tiny"]
    config = type(preset).model_validate(preset.model_dump() | given)
    torch.manual_seed(1)
    sizes = {"n_src_symbols": N_SYMBOLS, "n_tgt_symbols": N_SYMBOLS, "pad_id": 0}
    model = ModelSpec("translation", architecture, config, sizes).build().eval()
    assert isinstance(model, TranslationModel)
    return model


@torch.inference_mode()
def measure(model: TranslationModel, n: int) -> dict[str, float]:
    """Milliseconds of the encoder and of the n-th step of the decoder, and the bytes that the decoder keeps then."""
    ids = _ids(n)
    encoder_ms = _milliseconds(lambda: model.encode(ids))
    state, token = model.start(model.encode(ids)), torch.tensor([5])
    for _ in range(n - 1):
        _, state = model.step(token, state)
    return {
        "encoder_ms": encoder_ms,
        "step_ms": _milliseconds(lambda: model.step(token, state)),
        "bytes": n_bytes(state),
    }


def _ids(n: int) -> Tensor:
    """(1, n) different tokens, as far as there are."""
    return torch.arange(n)[None] % (N_SYMBOLS - 4) + 4


def _milliseconds(compute: Callable[[], Any]) -> float:
    """The median of at least three calls, after one that does not count."""
    compute()
    durations: list[float] = []
    while len(durations) < 3 or sum(durations) < _SECONDS:
        started_at = perf_counter()
        compute()
        durations.append(perf_counter() - started_at)
    return 1000 * median(durations)


def n_bytes(state: Any) -> int:
    """Of all tensors in a state; of a view, only the part that it shows."""
    if isinstance(state, Tensor):
        return state.numel() * state.element_size()
    if is_dataclass(state):
        return sum(n_bytes(getattr(state, field.name)) for field in fields(state))
    return sum(map(n_bytes, state)) if isinstance(state, tuple) else 0


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """e of the power n^e that fits the last points best."""
    x, y = zip(*((log(n), log(value)) for n, value in points[-_FITTED:]), strict=True)
    return float(np.polyfit(x, y, 1)[0])


def measured_path(model: TranslationModel, n: int) -> int | None:
    """The number of layers after which every position depends on every other, by changing one token at a time.

    None if some never do, or if the model records no vector per position. A recurrent layer takes n steps.
    """
    ids = [*map(int, _ids(n)[0])]
    try:
        reaches = measure_reach(model, ids, ids, ids[1:] + ids[:1])
    except UserError:
        return None
    farthest = [_farthest(reach) for reach in reaches]
    return None if 0 in farthest else max(farthest)


def _farthest(reach: Reach) -> int:
    """The largest number of layers; 0 if two positions that may see each other never do."""
    first_layer = reach.first_layer
    if reach.rows == reach.columns == "target":  # the future cannot be seen
        first_layer = first_layer[np.tril_indices(len(first_layer))]
    return 0 if (first_layer == 0).any() else int(first_layer.max())


def crossover(model: TranslationModel) -> float:
    """The n at which the operations that grow with n² are as many as those that grow with n."""
    once, twice = (model.cost(n, n).flops for n in (1024, 2048))
    quadratic = (twice - 2 * once) / 2 / 1024**2
    return (once / 1024 - quadratic * 1024) / quadratic


def _sections(values: dict[str, Any]) -> list[Section]:
    rows, lengths = values["rows"].values(), values["lengths"]
    transformer = next(row for row in ARCHITECTURE_ROWS if row.name == "transformer")
    model = build(transformer)
    values["crossover"] = n = crossover(model)
    introduction = (
        "The paper compares layers; here are whole models, encoder and decoder, of about as many parameters, with "
        f"{N_SYMBOLS:,} symbols. Operations are those of matrix products, by formula. A path is the number of "
        "layers, or of steps of a recurrence, between the two positions farthest from each other."
    )
    shown = [length for length in lengths if length in (8, 64, 512)] or lengths
    by_formula = [("model", *(f"{what}, n = {length}" for length in shown for what in ("MFLOP", "sequential", "path")))]
    for row in rows:
        points = [point for point in row["points"] if point["n"] in shown]
        cells = [(f"{p['flops'] / 1e6:,.1f}", f"{p['sequential']:,}", _path(p["path"])) for p in points]
        by_formula.append((row["label"], *(cell for group in cells for cell in group)))
    return [
        Section(title="The paper", text="n positions, vectors of size d, convolutions of width k.", table=_PAPER),
        Section(title="By formula", text=introduction, table=by_formula),
        _measured(values),
        _paths(values),
        _restricted_section(values["restricted"]),
        Section(
            title="Where n² meets n · d",
            text="In the Transformer, the operations that grow with n² are as many as those that grow with n at n = "
            f"{n:,.0f}. For one layer of self-attention alone the paper's formulas cross at n = d, here "
            f"{model.config.width}: below it, n² · d is less than n · d².",
        ),
    ]  # fmt: skip


def _path(path: int | None) -> str:
    return "never meet" if path is None else f"{path:,}"


def _measured(values: dict[str, Any]) -> Section:
    rows = values["rows"].values()
    first, last = values["lengths"][0], values["lengths"][-1]
    header = ["model"]
    for what in ("encoder, ms", "decoder step, ms", "kept by the decoder, kB"):
        header += [f"{what}: n = {first}", f"n = {last:,}", "grows as"]
    table = [tuple(header)]
    for row in rows:
        cells = []
        for name, factor in (("encoder_ms", 1.0), ("step_ms", 1.0), ("bytes", 1 / 1024)):
            cells += [f"{row['points'][i][name] * factor:,.1f}" for i in (0, -1)]
            cells.append(f"n^{round(row['exponents'][name], 1) + 0.0:.1f}")
        table.append((row["label"], *cells))
    options: dict[str, Any] = {"x_is_log": True, "can_be_log": True}
    figures = [
        curves_chart(
            title, {row["short"]: [(p["n"], p[name]) for p in row["points"]] for row in rows}, "token", **options
        )
        for title, name in (("Encoder, ms", "encoder_ms"), ("One step of the decoder, ms", "step_ms"))
    ]
    text = (
        f"One sentence at a time, in float32, with {torch.get_num_threads()} threads of PyTorch; medians. Exponents "
        f"are fitted to the {min(_FITTED, len(values['lengths']))} longest lengths: on short ones, the time is that "
        "of calling PyTorch, once per layer or once per step."
    )
    return Section(title="Measured", text=text, table=table, figures=figures)


def _paths(values: dict[str, Any]) -> Section:
    table = [("model", "n", "path by formula", "layers, measured")]
    for row in values["rows"].values():
        for n, path in row["paths"].items():
            table.append(
                (row["label"], n, _path(path["formula"]), "–" if path["layers"] is None else str(path["layers"]))
            )
    text = (
        "Measured by changing one token at a time, and looking after which layer each position changes. A recurrent "
        "layer connects all positions, but in n steps, which a perturbation does not count. “–”: some positions "
        "never meet, or (Neural GPU) the model has no vector per position."
    )
    return Section(title="Paths, verified", text=text, table=table)


def _restricted_section(rows: Sequence[dict[str, Any]]) -> Section:
    lengths = [point["n"] for point in rows[0]["points"]]
    header = [f"{what}, n = {n:,}" for n in lengths for what in ("MFLOP", "ms")]
    table: list[tuple[str, ...]] = [("attention", *header, "MFLOP grow as", "ms grow as", "path")]
    for row in rows:
        cells = [text for p in row["points"] for text in (f"{p['flops'] / 1e6:,.0f}", f"{p['ms']:,.0f}")]
        grow = [f"n^{row['exponents'][name]:.1f}" for name in ("flops", "ms")]
        table.append((row["pattern"], *cells, *grow, _path(row["points"][-1]["path"])))
    text = (
        "The last row of the paper's table was an idea for later. These are language models whose attention sees "
        "everything before, or only its neighbours and every 32nd position (strided), or its block of 32 and summaries "
        "of all blocks (fixed): the Sparse Transformer (Child et al., 2019). Operations include the softmax over the "
        "vocabulary, the times do not."
    )
    return Section(title="Restricted self-attention", text=text, table=table)

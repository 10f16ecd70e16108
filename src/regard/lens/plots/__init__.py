"""Pictures of a look, drawn with matplotlib, which is imported when something is drawn.

Layers and heads are counted from 1 in pictures, from 0 in Python and JSON.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from regard.errors import UserError
from regard.lens.interventions import Head

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from regard.lens.heads import HeadsTable
    from regard.lens.interventions import Attention
    from regard.lens.look import Level, Look
    from regard.lens.plots.canvas import Picture

_TITLES = {
    "encoder": "Encoder self-attention · the source attends to itself",
    "decoder": "Decoder self-attention · the translation attends to its earlier words",
    "cross": "Encoder–decoder attention · the translation attends to the source",
}
_MIN_MATPLOTLIB = (3, 11)  # the first that shapes Arabic and Indic text and reads every font of a .ttc file


def draw_heads(look: Look, attention: Attention, level: Level = "words") -> Picture:
    """Draw all heads of one kind of attention: one row per layer, one column per head."""
    check_matplotlib()
    from regard.lens.plots.heatmaps import AttentionMap, draw_grid

    grid = []
    for layer in range(len(look.layers(attention))):
        weights = look.weights(attention, layer, level)  # (H, T, S)
        heads = [Head(attention, layer, number) for number in range(len(weights))]
        titles = [f"layer {layer + 1} · head {head.head + 1}{look.off_mark(head)}" for head in heads]
        grid.append([AttentionMap(*pair, attention == "decoder") for pair in zip(titles, weights, strict=True)])
    rows, columns = look.labels(attention, level)
    return draw_grid(grid, rows, columns, _TITLES[attention], _sentences(look))


def draw_head(look: Look, head: Head, level: Level = "words") -> Picture:
    """Draw one head, large, with its weights as numbers."""
    check_matplotlib()
    from regard.lens.plots.heatmaps import AttentionMap, draw_single

    rows, columns = look.labels(head.attention, level)
    weights = look.weights(head.attention, head.layer, level)[head.head]  # (T, S)
    attention_map = AttentionMap(head.title + look.off_mark(head), weights, head.attention == "decoder")
    return draw_single(attention_map, rows, columns, _sentences(look))


def draw_dependence(look: Look, level: Level = "words") -> Picture:
    """Draw how much each output depends on each source word, from the gradients of a look."""
    check_matplotlib()
    from regard.lens.plots.heatmaps import DEPENDENCE_NOTE, AttentionMap, draw_single

    shares = look.dependence(level)
    if shares is None:
        raise UserError("this look has no gradients", hint="add --gradient")
    rows, columns = look.labels("cross", level)
    return draw_single(
        AttentionMap("Dependence on the source", shares), rows, columns, _sentences(look), DEPENDENCE_NOTE
    )


def draw_vectors(look: Look) -> Picture:
    """Draw the states of a model without attention: one row per sub-word, one column per unit."""
    check_matplotlib()
    from regard.lens.plots.heatmaps import draw_units

    labels = {"source": look.source.labels("pieces"), "target": look.target.inputs.labels("pieces")}
    found = [site for site in look.sites if site.axes in (("source", "unit"), ("target", "unit"))]
    shown = [site for site in found if site.kind == "state"] or found
    if not shown:
        raise UserError("this model recorded nothing that can be drawn", hint="--json FILE has everything")
    maps = [(site.path, look.trace[site.path][0].numpy(), labels[site.axes[0]]) for site in shown]
    return draw_units(maps, _sentences(look))


def draw_positions(table: NDArray[np.floating], title: str, subtitle: str = "") -> Picture:
    """Draw a positional encoding (T, D): the vector added to the word at each position."""
    check_matplotlib()
    from regard.lens.plots.heatmaps import draw_encoding

    return draw_encoding(table, title, subtitle)


def draw_heads_table(table: HeadsTable, name: str) -> Picture:
    """Draw the importance of each head over a corpus; `name` is the model's."""
    check_matplotlib()
    from regard.lens.plots.head_importance import draw_importance

    return draw_importance(table, name)


def check_matplotlib() -> None:
    """Raise UserError where matplotlib, an optional dependency, is missing or too old."""
    try:
        installed = version("matplotlib")
    except PackageNotFoundError:
        raise UserError("pictures need matplotlib", hint="in Regard's directory, run: pip install '.[plot]'") from None
    if tuple(map(int, installed.split(".")[:2])) < _MIN_MATPLOTLIB:
        raise UserError(
            f"matplotlib {installed} is too old for pictures", hint="in Regard's directory, run: pip install '.[plot]'"
        )


def _sentences(look: Look) -> tuple[str, str]:
    return look.source.text, look.target.text

"""Pictures of one look: all heads, one head, the dependence on the source, the states.

Layers and heads are counted from 1 in pictures, from 0 in Python and JSON.
"""

from dataclasses import replace

import numpy as np

from regard.errors import UserError
from regard.lens.interventions import Attention, Head
from regard.lens.look import Importance, Level, Look
from regard.lens.memory import memory_maps
from regard.lens.plots.canvas import Picture
from regard.lens.plots.heatmaps import (
    SCORES_NOTE,
    WEIGHTS_NOTE,
    AttentionMap,
    ReachMap,
    draw_beside,
    draw_grid,
    draw_reach_maps,
    draw_single,
    draw_stacked,
    draw_units,
)

_LAYERS_PER_ROW = 5
_TITLES = {
    "encoder": "Encoder self-attention · the source attends to itself",
    "decoder": "Decoder self-attention · the translation attends to its earlier words",
    "cross": "Encoder–decoder attention · the translation attends to the source",
}
_MEMORY_NOTE = (
    "Each row is the memory after one step, each column a place in it: darker is more, by the length of the vector."
)
_MEASURES: dict[Importance, str] = {"attention": "attention", "gradient": "gradient", "left_out": "left out"}


def draw_heads(look: Look, attention: Attention, level: Level = "words", *, before_softmax: bool = False) -> Picture:
    """Draw all heads of one kind of attention: one row per layer, one column per head.

    Layers with one head each stand beside each other.
    """
    grid = []
    for layer in range(len(look.layers(attention))):
        heads = [Head(attention, layer, number) for number in range(look.layers(attention)[layer].shape[0])]
        grid.append([_head_map(look, head, level, before_softmax) for head in heads])
    if all(len(heads) == 1 for heads in grid):
        maps = [heads[0] for heads in grid]
        grid = [maps[first : first + _LAYERS_PER_ROW] for first in range(0, len(maps), _LAYERS_PER_ROW)]
    rows, columns = look.labels(attention, level)
    note = SCORES_NOTE if before_softmax else WEIGHTS_NOTE
    return draw_grid(grid, rows, columns, _TITLES[attention], _sentences(look), note)


def draw_head(look: Look, head: Head, level: Level = "words", *, before_softmax: bool = False) -> Picture:
    """Draw one head, large, with its weights as numbers."""
    rows, columns = look.labels(head.attention, level)
    attention_map = _head_map(look, head, level, before_softmax)
    attention_map = replace(attention_map, title=head.title + look.off_mark(head))
    note = SCORES_NOTE if before_softmax else WEIGHTS_NOTE
    return draw_single(attention_map, rows, columns, _sentences(look), note)


def _head_map(look: Look, head: Head, level: Level, before_softmax: bool) -> AttentionMap:
    title = f"layer {head.layer + 1} · head {head.head + 1}{look.off_mark(head)}"
    if not before_softmax:
        weights = look.weights(head.attention, head.layer, level)[head.head]
        return AttentionMap(title, weights, head.attention == "decoder")
    scores = look.scores(head.attention, head.layer, level)  # (H, T, S)
    return AttentionMap(title, scores[head.head], limit=float(np.abs(scores).max()) or 1.0, is_signed=True)


def draw_dependence(look: Look, level: Level = "words") -> Picture:
    """Draw how much each output depends on each source word, by every measure, and how far the measures agree."""
    if not (views := look.importance(level)):
        raise UserError("this look has no dependence", hint="add --show dependence")
    rows, columns = look.labels("cross", level)
    alignment = look.alignment()
    titles = _MEASURES | ({} if alignment is None else {"attention": alignment[0]})
    maps = [(AttentionMap(titles[name], views[name]), columns) for name in views if name != "left_out"]
    falls = views["left_out"]
    signed = AttentionMap(_MEASURES["left_out"], falls, limit=float(np.abs(falls).max()) or 1.0, is_signed=True)
    agreement = look.agreement()
    by_word = np.stack([values for values, _ in agreement.values()], 1)  # (words, pairs)
    words = by_word if level == "words" else by_word[[piece.word for piece in look.target.outputs.pieces]]
    names = [f"{_MEASURES[a]} – {_MEASURES[b]}" for a, b in agreement]
    means = ", ".join(
        f"{name} {mean:.2f}" for name, (_, mean) in zip(names, agreement.values(), strict=True) if mean is not None
    )
    taus = AttentionMap("Kendall's τ", words, is_signed=True)
    sentences = (*_sentences(look), f"Rank agreement, mean τ: {means}".replace("-", "−"))
    return draw_beside([*maps, (signed, columns), (taus, names)], rows, "What each word depends on", sentences)


def draw_reach(look: Look) -> Picture:
    """Draw after how many layers each position depends on each sub-word."""
    if not look.reach:
        raise UserError("this look has no reach", hint="add --show reach")
    labels = {"source": look.source.labels("pieces"), "target": look.target.inputs.labels("pieces")}
    maps = [ReachMap(reach.title, reach.first_layer, labels[reach.rows], labels[reach.columns]) for reach in look.reach]
    return draw_reach_maps(maps, _sentences(look))


def draw_vectors(look: Look) -> Picture:
    """Draw states and gates over time: one row per sub-word, one column per unit. Without them, other vectors.

    Of a memory over time, only how much is in each column.
    """
    if memories := memory_maps(look):
        drawn = [
            (AttentionMap(each.title, each.values, limit=float(each.values.max()) or 1.0), each.rows, each.columns)
            for each in memories
        ]
        return draw_stacked(drawn, "The memory over time", _sentences(look), _MEMORY_NOTE)
    labels = {"source": look.source.labels("pieces"), "target": look.target.inputs.labels("pieces")}
    found = [site for site in look.sites if site.axes in (("source", "unit"), ("target", "unit"))]
    shown = look.recurrent_sites or found
    if not shown:
        raise UserError("this model recorded nothing that can be drawn", hint="--json FILE has everything")
    maps = [
        (AttentionMap(site.path, look.trace[site.path][0].numpy(), is_signed=site.kind != "gates"), site.axes[0])
        for site in shown
    ]
    title = "States and gates over time" if look.recurrent_sites else "Vectors"
    return draw_units([(units, labels[side]) for units, side in maps], title, _sentences(look))


def _sentences(look: Look) -> tuple[str, str]:
    return look.source.text, look.target.text

"""Pictures of one look: all heads, one head, the dependence on the source, the states.

Layers and heads are counted from 1 in pictures, from 0 in Python and JSON.
"""

from regard.errors import UserError
from regard.lens.interventions import Attention, Head
from regard.lens.look import Level, Look
from regard.lens.plots.canvas import Picture
from regard.lens.plots.heatmaps import DEPENDENCE_NOTE, AttentionMap, draw_grid, draw_single, draw_units

_TITLES = {
    "encoder": "Encoder self-attention · the source attends to itself",
    "decoder": "Decoder self-attention · the translation attends to its earlier words",
    "cross": "Encoder–decoder attention · the translation attends to the source",
}


def draw_heads(look: Look, attention: Attention, level: Level = "words") -> Picture:
    """Draw all heads of one kind of attention: one row per layer, one column per head."""
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
    rows, columns = look.labels(head.attention, level)
    weights = look.weights(head.attention, head.layer, level)[head.head]  # (T, S)
    attention_map = AttentionMap(head.title + look.off_mark(head), weights, head.attention == "decoder")
    return draw_single(attention_map, rows, columns, _sentences(look))


def draw_dependence(look: Look, level: Level = "words") -> Picture:
    """Draw how much each output depends on each source word, from the gradients of a look."""
    shares = look.dependence(level)
    if shares is None:
        raise UserError("this look has no gradients", hint="add --gradient")
    rows, columns = look.labels("cross", level)
    return draw_single(
        AttentionMap("Dependence on the source", shares), rows, columns, _sentences(look), DEPENDENCE_NOTE
    )


def draw_vectors(look: Look) -> Picture:
    """Draw the states of a model without attention: one row per sub-word, one column per unit."""
    labels = {"source": look.source.labels("pieces"), "target": look.target.inputs.labels("pieces")}
    found = [site for site in look.sites if site.axes in (("source", "unit"), ("target", "unit"))]
    shown = [site for site in found if site.kind == "state"] or found
    if not shown:
        raise UserError("this model recorded nothing that can be drawn", hint="--json FILE has everything")
    maps = [(site.path, look.trace[site.path][0].numpy(), labels[site.axes[0]]) for site in shown]
    return draw_units(maps, _sentences(look))


def _sentences(look: Look) -> tuple[str, str]:
    return look.source.text, look.target.text

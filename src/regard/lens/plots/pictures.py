"""What to draw of a look. How it is drawn is in `maps`, `waves` and `heads_grid`: matplotlib is loaded for those only.

Layers and heads are counted from 1 in everything that a person reads, from 0 in Python and JSON.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from regard.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from regard.lens.heads import HeadsTable
    from regard.lens.interventions import Attention, Head
    from regard.lens.look import Level, Look
    from regard.lens.plots.canvas import Picture

NAMES = {"encoder": "Encoder", "decoder": "Decoder", "cross": "Encoder–decoder"}
_WHAT_LOOKS = {
    "encoder": "Encoder · the source looks at itself",
    "decoder": "Decoder · the translation looks at what it has so far",
    "cross": "Encoder–decoder · the translation looks at the source",
}
_OLDEST = (3, 11)  # shapes Arabic and Indic text, and finds the fonts inside a .ttc


def draw_heads(look: Look, attention: Attention, level: Level = "words") -> Picture:
    """All heads of one kind: a row a layer, a column a head."""
    check_matplotlib()
    from regard.lens.interventions import Head
    from regard.lens.plots.maps import Caption, Map, draw_wall

    config = look.model.config
    n_layers = config.n_encoder_layers if attention == "encoder" else config.n_decoder_layers
    walls = []
    for layer in range(n_layers):
        weights = look.weights(attention, layer, level)  # (H, T, S)
        titles = (
            f"layer {layer + 1} · head {h + 1}{_off(look, Head(attention, layer, h))}" for h in range(len(weights))
        )
        walls.append([Map(title, one, attention == "decoder") for title, one in zip(titles, weights, strict=True)])
    rows, columns = look.labels(attention, level)
    return draw_wall(walls, rows, columns, Caption(_WHAT_LOOKS[attention], _sentences(look)))


def draw_head(look: Look, head: Head, level: Level = "words") -> Picture:
    """One head, large, with its weights as numbers."""
    check_matplotlib()
    from regard.lens.plots.maps import Map, draw_map

    rows, columns = look.labels(head.attention, level)
    weights = look.weights(head.attention, head.layer, level)[head.head]  # (T, S)
    one = Map(name_of(head) + _off(look, head), weights, head.attention == "decoder")
    return draw_map(one, rows, columns, _sentences(look))


def draw_positions(table: NDArray[np.floating], title: str, subtitle: str = "") -> Picture:
    """(T, D): what is added to the word at each position."""
    check_matplotlib()
    from regard.lens.plots.waves import draw_waves

    return draw_waves(table, title, subtitle)


def draw_heads_table(table: HeadsTable, name: str) -> Picture:
    """What each head is worth over a corpus; `name` is the model's."""
    check_matplotlib()
    from regard.lens.plots.heads_grid import draw_grid

    return draw_grid(table, name)


def name_of(head: Head) -> str:
    """For people: "Encoder · layer 2 · head 3"."""
    return f"{NAMES[head.attention]} · layer {head.layer + 1} · head {head.head + 1}"


def check_matplotlib() -> None:
    """Pictures are an extra."""
    try:
        found = version("matplotlib")
    except PackageNotFoundError:
        raise UserError("pictures need matplotlib", hint="pip install 'regard[plot]'") from None
    if tuple(map(int, found.split(".")[:2])) < _OLDEST:
        raise UserError(f"matplotlib {found} is too old for pictures", hint="pip install 'regard[plot]'")


def _off(look: Look, head: Head) -> str:
    return " (off)" if head in look.interventions.heads_off else ""


def _sentences(look: Look) -> tuple[str, str]:
    return look.source.text, look.target.text

"""Pictures show unmodified weights, name every head, and clip nothing."""

import struct
import subprocess
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from regard.errors import UserError
from regard.lens import Head, Interventions, Look
from regard.lens.head_statistics import Statistics
from regard.lens.heads import HeadRow, HeadsTable
from regard.lens.interventions import ATTENTIONS, Attention
from regard.lens.lens import Lens
from regard.lens.plots.canvas import DOTS_PER_INCH, Picture, shorten
from regard.lens.plots.head_importance import draw_heads_table
from regard.lens.plots.heatmaps import AttentionMap, ReachMap, draw_grid, draw_positions, draw_reach_maps, draw_single
from regard.lens.plots.pictures import draw_head, draw_heads
from regard.nn import sinusoid

from .conftest import LensMaker


def texts(figure: Figure) -> list[str]:
    return [artist.get_text() for artist in figure.findobj(Text) if artist.get_text()]


def images(figure: Figure) -> list[Any]:
    return [axes.images[0] for axes in figure.axes]


def pixels_outside(picture: Picture) -> float:
    """How far the drawing extends beyond the canvas."""
    figure = picture.figure
    box = figure.get_tightbbox(figure.canvas.get_renderer())  # type: ignore[attr-defined]
    width, height = figure.get_size_inches()
    return float(max(-box.x0, -box.y0, box.x1 - width, box.y1 - height)) * DOTS_PER_INCH


def even(n_rows: int, n_columns: int) -> np.ndarray[Any, Any]:
    return np.full((n_rows, n_columns), 1 / n_columns)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_every_head_is_drawn_with_its_title_and_weights(look: Look, attention: Attention) -> None:
    figure = draw_heads(look, attention).figure
    written = texts(figure)
    shown = images(figure)
    for layer in range(2):
        for head in range(4):
            assert f"layer {layer + 1} · head {head + 1}" in written
            image = shown[4 * layer + head]
            np.testing.assert_array_equal(image.get_array(), look.weights(attention, layer)[head])
            assert image.get_clim() == (0, 1)
            assert image.get_interpolation() == "nearest"
    rows, columns = look.labels(attention)
    assert all(word in written for word in (*rows, *columns))
    assert look.source.text in written


def test_layers_with_one_head_stand_beside_each_other(make_lens: LensMaker) -> None:
    look = make_lens(n_heads=1, n_decoder_layers=7, facts={}).look("one two", "zwei eins")
    figure = draw_heads(look, "cross").figure
    tops = [round(axes.get_position().y1, 3) for axes in figure.axes]
    assert len(tops) == 7 and len(set(tops)) == 2  # rows
    assert tops[:5] == tops[:1] * 5


def test_pieces_can_be_drawn_instead_of_words(look: Look) -> None:
    picture = draw_heads(look, "encoder", "pieces")
    n_pieces = len(look.source.pieces)
    assert images(picture.figure)[0].get_array().shape == (n_pieces, n_pieces)


def test_single_head_shows_its_weights_as_numbers(look: Look) -> None:
    picture = draw_head(look, Head("cross", 1, 2))
    assert picture.title == "Encoder–decoder · layer 2 · head 3"
    written = texts(picture.figure)
    for weight in look.weights("cross", 1)[2].flatten():
        if 0.005 <= weight < 0.995:
            assert f"{weight:.2f}"[1:] in written


def test_ablated_head_is_marked_as_off(lens: Lens) -> None:
    off = Head("encoder", 0, 1)
    look = lens.look("one two", interventions=Interventions(heads_off=frozenset([off])))
    assert "layer 1 · head 2 (off)" in texts(draw_heads(look, "encoder").figure)
    assert draw_head(look, off).title.endswith("head 2 (off)")


def test_masked_cells_are_grey_in_decoder_self_attention_only(look: Look) -> None:
    def n_images(attention: Attention) -> int:
        return len(draw_head(look, Head(attention, 0, 0)).figure.axes[0].images)

    assert (n_images("encoder"), n_images("decoder"), n_images("cross")) == (1, 2, 1)
    overlay = draw_head(look, Head("decoder", 0, 0)).figure.axes[0].images[1].get_array()
    assert overlay is not None
    np.testing.assert_array_equal(~np.ma.getmaskarray(overlay), np.triu(np.ones(overlay.shape, dtype=bool), k=1))


WORD = "Donaudampfschifffahrtsgesellschaft"
SENTENCES = {
    "one word": (["Hello", "</s>"], 2, 4),
    "fourteen": (["animal"] * 13 + ["</s>"], 3, 8),
    "sixty": (["word"] * 60 + ["</s>"], 2, 4),
    "a hundred": (["w"] * 100, 1, 2),
    "long words": ([WORD, "a", WORD * 3], 2, 2),
    "Korean": (["그", "동물은", "너무", "피곤해서", "길을", "건너지", "않았다", ".", "</s>"], 2, 4),
    "right to left": (["لم", "يعبر", "الحيوان", "الشارع"], 1, 3),
    "hostile": (["$\\frac$", "$x$", "\u202e</script>", "\x1b[2J", "🚀"], 1, 1),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_nothing_is_clipped(name: str) -> None:
    words, n_layers, n_heads = SENTENCES[name]
    maps = [
        [AttentionMap(f"layer {i + 1} · head {j + 1}", even(len(words), len(words))) for j in range(n_heads)]
        for i in range(n_layers)
    ]
    sentence = " ".join(words)
    grid = draw_grid(maps, words, words, "Encoder", (sentence, sentence))
    assert pixels_outside(grid) <= 1
    assert pixels_outside(draw_single(maps[0][0], words, words, (sentence,))) <= 1
    reach = ReachMap("source ← source", np.ones((len(words), len(words)), dtype=int), words, words)
    assert pixels_outside(draw_reach_maps([reach, reach], (sentence, sentence))) <= 1


def test_titles_and_labels_do_not_overlap() -> None:
    words = ["Hello", "</s>"]
    maps = [[AttentionMap(f"layer {i} · head {j}", even(2, 2)) for j in range(10, 14)] for i in range(10, 12)]
    figure = draw_grid(maps, words, words, "Encoder").figure
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    boxes = [artist.get_window_extent(renderer) for artist in figure.findobj(Text) if artist.get_text()]
    pairs = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i]]
    assert not any(a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 and b.y0 < a.y1 for a, b in pairs)


def test_files_are_reproducible_png_and_svg(look: Look, tmp_path: Path) -> None:
    picture = draw_head(look, Head("cross", 0, 0))
    for suffix in ("png", "svg"):
        picture.save(tmp_path / f"a.{suffix}", "png" if suffix == "png" else "svg")
        again = draw_head(look, Head("cross", 0, 0))
        again.save(tmp_path / f"b.{suffix}", "png" if suffix == "png" else "svg")
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()
    png = (tmp_path / "a.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    size = picture.figure.get_size_inches() * DOTS_PER_INCH
    assert struct.unpack(">II", png[16:24]) == tuple(int(side) for side in size)
    offset = png.index(b"pHYs") + 4
    assert struct.unpack(">I", png[offset : offset + 4])[0] == round(DOTS_PER_INCH / 0.0254)
    root = ElementTree.fromstring((tmp_path / "a.svg").read_bytes())
    assert root.tag.endswith("svg")
    assert not root.findall(".//{http://www.w3.org/2000/svg}text")  # outlines need no fonts


def test_font_warnings_reach_the_picture(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.lens.plots import fonts

    default_only = {fonts.DEFAULT_FONT: fonts._default_font()}
    monkeypatch.setattr(fonts, "_candidates", lambda: default_only)
    (warning,) = draw_single(AttentionMap("Encoder", even(1, 1)), ["길"], ["a"]).warnings
    assert "Korean" in warning
    assert draw_heads(look, "encoder").warnings == ()


def test_positional_encoding_is_drawn_as_heat_map_and_curves() -> None:
    table = sinusoid(100, 64).numpy()
    picture = draw_positions(table, "Positional encoding", "d_model 64")
    heat_map, _, *curves = picture.figure.axes
    np.testing.assert_array_equal(heat_map.images[0].get_array(), table)
    assert len(curves) == 5
    np.testing.assert_array_equal(curves[0].lines[1].get_ydata(), table[:, 0])
    assert pixels_outside(picture) <= 1


def test_head_importance_shows_the_rise_of_the_loss_and_main_direction() -> None:
    heads = [Head(attention, 0, head) for attention in ATTENTIONS for head in range(2)]
    statistics = Statistics(*(np.float32(x) for x in (1.5, 2.0, 0.8, 0.1, 0.05, 0.05)))  # type: ignore[arg-type]
    rows = [HeadRow(head, statistics, 0.05, 0.123 if head == heads[0] else -0.0001, None) for head in heads]
    picture = draw_heads_table(HeadsTable(10, 0, 0.987, 0.4, None, tuple(rows)), "runs/x")
    written = texts(picture.figure)
    assert written.count("+0.123") == 1
    assert written.count("0.000") == 5
    assert written.count("previous 80%") == 6
    assert any("0.400" in text and "runs/x" in text for text in written)
    assert "source word at the same position" in " ".join(written)  # the note may be wrapped
    assert not any("…" in text for text in written)  # the notes are complete even above two heads
    assert pixels_outside(picture) <= 1


def test_head_importance_shows_only_the_attention_that_a_model_has() -> None:
    statistics = Statistics(*(np.float32(x) for x in (1.5, 2.0, 0.8, 0.1, 0.05, 0.05)))  # type: ignore[arg-type]
    row = HeadRow(Head("cross", 0, 0), statistics, 0.05, 0.123, None)
    written = texts(draw_heads_table(HeadsTable(10, 0, 0.987, 0.4, None, (row,)), "runs/x").figure)
    assert "+0.123" in written
    assert "Encoder–decoder" in written
    assert not {"Encoder", "Decoder"} & set(written)


def test_long_words_are_shortened() -> None:
    assert shorten("street", 14) == "street"
    assert shorten(WORD, 14) == "Donaudampfsch…"
    assert shorten("동물은너무피곤해서", 8) == "동물은…"


def test_missing_or_old_matplotlib_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.delitem(sys.modules, "regard.lens.plots")
    monkeypatch.setattr("importlib.metadata.version", absent)
    with pytest.raises(UserError, match=r"in Regard's directory, run: pip install '\.\[plot\]'"):
        import_module("regard.lens.plots")
    monkeypatch.setattr("importlib.metadata.version", lambda _: "3.10.8")
    with pytest.raises(UserError, match=r"3\.10\.8 is too old"):
        import_module("regard.lens.plots")


def test_drawing_does_not_import_pyplot() -> None:
    program = (
        "import sys, numpy as np\nfrom regard.lens.plots.heatmaps import AttentionMap, draw_single\n"
        "draw_single(AttentionMap('a', np.ones((1, 1))), ['a'], ['b'])\nassert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=180)

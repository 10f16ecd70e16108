"""Fonts: what can be drawn is drawn, and what can not is said. Holds on a machine with matplotlib's own alone."""

import shutil
from pathlib import Path

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib.tables.otTables import PaintFormat
from matplotlib import font_manager, get_data_path

from regard.lens.plots import fonts
from regard.lens.plots.fonts import BOX, OWN_FONT, Coverage, cover, visible

SCRIPTS = {
    "안녕하세요": ("Korean", "fonts-noto-cjk"),
    "ひらがなカタカナ": ("Japanese", "fonts-noto-cjk"),
    "中文": ("Chinese", "fonts-noto-cjk"),
    "🚀🐶": ("emoji", "fonts-symbola"),
    "नमस्ते": ("Devanagari", "fonts-noto-core"),
    "ไทย": ("Thai", "fonts-noto-core"),
}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with matplotlib's own fonts only."""
    own = [entry for entry in font_manager.fontManager.ttflist if entry.fname.startswith(get_data_path())]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    monkeypatch.setattr(font_manager, "findSystemFonts", list)


@pytest.mark.parametrize("text", ["Straße", "Ελλάδα", "живот", "مرحبا", "שלום", "▁the", "</s>", "10 €"])
@pytest.mark.parametrize("backwards", [False, True])
def test_the_own_font_needs_no_help(bare: None, text: str, backwards: bool) -> None:
    font_manager.fontManager.ttflist.sort(key=lambda entry: entry.fname, reverse=backwards)  # it has no order
    assert cover([text]) == Coverage((OWN_FONT,))


@pytest.mark.parametrize("text", SCRIPTS)
def test_what_no_font_has_is_a_box_and_a_remark(bare: None, text: str) -> None:
    coverage = cover(["plain", text])
    script, package = SCRIPTS[text]
    assert coverage.missing == set(text)
    assert coverage.drawable(f"a {text} b") == f"a {BOX * len(text)} b"
    (remark,) = coverage.remarks
    assert script in remark
    assert f"apt install {package}" in remark
    assert cover([BOX]).missing == set()


def test_each_script_is_named_once(bare: None) -> None:
    remarks = cover(["한국어 조선말", "日本 ですか", "🚀"]).remarks
    assert len(remarks) == 4  # Chinese characters, kana, Hangul, emoji
    assert "…" in cover(["가나다라마바사아자"]).remarks[0]


def test_unassigned_characters_are_named_by_number(bare: None) -> None:
    (remark,) = cover(["\ue000"]).remarks
    assert "U+E000" in remark


@pytest.mark.parametrize("text", SCRIPTS)
def test_on_any_machine_it_is_covered_or_said(text: str) -> None:
    coverage = cover([text])
    assert bool(coverage.missing) == bool(coverage.remarks)
    assert coverage.families[0] == OWN_FONT


@pytest.mark.parametrize(("text", "region"), [("직 直", "KR"), ("すぐ 直", "JP"), ("直 文", "SC")])
def test_chinese_characters_follow_the_letters_around_them(
    monkeypatch: pytest.MonkeyPatch, text: str, region: str
) -> None:
    entry = fonts._own_font()
    names = [f"Noto Serif CJK {code}" for code in ("JP", "KR", "SC")] + [
        f"Noto Sans CJK {code}" for code in ("JP", "KR", "SC", "TC")
    ]
    monkeypatch.setattr(fonts, "_candidates", lambda: dict.fromkeys([OWN_FONT, *names], entry))
    calls = iter([{" "}])
    monkeypatch.setattr(fonts, "_covered", lambda _, chars: next(calls, set(chars)))
    assert cover([text]).families == (OWN_FONT, f"Noto Sans CJK {region}")


def test_a_font_that_was_just_installed_is_found(bare: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """matplotlib's own list of fonts is older than the advice that we gave a minute ago."""
    new = tmp_path / "new.ttf"
    shutil.copy(Path(get_data_path(), "fonts", "ttf", "STIXGeneral.ttf"), new)
    broken = tmp_path / "broken.ttf"
    broken.write_bytes(b"no font")
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(new), str(broken)])
    before = len(font_manager.fontManager.ttflist)
    cover(["가"])
    assert [Path(entry.fname) for entry in font_manager.fontManager.ttflist[before:]] == [new]


def test_a_colour_font_without_outlines_draws_nothing(
    bare: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As Noto Color Emoji is on many machines: it can be scaled, has the characters, and their glyphs are empty."""
    colour = tmp_path / "colour.ttf"
    _colour_font(blank="🚀", outlined="🐶").save(colour)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(colour)])
    coverage = cover(["🚀🐶"])
    assert coverage.families == (OWN_FONT, "Colours")
    assert coverage.missing == {"🚀"}
    assert cover(["🚀"]).families == (OWN_FONT,)


def _colour_font(blank: str, outlined: str) -> FontBuilder:
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for corner in ((0, 700), (700, 700), (700, 0)):
        pen.lineTo(corner)
    pen.closePath()
    square, empty = pen.glyph(), TTGlyphPen(None).glyph()
    glyphs = {".notdef": empty, "blank": empty, "outlined": square, "shape": square}
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(list(glyphs))
    builder.setupCharacterMap({ord(blank): "blank", ord(outlined): "outlined"})
    builder.setupGlyf(glyphs)
    builder.setupHorizontalMetrics(dict.fromkeys(glyphs, (800, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Colours", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.setupCPAL([[(1.0, 0.0, 0.0, 1.0)]])
    red = {"Format": PaintFormat.PaintSolid, "PaletteIndex": 0, "Alpha": 1.0}
    painted = {"Format": PaintFormat.PaintGlyph, "Paint": red, "Glyph": "shape"}
    builder.setupCOLR({"blank": painted, "outlined": painted}, version=1)
    return builder


def test_marks_that_could_scramble_a_picture_are_left_out() -> None:
    assert visible("a\u202eb\u2066c\ufe0f\x1b\u200bd") == "abcd"
    assert visible("می\u200cخواهم") == "می\u200cخواهم"  # the joiners shape their neighbours

"""Fonts cover a text or warn about it. These tests pass on a machine that has only matplotlib's own fonts."""

import shutil
from pathlib import Path

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib.tables.otTables import PaintFormat
from matplotlib import font_manager, get_data_path

from regard.lens.plots import fonts
from regard.lens.plots.fonts import BOX, DEFAULT_FONT, Fonts, select_fonts, without_invisible

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
    """Simulates a machine with only matplotlib's own fonts."""
    own = [entry for entry in font_manager.fontManager.ttflist if entry.fname.startswith(get_data_path())]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    monkeypatch.setattr(font_manager, "findSystemFonts", list)


@pytest.mark.parametrize("text", ["Straße", "Ελλάδα", "живот", "مرحبا", "שלום", "▁the", "</s>", "10 €"])
@pytest.mark.parametrize("backwards", [False, True])
def test_default_font_alone_covers_these_scripts(bare: None, text: str, backwards: bool) -> None:
    font_manager.fontManager.ttflist.sort(key=lambda entry: entry.fname, reverse=backwards)  # the list is unordered
    assert select_fonts([text]) == Fonts((DEFAULT_FONT,))


@pytest.mark.parametrize("text", SCRIPTS)
def test_missing_characters_become_boxes_with_a_warning(bare: None, text: str) -> None:
    selected = select_fonts(["plain", text])
    script, package = SCRIPTS[text]
    assert selected.missing == set(text)
    assert selected.drawable(f"a {text} b") == f"a {BOX * len(text)} b"
    (warning,) = selected.warnings
    assert script in warning
    assert f"apt install {package}" in warning
    assert select_fonts([BOX]).missing == set()


def test_each_script_has_one_warning(bare: None) -> None:
    warnings = select_fonts(["한국어 조선말", "日本 ですか", "🚀"]).warnings
    assert len(warnings) == 4  # Chinese characters, kana, Hangul, emoji
    assert "…" in select_fonts(["가나다라마바사아자"]).warnings[0]


def test_unassigned_characters_are_listed_by_code_point(bare: None) -> None:
    (warning,) = select_fonts(["\ue000"]).warnings
    assert "U+E000" in warning


@pytest.mark.parametrize("text", SCRIPTS)
def test_on_any_machine_text_is_covered_or_has_a_warning(text: str) -> None:
    selected = select_fonts([text])
    assert bool(selected.missing) == bool(selected.warnings)
    assert selected.families[0] == DEFAULT_FONT


@pytest.mark.parametrize(("text", "region"), [("직 直", "KR"), ("すぐ 直", "JP"), ("直 文", "SC")])
def test_chinese_characters_use_the_font_of_the_surrounding_script(
    monkeypatch: pytest.MonkeyPatch, text: str, region: str
) -> None:
    entry = fonts._default_font()
    names = [f"Noto Serif CJK {code}" for code in ("JP", "KR", "SC")] + [
        f"Noto Sans CJK {code}" for code in ("JP", "KR", "SC", "TC")
    ]
    monkeypatch.setattr(fonts, "_candidates", lambda: dict.fromkeys([DEFAULT_FONT, *names], entry))
    calls = iter([{" "}])
    monkeypatch.setattr(fonts, "_covered", lambda _, chars: next(calls, set(chars)))
    assert select_fonts([text]).families == (DEFAULT_FONT, f"Noto Sans CJK {region}")


def test_newly_installed_font_is_used(bare: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """matplotlib caches its list of fonts; the user may have installed one after our warning."""
    new = tmp_path / "new.ttf"
    shutil.copy(Path(get_data_path(), "fonts", "ttf", "STIXGeneral.ttf"), new)
    broken = tmp_path / "broken.ttf"
    broken.write_bytes(b"no font")
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(new), str(broken)])
    before = len(font_manager.fontManager.ttflist)
    select_fonts(["가"])
    assert [Path(entry.fname) for entry in font_manager.fontManager.ttflist[before:]] == [new]


def test_colour_glyphs_without_outlines_count_as_missing(
    bare: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Noto Color Emoji is such a font: scalable, with empty glyphs for its characters."""
    colour = tmp_path / "colour.ttf"
    _colour_font(blank="🚀", outlined="🐶").save(colour)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(colour)])
    selected = select_fonts(["🚀🐶"])
    assert selected.families == (DEFAULT_FONT, "Colours")
    assert selected.missing == {"🚀"}
    assert select_fonts(["🚀"]).families == (DEFAULT_FONT,)


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


def test_invisible_characters_are_removed_except_joiners() -> None:
    assert without_invisible("a\u202eb\u2066c\ufe0f\x1b\u200bd") == "abcd"
    assert without_invisible("می\u200cخواهم") == "می\u200cخواهم"  # the joiners shape their neighbours

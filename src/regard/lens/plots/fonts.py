"""Selects installed fonts that can draw a text, and warns about characters that none of them has.

matplotlib's default font (DejaVu Sans) has Latin, Greek, Cyrillic, Arabic and Hebrew; other scripts need the fonts of
the system. Since 3.11 matplotlib shapes text: Arabic letters join, Hebrew runs right to left, Indic marks are placed.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from matplotlib import font_manager
from matplotlib.font_manager import FontEntry
from matplotlib.ft2font import FaceFlags, FT2Font

DEFAULT_FONT = "DejaVu Sans"  # comes with matplotlib
BOX = "□"
# placeholder glyphs for every character, or a private encoding
_EXCLUDED_FONTS = ("LastResort", "Last Resort", "Adobe Blank", "STIX", "cm", ".")
_FONT_NAME_PARTS = {"HANGUL": ("KR", "Korean", "Gothic"), "HIRAGANA": ("JP", "Gothic"), "KATAKANA": ("JP", "Gothic")}
_CHINESE_NAME_PARTS = ("SC", "CN", "YaHei", "PingFang")
_EAST_ASIAN = {"CJK": "Chinese", "HANGUL": "Korean", "HIRAGANA": "Japanese", "KATAKANA": "Japanese"}


@dataclass(frozen=True)
class Fonts:
    """The font families for a text, in order of preference, and the characters that none of them has."""

    families: tuple[str, ...]
    missing: frozenset[str] = frozenset()

    def drawable(self, text: str) -> str:
        """The text with a box for each missing character, without invisible characters that could scramble it."""
        return "".join(BOX if char in self.missing else char for char in without_invisible(text))

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line per missing script: what is drawn instead, and what to install."""
        scripts: dict[str, set[str]] = {}
        for char in self.missing:
            scripts.setdefault(_script(char), set()).add(char)
        return tuple(_warning(script, sorted(chars)) for script, chars in sorted(scripts.items()))


def select_fonts(texts: Iterable[str]) -> Fonts:
    """A small set of families for all of these texts, chosen greedily after matplotlib's default font."""
    uncovered = {char for text in texts for char in without_invisible(text)}
    uncovered -= _covered(_default_font(), uncovered)
    if not uncovered:
        return Fonts((DEFAULT_FONT,))
    _add_new_fonts()
    families, candidates, regional = [DEFAULT_FONT], _candidates(), _regional_name_parts(uncovered)
    while uncovered:
        covered = {name: _covered(entry, uncovered) for name, entry in candidates.items()}
        best = min(covered, key=lambda name: (-len(covered[name]), *_preference(name, regional)), default=None)
        if best is None or not covered[best]:
            break
        families.append(best)
        uncovered -= covered[best]
    return Fonts(tuple(families), frozenset(uncovered))


def without_invisible(text: str) -> str:
    """The text without characters that have no glyph: direction marks, variation selectors, controls.

    The two joiners stay: they change how their neighbours are drawn.
    """
    return "".join(char for char in text if not _is_invisible(char))


def _is_invisible(char: str) -> bool:
    if char in "\u200c\u200d":
        return False
    is_selector = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return is_selector or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _default_font() -> FontEntry:
    """The upright face: bold and italic have fewer letters, and the list of fonts is unordered."""
    return _candidates()[DEFAULT_FONT]


def _add_new_fonts() -> None:
    """matplotlib caches its list of fonts, but the user may just have installed what our warning suggested."""
    known = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known:
            try:
                font_manager.fontManager.addfont(path)
            except (OSError, RuntimeError):  # bitmaps only, or not a font
                continue


def _candidates() -> dict[str, FontEntry]:
    """One upright face of regular weight per family."""
    faces: dict[str, FontEntry] = {}
    for entry in font_manager.fontManager.ttflist:
        is_regular = entry.style == "normal" and str(entry.weight) in ("300", "400", "500", "normal", "regular", "book")
        if is_regular and not entry.name.startswith(_EXCLUDED_FONTS):
            faces.setdefault(entry.name, entry)
    return faces


def _covered(entry: FontEntry, chars: set[str]) -> set[str]:
    face = _face(str(entry.fname), entry.index)
    return set() if face is None else {char for char in chars if _can_draw(face, char)}


def _can_draw(face: FT2Font, char: str) -> bool:
    """Colour fonts have a glyph for every emoji, but often without an outline: matplotlib would draw nothing."""
    if not face.get_char_index(ord(char)):
        return False
    if not face.face_flags & (FaceFlags.COLOR | FaceFlags.SVG):
        return True
    face.load_char(ord(char))
    return len(face.get_path()[0]) > 0


@cache
def _face(path: str, index: int) -> FT2Font | None:
    try:
        return FT2Font(path, face_index=index)
    except (OSError, RuntimeError):  # deleted or broken
        return None


def _preference(family: str, regional: tuple[str, ...]) -> tuple[bool, bool, bool, str]:
    """A sort key for fonts that cover equally much: fits the region, sans serif, Noto Sans, then by name."""
    is_decorative = any(word in family for word in ("Serif", "Mono", "Song", "Ming", "Display", "Kufi", "Looped"))
    fits_region = any(word in family.split() or word in family for word in regional)
    return (not fits_region, is_decorative, not family.startswith("Noto Sans"), family)


def _regional_name_parts(chars: set[str]) -> tuple[str, ...]:
    """Chinese characters look different in Korea and Japan; Hangul or kana in the text decides which."""
    present = {_first_word(char) for char in chars}
    for script, words in _FONT_NAME_PARTS.items():
        if script in present:
            return words
    return _CHINESE_NAME_PARTS


def _script(char: str) -> str:
    category, word = unicodedata.category(char), _first_word(char)
    if category in ("Co", "Cn"):
        return "unassigned"
    if word in _EAST_ASIAN:
        return _EAST_ASIAN[word]
    return "emoji" if category in ("So", "Sk") and ord(char) >= 0x1F000 else word.capitalize()


def _first_word(char: str) -> str:
    """HANGUL, CJK, DEVANAGARI …: Unicode names begin with the script."""
    return unicodedata.name(char, "unnamed").split()[0].split("-")[0]


def _warning(script: str, chars: list[str]) -> str:
    names = [f" U+{ord(char):04X}" for char in chars] if script == "unassigned" else chars
    shown = "".join(names[:8]).strip() + ("…" if len(chars) > 8 else "")
    if script in _EAST_ASIAN.values():
        family, package = "Noto Sans CJK", "fonts-noto-cjk"
    elif script == "emoji":
        family, package = "Symbola, an outline font: matplotlib cannot draw colour fonts", "fonts-symbola"
    else:
        family, package = "Noto Sans", "fonts-noto-core"
    return (
        f"no font on this machine has the {script} characters {shown}, so they are drawn as {BOX}; "
        f"hint: install {family} (Debian and Ubuntu: apt install {package})"
    )

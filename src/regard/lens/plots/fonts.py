"""Which of the machine's fonts can draw a text, so that no picture shows boxes without a word about it.

matplotlib's own font (DejaVu Sans) has Latin, Greek, Cyrillic, Arabic and Hebrew; for the rest we look into what is
installed. Since 3.11 matplotlib shapes text: Arabic joins, Hebrew runs from the right, Indic marks find their place.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from matplotlib import font_manager
from matplotlib.font_manager import FontEntry
from matplotlib.ft2font import FaceFlags, FT2Font

OWN_FONT = "DejaVu Sans"  # comes with matplotlib
BOX = "□"
_UNFIT_FONTS = ("LastResort", "Last Resort", "Adobe Blank", "STIX", "cm", ".")  # blanks for all, or codes of their own
_REGION_WORDS = {"HANGUL": ("KR", "Korean", "Gothic"), "HIRAGANA": ("JP", "Gothic"), "KATAKANA": ("JP", "Gothic")}
_CHINESE_WORDS = ("SC", "CN", "YaHei", "PingFang")
_EAST_ASIAN = {"CJK": "Chinese", "HANGUL": "Korean", "HIRAGANA": "Japanese", "KATAKANA": "Japanese"}


@dataclass(frozen=True)
class Coverage:
    """The families to draw a text with, first choice first, and the characters that none of them has."""

    families: tuple[str, ...]
    missing: frozenset[str] = frozenset()

    def drawable(self, text: str) -> str:
        """What can be drawn: a box for what is missing; invisible characters that could scramble it are left out."""
        return "".join(BOX if char in self.missing else char for char in visible(text))

    @property
    def remarks(self) -> tuple[str, ...]:
        """A line a script that is missing: what will be seen, and what to install."""
        scripts: dict[str, set[str]] = {}
        for char in self.missing:
            scripts.setdefault(_script(char), set()).add(char)
        return tuple(_remark(script, sorted(chars)) for script, chars in sorted(scripts.items()))


def cover(texts: Iterable[str]) -> Coverage:
    """The fewest families that we can find for all of these texts, matplotlib's own first."""
    wanted = {char for text in texts for char in visible(text)}
    wanted -= _covered(_own_font(), wanted)
    if not wanted:
        return Coverage((OWN_FONT,))
    _notice_new_fonts()
    families, candidates, regional = [OWN_FONT], _candidates(), _regional_words(wanted)
    while wanted:
        covered = {name: _covered(entry, wanted) for name, entry in candidates.items()}
        best = min(covered, key=lambda name: (-len(covered[name]), *_strangeness(name, regional)), default=None)
        if best is None or not covered[best]:
            break
        families.append(best)
        wanted -= covered[best]
    return Coverage(tuple(families), frozenset(wanted))


def visible(text: str) -> str:
    """Without characters that have no picture of their own: direction marks, variation selectors, controls.

    The two joiners stay: they change how their neighbours are drawn.
    """
    return "".join(char for char in text if not _is_hidden(char))


def _is_hidden(char: str) -> bool:
    if char in "\u200c\u200d":
        return False
    is_selector = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return is_selector or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _own_font() -> FontEntry:
    """The upright face: the bold and slanted ones have fewer letters, and the list has no order."""
    return _candidates()[OWN_FONT]


def _notice_new_fonts() -> None:
    """matplotlib keeps a list of fonts from an earlier day; somebody may just have done what our remark said."""
    known = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known:
            try:
                font_manager.fontManager.addfont(path)
            except (OSError, RuntimeError):  # bitmaps only, or no font at all: of no use to us
                continue


def _candidates() -> dict[str, FontEntry]:
    """One upright face of ordinary weight for each family."""
    found: dict[str, FontEntry] = {}
    for entry in font_manager.fontManager.ttflist:
        is_plain = entry.style == "normal" and str(entry.weight) in ("300", "400", "500", "normal", "regular", "book")
        if is_plain and not entry.name.startswith(_UNFIT_FONTS):
            found.setdefault(entry.name, entry)
    return found


def _covered(entry: FontEntry, chars: set[str]) -> set[str]:
    face = _face(str(entry.fname), entry.index)
    return set() if face is None else {char for char in chars if _can_draw(face, char)}


def _can_draw(face: FT2Font, char: str) -> bool:
    """Colour fonts have a glyph for every emoji, but often no outline in it: matplotlib would draw nothing."""
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
    except (OSError, RuntimeError):  # removed since, or broken
        return None


def _strangeness(family: str, regional: tuple[str, ...]) -> tuple[bool, bool, bool, str]:
    """Among fonts that have as much: the one of the region, plain, of the large Noto family, the first by name."""
    is_special = any(word in family for word in ("Serif", "Mono", "Song", "Ming", "Display", "Kufi", "Looped"))
    of_region = any(word in family.split() or word in family for word in regional)
    return (not of_region, is_special, not family.startswith("Noto Sans"), family)


def _regional_words(chars: set[str]) -> tuple[str, ...]:
    """Chinese characters look different in Korea and Japan; the letters around them tell where we are."""
    present = {_first_word(char) for char in chars}
    for script, words in _REGION_WORDS.items():
        if script in present:
            return words
    return _CHINESE_WORDS


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


def _remark(script: str, chars: list[str]) -> str:
    written = [f" U+{ord(char):04X}" for char in chars] if script == "unassigned" else chars
    shown = "".join(written[:8]).strip() + ("…" if len(chars) > 8 else "")
    if script in _EAST_ASIAN.values():
        family, package = "Noto Sans CJK", "fonts-noto-cjk"
    elif script == "emoji":
        family, package = "Symbola: colours can not be drawn, outlines can", "fonts-symbola"
    else:
        family, package = "Noto Sans", "fonts-noto-core"
    return (
        f"no font on this machine has the {script} characters {shown}, so they are drawn as {BOX}; "
        f"hint: install {family} (Debian and Ubuntu: apt install {package})"
    )

"""Splits text into sentences; splits what is too long for a model at clauses, then at spaces, then anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Where a sentence may end: a full stop and the like, or the end of a line. The full stop of an abbreviation is not one.
_MARKS, _CLOSING = r"[.!?…؟۔]", r"""["'»«”’“)\]]"""
_WIDE_END = r"[。！？]+[」』”’）]*"
_MAY_END = re.compile(rf"{_MARKS}{_CLOSING}*\s|[。！？\n]")
_END = re.compile(
    rf"(?<!{_MARKS})(?P<mark>{_MARKS}+)(?P<closing>{_CLOSING}*(?:\s»(?=\s))?)(?P<gap>\s+)|{_WIDE_END}(?P<none>\s*)|\n\s*"
)
_LINE_END = re.compile(r"\n\s*")
_OPENING = re.compile(r"""["'„“‘«»‹(\[¿¡]{0,4}\s?""")
_WORD_BEFORE = re.compile(r"""["'„“‘«»‹(\[]*(\S*)\Z""")
_MAX_WORD = 20  # characters before a full stop that may be an abbreviation
_ALPHANUMERIC = re.compile(r"[^\W_]")
_ROMAN = re.compile(r"[IVXL]+")
_UNSPACED_STOPS = tuple("。！？，；：、")
_GAP_REPLACED = re.compile(r"[^ \t\n\u00a0\u3000]+")

# Abbreviations, without the full stop, in lower case. Those that often end a sentence, such as "etc.", are not listed.
NEVER_LAST = _words(
    "mr mrs ms messrs dr drs prof st rev hon gen sen rep gov lt col maj sgt capt cmdr adm mt vs cf viz approx dept "
    "univ hr hrn fr frl bzw bspw bzgl ca ggf inkl exkl evtl evt sog vgl dipl ing mag fa co mio mrd tsd zzgl abzgl "
    "einschl geb insb insbes allg max min mind versch mme mmes mlle mlles mgr env av apr ex éd"
)
_BEFORE_NUMBERS = _words(
    "no nos nr nrn num pp vol vols fig figs sec sect ch chap kap abb tab art par abs bd ziff eq eqs tel est "
    "jan feb mar apr jun jul aug sep sept oct okt nov dec dez"
)
_MAY_BE_LAST = frozenset({"a.m", "p.m"})
ORDINALS_WITH_STOP = _words("de da nb nn no fi cs sk sl hr sr bs hu et lv lt is tr gsw bar nds lb")

# What ends a part of a sentence, coarse to fine. White space after it, if any, is the gap to the next part.
_CLAUSES = (
    re.compile(r"(?<=[,;:،؛])(?P<gap>\s+)|(?<=[，；：、])(?P<none>)"),
    re.compile(r"(?P<gap>\s+)"),
)
_MAX_PIECES_PER_CHARACTER = 4  # a character outside the vocabulary is encoded as its UTF-8 bytes
LOOK_AHEAD = 8  # characters after a gap that decide whether it separates two sentences


class Part(NamedTuple):
    """A part of a longer text, and the white space between it and the next part."""

    text: str
    gap: str


def sentences(text: str, language: str | None = None) -> list[Part]:
    """The sentences of a text, without white space around them. With their gaps they add up to the text.

    White space around the text is dropped. Every LF ends a sentence. `language` decides whether "3." may be an ordinal.
    """
    text = text.strip()
    if _MAY_END.search(text) is None:
        return [Part(text, "")]
    return list(_iter_sentences(text, _END, language))


def split_lines(text: str) -> list[Part]:
    """The lines of a text that are not blank, as parts of it; white space around them belongs to the gaps."""
    return list(_iter_sentences(text.strip(), _LINE_END, None))


def join_gap(part: Part, translation: str) -> str:
    """What separates the translations of two parts: the white space of the source.

    Where the source has none, a space; after the full stop of a script that puts no space there, nothing.
    """
    if not part.gap.strip(" ") and translation.endswith(_UNSPACED_STOPS):
        return ""
    return _GAP_REPLACED.sub("", part.gap) or " "


def split_long(part: Part, limit: int, length: Callable[[str], int], level: int = 0) -> list[Part]:
    """Parts with `length(part.text) <= limit`: a sentence in as few groups of clauses or words as possible.

    With their gaps they add up to the sentence and its gap.
    """
    if length(part.text) <= limit:
        return [part]
    if level == len(_CLAUSES):
        size = max(1, limit // _MAX_PIECES_PER_CHARACTER)
        chunks = [part.text[start : start + size] for start in range(0, len(part.text), size)]
        return [*(Part(chunk, "") for chunk in chunks[:-1]), Part(chunks[-1], part.gap)]
    smaller = [
        fitted
        for subpart in _split(part.text, _CLAUSES[level])
        for fitted in split_long(subpart, limit, length, level + 1)
    ]
    return _merge([*smaller[:-1], Part(smaller[-1].text, part.gap)], limit, length)


def _merge(parts: list[Part], limit: int, length: Callable[[str], int]) -> list[Part]:
    """Joins neighbouring parts as long as they fit."""
    merged = [parts[0]]
    for part in parts[1:]:
        last = merged[-1]
        joined = last.text + last.gap + part.text
        if length(joined) <= limit:
            merged[-1] = Part(joined, part.gap)
        else:
            merged.append(part)
    return merged


def _split(text: str, pattern: re.Pattern[str]) -> Iterator[Part]:
    start = 0
    for match in pattern.finditer(text):
        gap = match.group("gap") or ""
        end = match.end() - len(gap)
        if end > start and match.end() < len(text):
            yield Part(text[start:end], gap)
            start = match.end()
    yield Part(text[start:], "")


def _iter_sentences(text: str, end: re.Pattern[str], language: str | None) -> Iterator[Part]:
    start = 0
    first = _first_alphanumeric(text, start)
    for match in end.finditer(text):
        if match.end() == len(text):
            break
        if "\n" not in match[0] and (first >= match.start() or not _is_end(text, start, first, match, language)):
            continue
        sentence = text[start : match.end()]
        stripped = sentence.rstrip()
        yield Part(stripped, sentence[len(stripped) :])
        start = match.end()
        first = _first_alphanumeric(text, start)
    yield Part(text[start:], "")


def _first_alphanumeric(text: str, start: int) -> int:
    match = _ALPHANUMERIC.search(text, start)
    return len(text) if match is None else match.start()


def _is_end(text: str, start: int, first: int, match: re.Match[str], language: str | None) -> bool:
    """Whether a sentence ends at a full stop and the like; `first` is its first letter or digit."""
    if match["mark"] is None:
        return True
    opening = _OPENING.match(text, match.end())
    after = text[match.end() if opening is None else opening.end() :][:1]
    word = _word_before(text, max(start, match.start() - _MAX_WORD), match.start())
    is_abbreviation = match["mark"] == "." and _is_abbreviation(
        word, after, first == match.start() - len(word), language
    )
    if after.islower():  # unless the text has no capitals: "hello. how are you?"
        return text[first].islower() and not is_abbreviation and not match["closing"]
    if match["closing"].strip(")] ") and after.isalpha() and not after.isupper():  # '"가." 라고 말했다': speech
        return False
    return not is_abbreviation


def _word_before(text: str, start: int, stop: int) -> str:
    match = _WORD_BEFORE.search(text[start:stop])
    return "" if match is None else match[1]


def _is_abbreviation(word: str, after: str, is_first: bool, language: str | None) -> bool:
    """Whether a full stop after this word belongs to it. `after` is the first letter or digit of the next word."""
    key = word.casefold()
    if word.isdigit() or _ROMAN.fullmatch(word):
        is_list_number = is_first and word.isdigit()
        is_ordinal = len(word) <= 2 or not word.isdigit()
        return is_list_number or after.isdigit() or (is_ordinal and language in ORDINALS_WITH_STOP)
    if len(word) == 1:
        return word.lower() != word.upper() and word != "I"
    if "." in word:
        return key not in _MAY_BE_LAST and all(len(part) <= 2 and part.isalpha() for part in re.split(r"[.-]+", word))
    return key in NEVER_LAST or (after.isdigit() and (key in _BEFORE_NUMBERS or key.endswith("str")))

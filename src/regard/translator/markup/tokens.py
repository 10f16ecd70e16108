"""Splits HTML into tags, text and the rest; the joined tokens are the source, byte for byte.

The parser of the standard library changes attributes, fails on some malformed input, and takes quadratic time on other
input. Here every character is examined a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

# A boundary separates two sentences; a point (an image, a comment) is inside one.
Kind = Literal["text", "start", "end", "point", "boundary"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VOID = _names("area base br col embed hr img input link meta param source track wbr")
_POINTS = _names("img input wbr")
_INLINE = _names(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q s small span strike strong sub sup time "
    "tt u var"
)
_RAW_TEXT = _names("iframe noembed noframes script style textarea xmp")  # their content is not markup
_UNTRANSLATED_POINTS = _names("code kbd samp script style")
_UNTRANSLATED = _RAW_TEXT | _UNTRANSLATED_POINTS | {"math", "pre", "svg"}

_OPENING = re.compile(r"<(?:(?P<end>/)?(?P<name>[A-Za-z][^\s/>]*)|(?P<comment>!--)|[!?/])")
_ATTRIBUTE = re.compile(
    r"[\s/]*(?P<name>[^\s/>][^\s/>=]*)"
    r"""(?:\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s>"'][^\s>]*)))?"""
)
_CLOSING = re.compile(r"[\s/]*>")


@dataclass(frozen=True, slots=True)
class MarkupToken:
    """A part of the source, unchanged."""

    kind: Kind
    raw: str
    name: str = ""
    untranslated: bool = False  # for a start tag: its content must not change


def tokenize(html: str) -> list[MarkupToken]:
    """All tokens of the source; an element that must not be translated is one point or one boundary."""
    return list(_merge_untranslated(_scan(html)))


def _scan(html: str) -> Iterator[MarkupToken]:
    position = 0
    while position < len(html):
        opening = _OPENING.search(html, position)
        start = opening.start() if opening else len(html)
        if start > position:
            yield MarkupToken("text", html[position:start])
        if opening is None:
            return
        token = _parse_tag(html, opening) if opening["name"] else _parse_comment(html, opening)
        yield token
        position = start + len(token.raw)
        if token.kind == "start" and token.name in _RAW_TEXT:
            end = re.compile(rf"</{token.name}(?=[\s/>])", re.IGNORECASE).search(html, position)
            content = html[position : end.start() if end else len(html)]
            if content:
                yield MarkupToken("boundary", content)
            position += len(content)


def _parse_comment(html: str, opening: re.Match[str]) -> MarkupToken:
    """A comment, a doctype, or malformed markup; without an end, everything up to the end of the source."""
    mark = "-->" if opening["comment"] else ">"
    end = html.find(mark, opening.end())
    return MarkupToken("point", html[opening.start() : end + len(mark) if end >= 0 else len(html)])


def _parse_tag(html: str, opening: re.Match[str]) -> MarkupToken:
    """A tag with its attributes; a tag without an end is a boundary that includes the rest of the source."""
    name = opening["name"].lower()
    attributes: dict[str, str] = {}
    position = opening.end()
    while (closing := _CLOSING.match(html, position)) is None:
        attribute = _ATTRIBUTE.match(html, position)
        if attribute is None:
            return MarkupToken("boundary", html[opening.start() :])
        value = attribute["double"] or attribute["single"] or attribute["bare"] or ""
        attributes.setdefault(attribute["name"].lower(), value)
        position = attribute.end()
    raw = html[opening.start() : closing.end()]
    if opening["end"]:
        return MarkupToken("end", raw, name)
    if name in _VOID or "/" in closing[0]:
        return MarkupToken("point" if name in _POINTS | _INLINE else "boundary", raw, name)
    return MarkupToken("start", raw, name, name in _UNTRANSLATED or _is_marked_untranslated(attributes))


def _is_marked_untranslated(attributes: dict[str, str]) -> bool:
    return attributes.get("translate", "").lower() == "no" or "notranslate" in attributes.get("class", "").split()


def _merge_untranslated(scanned: Iterator[MarkupToken]) -> Iterator[MarkupToken]:
    """Join each element that must not be translated, from its start tag to its end tag, into one token."""
    merged: list[str] = []
    name, depth = "", 0
    kind: Kind = "boundary"
    for token in scanned:
        if merged:
            merged.append(token.raw)
            if token.name == name:
                depth += {"start": 1, "end": -1}.get(token.kind, 0)
            if depth == 0:
                yield MarkupToken(kind, "".join(merged))
                merged = []
        elif token.untranslated:
            merged, name, depth = [token.raw], token.name, 1
            kind = "point" if name in _UNTRANSLATED_POINTS | _INLINE else "boundary"
        elif token.kind in ("start", "end") and token.name not in _INLINE:
            yield MarkupToken("boundary", token.raw, token.name)
        else:
            yield token
    if merged:
        yield MarkupToken("boundary", "".join(merged))

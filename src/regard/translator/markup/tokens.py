"""Cutting HTML into tags, text and the rest, so that the parts joined are the whole again, byte for byte.

The standard library's parser gives attributes back changed, fails on some malformed input, and takes a time that grows
with the square of the length on other. Here every character is looked at a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

# A boundary parts two sentences; a point stands somewhere within one.
Kind = Literal["text", "start", "end", "point", "boundary"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VOID = _names("area base br col embed hr img input link meta param source track wbr")
_POINTS = _names("img input wbr")
_INLINE = _names(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q s small span strike strong sub sup time "
    "tt u var"
)
_NOT_MARKUP = _names("iframe noembed noframes script style textarea xmp")  # what is inside these
_UNTOUCHED_POINTS = _names("code kbd samp script style")
_UNTOUCHED = _NOT_MARKUP | _UNTOUCHED_POINTS | {"math", "pre", "svg"}

_OPENING = re.compile(r"<(?:(?P<end>/)?(?P<name>[A-Za-z][^\s/>]*)|(?P<comment>!--)|[!?/])")
_ATTRIBUTE = re.compile(
    r"[\s/]*(?P<name>[^\s/>][^\s/>=]*)"
    r"""(?:\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s>"'][^\s>]*)))?"""
)
_CLOSING = re.compile(r"[\s/]*>")


@dataclass(frozen=True, slots=True)
class Token:
    """A part of the source, as it stands there."""

    kind: Kind
    raw: str
    name: str = ""
    untouched: bool = False  # a start tag: nothing up to its end tag may change


def tokens(html: str) -> list[Token]:
    """The whole source; what must not be touched is one point or one boundary."""
    return list(_without_islands(_scan(html)))


def _scan(html: str) -> Iterator[Token]:
    at = 0
    while at < len(html):
        found = _OPENING.search(html, at)
        start = found.start() if found else len(html)
        if start > at:
            yield Token("text", html[at:start])
        if found is None:
            return
        token = _tag(html, found) if found["name"] else _remark(html, found)
        yield token
        at = start + len(token.raw)
        if token.kind == "start" and token.name in _NOT_MARKUP:
            end = re.compile(rf"</{token.name}(?=[\s/>])", re.IGNORECASE).search(html, at)
            inside = html[at : end.start() if end else len(html)]
            if inside:
                yield Token("boundary", inside)
            at += len(inside)


def _remark(html: str, found: re.Match[str]) -> Token:
    """A comment, a doctype, or what is malformed and so counts as one; without an end it goes to the end."""
    mark = "-->" if found["comment"] else ">"
    end = html.find(mark, found.end())
    return Token("point", html[found.start() : end + len(mark) if end >= 0 else len(html)])


def _tag(html: str, found: re.Match[str]) -> Token:
    """A tag with its attributes; one that never ends is kept, with all that follows, as it is."""
    name = found["name"].lower()
    attributes: dict[str, str] = {}
    at = found.end()
    while (closing := _CLOSING.match(html, at)) is None:
        attribute = _ATTRIBUTE.match(html, at)
        if attribute is None:
            return Token("boundary", html[found.start() :])
        value = attribute["double"] or attribute["single"] or attribute["bare"] or ""
        attributes.setdefault(attribute["name"].lower(), value)
        at = attribute.end()
    raw = html[found.start() : closing.end()]
    if found["end"]:
        return Token("end", raw, name)
    if name in _VOID or "/" in closing[0]:
        return Token("point" if name in _POINTS | _INLINE else "boundary", raw, name)
    return Token("start", raw, name, name in _UNTOUCHED or _says_no(attributes))


def _says_no(attributes: dict[str, str]) -> bool:
    return attributes.get("translate", "").lower() == "no" or "notranslate" in attributes.get("class", "").split()


def _without_islands(scanned: Iterator[Token]) -> Iterator[Token]:
    """Join what must not be touched, from its start tag to the end tag that belongs to it."""
    island: list[str] = []
    name, depth = "", 0
    kind: Kind = "boundary"
    for token in scanned:
        if island:
            island.append(token.raw)
            if token.name == name:
                depth += {"start": 1, "end": -1}.get(token.kind, 0)
            if depth == 0:
                yield Token(kind, "".join(island))
                island = []
        elif token.untouched:
            island, name, depth = [token.raw], token.name, 1
            kind = "point" if name in _UNTOUCHED_POINTS | _INLINE else "boundary"
        elif token.kind in ("start", "end") and token.name not in _INLINE:
            yield Token("boundary", token.raw, token.name)
        else:
            yield token
    if island:
        yield Token("boundary", "".join(island))

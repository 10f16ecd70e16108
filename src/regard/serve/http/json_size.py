"""Refuses JSON that is large by its structure before it is parsed: `[[],[],…]` in 1 MB is 350,000 lists.

Parsing holds Python's lock, in a thread as well as in the event loop, so that it is no use to parse elsewhere.
"""

from __future__ import annotations

import re

from regard.serve.http.problem import Problem

MAX_NODES = 20_000  # of each kind in one request; a look with many heads switched off has the most
MAX_NUMBERS = 200_000  # where lists of numbers are allowed: 128 images of 28 × 28 have 100,352
_MAX_QUOTES = 6 * MAX_NODES  # two for each name, each value and each element
_STRING = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z|\\\Z)', re.DOTALL
)  # never tries twice, also if a quote is missing


def check_structure(body: bytes, *, has_numbers: bool = False) -> None:
    """Raises a Problem if the JSON has too many lists, objects, fields or elements."""
    max_elements = MAX_NUMBERS if has_numbers else MAX_NODES
    if _fits(body, max_elements):  # true of almost all requests, whose texts count here too
        return
    # quotes inside strings follow a backslash, those that begin strings never do
    n_quotes = body.count(b'"') - body.count(b'\\"')
    if n_quotes > _MAX_QUOTES or not _fits(_STRING.sub(b"", body), max_elements):
        message = f"the request has more than {MAX_NODES:,} lists, objects or fields, or {max_elements:,} elements"
        raise Problem(413, "too_many", message)


def _fits(body: bytes, max_elements: int) -> bool:
    return max(map(body.count, (b"[", b"{", b":"))) <= MAX_NODES and body.count(b",") < max_elements

"""Refuses JSON that is large by its structure before it is parsed: `[[],[],…]` in 1 MB is 350,000 lists."""

from __future__ import annotations

import re

from regard.serve.http.problem import Problem

MAX_NODES = 20_000  # of each kind in one request; a look with many heads switched off has the most
_STRING = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)', re.DOTALL)  # never tries twice, also if a quote is missing


def check_structure(body: bytes, *, has_numbers: bool = False) -> None:
    """Raises a Problem if the JSON has too many lists, objects or fields, or elements, unless these may be numbers."""
    signs = (b"[", b"{", b":") if has_numbers else (b"[", b"{", b":", b",")
    if max(map(body.count, signs)) <= MAX_NODES:  # true of almost all requests, whose texts count here too
        return
    structure = _STRING.sub(b"", body)
    if max(map(structure.count, signs)) > MAX_NODES:
        raise Problem(413, "too_many", f"the request has more than {MAX_NODES:,} lists, objects, fields or elements")

"""Refuses JSON that is large by its structure before it is parsed: `[[],[],…]` in 1 MB is 350,000 lists."""

from __future__ import annotations

import re

from regard.serve.http.problem import Problem

MAX_NODES = 20_000  # lists, objects and fields in one request; a look with many heads switched off has the most
_STRING = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)', re.DOTALL)  # never tries twice, also if a quote is missing


def check_structure(body: bytes) -> None:
    """Raises a Problem if the JSON has too many lists, objects or fields; numbers and texts cost little."""
    if sum(map(body.count, (b"[", b"{", b":"))) <= MAX_NODES:  # true of almost all requests, whose texts count here too
        return
    structure = _STRING.sub(b"", body)
    if sum(map(structure.count, (b"[", b"{", b":"))) > MAX_NODES:
        raise Problem(413, "too_many", f"the request has more than {MAX_NODES:,} lists, objects and fields")

"""Reading what a client of LibreTranslate sends: JSON or a form, with its ways of refusing."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from regard.serve.http.problem import Problem
from regard.serve.settings import Settings
from regard.text.languages import is_language_code

_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character: can not be sent back


@dataclass(frozen=True)
class Asked:
    """What `/translate` is asked for."""

    texts: tuple[str, ...]
    many: bool  # a list was sent, and a list goes back
    source: str | None  # None: find out
    target: str
    html: bool
    alternatives: int

    @classmethod
    def of(cls, fields: dict[str, Any], settings: Settings) -> Asked:
        """From the fields; a Problem says what is missing or wrong."""
        texts, many = texts_of(fields, settings)
        source, target = _language(fields, "source"), _language(fields, "target")
        form = fields.get("format") or "text"
        if form not in ("text", "html"):
            raise _invalid(f"{_short(form)} format is not supported")
        return cls(
            tuple(texts),
            many,
            None if source == "auto" else source,
            target,
            form == "html",
            _alternatives(fields, settings),
        )


async def read_fields(request: Request) -> dict[str, Any]:
    """What was sent, as JSON or as a form; what stands in the address counts as well."""
    fields: dict[str, Any] = dict(request.query_params)
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            sent = json.loads(await request.body() or "{}")  # some say it is JSON where there is nothing
        except (ValueError, RecursionError) as error:
            raise _invalid("Invalid JSON format") from error
        if not isinstance(sent, dict):
            raise _invalid("Invalid JSON format")
        return fields | sent
    try:
        async with request.form() as form:
            for name in form:
                values = form.getlist(name)
                fields[name] = values[0] if len(values) == 1 or name != "q" else values
    except (HTTPException, MultiPartException, ValueError) as error:
        raise _invalid("Invalid form") from error
    return fields


def texts_of(fields: dict[str, Any], settings: Settings) -> tuple[list[str], bool]:
    """The text or texts `q`, and whether it was a list."""
    q = fields.get("q")
    if q is None or q in ("", []):
        raise _invalid("Invalid request: missing q parameter")
    texts = q if isinstance(q, list) else [q]
    if not all(isinstance(text, str) for text in texts):
        raise _invalid("Invalid request: q must be a text or a list of texts")
    if len(texts) > settings.max_texts:
        raise _too_much(len(texts), settings.max_texts)
    longest = max(map(len, texts))
    if longest > settings.max_text:
        raise _too_much(longest, settings.max_text)
    return [_SURROGATE.sub("\ufffd", text.replace("\r\n", "\n")) for text in texts], isinstance(q, list)


def key_of(fields: dict[str, Any]) -> str | None:
    """The key, by the name that the API gives it or the one that its npm client sends."""
    key = fields.get("api_key") or fields.get("apiKey")
    return key if isinstance(key, str) else None


def _language(fields: dict[str, Any], name: str) -> str:
    code = fields.get(name)
    if not code:
        raise _invalid(f"Invalid request: missing {name} parameter")
    if code != "auto" and not is_language_code(code):
        raise _invalid(f"{_short(code)} is not supported")
    if name == "target" and code == "auto":
        raise _invalid("auto is not supported")
    assert isinstance(code, str)
    return code


def _alternatives(fields: dict[str, Any], settings: Settings) -> int:
    given = fields.get("alternatives") or 0
    try:
        number = max(0, int(given))
    except (TypeError, ValueError, OverflowError) as error:
        raise _invalid("Invalid request: alternatives parameter is not a number") from error
    if number >= settings.max_beam:
        raise _invalid(f"Invalid request: alternatives parameter must be <= {settings.max_beam - 1}")
    return number


def _short(value: Any) -> str:
    """A client's own word in an answer: bounded, and nothing that could not be sent."""
    return _SURROGATE.sub("\ufffd", value)[:20] if isinstance(value, str) else "this"


def _too_much(size: int, limit: int) -> Problem:
    return _invalid(f"Invalid request: request ({size}) exceeds text limit ({limit})")


def _invalid(message: str) -> Problem:
    return Problem(400, "invalid", message)

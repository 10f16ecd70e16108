"""Parses LibreTranslate requests, JSON or forms; error messages are LibreTranslate's own."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from regard.serve.http.json_size import check_structure
from regard.serve.http.problem import Problem
from regard.serve.settings import Settings
from regard.text.languages import is_language_code

_MAX_FIELDS = 1_000  # of a form
_SURROGATE = re.compile("[\ud800-\udfff]")  # cannot be encoded in a response


@dataclass(frozen=True)
class TranslateFields:
    """The fields of a request to `/translate`."""

    texts: tuple[str, ...]
    is_list: bool  # a list was sent, so a list is returned
    source: str | None  # None: detect it
    target: str
    html: bool
    alternatives: int
    split: bool  # an extension: false translates line by line

    @classmethod
    def parse(cls, fields: dict[str, Any], settings: Settings) -> TranslateFields:
        """Raises a Problem if a field is missing or invalid."""
        texts, is_list = parse_texts(fields, settings)
        source, target = _language(fields, "source"), _language(fields, "target")
        text_format = fields.get("format") or "text"
        if text_format not in ("text", "html"):
            raise _invalid(f"{_short(text_format)} format is not supported")
        return cls(
            tuple(texts),
            is_list,
            None if source == "auto" else source,
            target,
            text_format == "html",
            _alternatives(fields, settings),
            str(fields.get("split", True)).lower() not in ("false", "0"),
        )


async def read_fields(request: Request) -> dict[str, Any]:
    """The fields of the query string and of the body, which is JSON or a form."""
    fields: dict[str, Any] = dict(request.query_params)
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type == "application/json" or content_type.endswith("+json"):
        content = await request.body()
        check_structure(content)
        try:
            body = json.loads(content or "{}")  # some clients send this content type without a body
        except (ValueError, RecursionError) as error:
            raise _invalid("Invalid JSON format") from error
        if not isinstance(body, dict):
            raise _invalid("Invalid JSON format")
        return fields | body
    if content_type == "application/x-www-form-urlencoded":
        return fields | _urlencoded(await request.body())
    try:
        async with request.form() as form:
            for name in form:
                values = form.getlist(name)
                fields[name] = values[0] if len(values) == 1 or name != "q" else values
    except (HTTPException, MultiPartException, ValueError) as error:
        raise _invalid("Invalid form") from error
    return fields


def _urlencoded(body: bytes) -> dict[str, Any]:
    """The fields of a form. It is UTF-8, percent-encoded or not: `curl -d q=müde` sends the bytes as they are."""
    try:
        form = parse_qs(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise _invalid("Invalid form: it is not UTF-8, or has too many fields") from error
    return {name: values[0] if len(values) == 1 or name != "q" else values for name, values in form.items()}


def parse_texts(fields: dict[str, Any], settings: Settings) -> tuple[list[str], bool]:
    """The texts of `q`, and whether it was a list."""
    q = fields.get("q")
    if q is None or q in ("", []):
        raise _invalid("Invalid request: missing q parameter")
    texts = q if isinstance(q, list) else [q]
    if not all(isinstance(text, str) for text in texts):
        raise _invalid("Invalid request: q must be a text or a list of texts")
    if len(texts) > settings.max_texts:
        raise _too_long(len(texts), settings.max_texts)
    longest = max(map(len, texts))
    if longest > settings.max_text:
        raise _too_long(longest, settings.max_text)
    return [_SURROGATE.sub("\ufffd", text.replace("\r\n", "\n")) for text in texts], isinstance(q, list)


def api_key(fields: dict[str, Any]) -> str | None:
    """The API key: `api_key` in LibreTranslate's API, `apiKey` in its npm client."""
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
    value = fields.get("alternatives") or 0
    try:
        number = max(0, int(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise _invalid("Invalid request: alternatives parameter is not a number") from error
    if number >= settings.max_beam:
        raise _invalid(f"Invalid request: alternatives parameter must be <= {settings.max_beam - 1}")
    return number


def _short(value: Any) -> str:
    """A client's value for an error message: short, and safe to encode."""
    return _SURROGATE.sub("\ufffd", value)[:20] if isinstance(value, str) else "this"


def _too_long(size: int, limit: int) -> Problem:
    return _invalid(f"Invalid request: request ({size}) exceeds text limit ({limit})")


def _invalid(message: str) -> Problem:
    return Problem(400, "invalid", message)

"""JSON responses and errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from regard.serve.http.problem import Problem

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_PART_CHARACTERS = 262_144

# on these paths, errors have LibreTranslate's format: {"error": "message"}
LIBRETRANSLATE_PATHS = frozenset(
    {"/translate", "/translate_file", "/detect", "/languages", "/frontend/settings", "/suggest"}
)


def to_json(value: Any) -> bytes:
    """Standard JSON: NaN and infinities become null, lone surrogates are replaced."""
    return _to_text(value).encode("utf-8", "replace")


def json_parts(value: Any) -> Iterator[bytes]:
    """The bytes of `to_json` in parts: encoding a large value in one call would block all other threads."""
    texts: list[str] = []
    n_characters = 0
    for text in _fragments(value):
        texts.append(text)
        n_characters += len(text)
        if n_characters >= _PART_CHARACTERS:
            yield "".join(texts).encode("utf-8", "replace")
            texts, n_characters = [], 0
    yield "".join(texts).encode("utf-8", "replace")


def _to_text(value: Any) -> str:
    try:
        return _ENCODER.encode(value)
    except ValueError:
        return _ENCODER.encode(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _fragments(value: Any) -> Iterator[str]:
    """Descends to lists of plain values, each of which is encoded in one call."""
    if isinstance(value, dict):
        separator = "{"
        for key, item in value.items():
            yield f"{separator}{_to_text(key)}:"
            yield from _fragments(item)
            separator = ","
        yield "}" if value else "{}"
    elif isinstance(value, list | tuple) and value and isinstance(value[0], dict | list | tuple):
        separator = "["
        for item in value:
            yield separator
            yield from _fragments(item)
            separator = ","
        yield "]"
    else:
        yield _to_text(value)


class JsonResponse(JSONResponse):
    """A JSON response; bytes are taken to be JSON already."""

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else to_json(content)


class JsonPartsResponse(Response):
    """Sends JSON in parts, as fast as the client reads; calls `on_end` when all is sent or sending has failed."""

    media_type = "application/json"

    def __init__(self, parts: list[bytes], on_end: Callable[[], None]) -> None:
        self._parts, self._on_end = parts, on_end
        self.status_code, self.background = 200, None
        self.init_headers({"Content-Length": str(sum(map(len, parts)))})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            for part in self._parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._on_end()


def problem_response(problem: Problem, scope: Scope) -> JsonResponse:
    """The error response, in the format that clients of this path expect."""
    headers = {} if problem.retry_after is None else {"Retry-After": str(problem.retry_after)}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if scope["path"] in LIBRETRANSLATE_PATHS:
        return JsonResponse({"error": problem.message}, problem.status, headers)
    request_id = scope.get("state", {}).get("request_id", "")
    body = {"code": problem.code, "message": problem.message, "request_id": request_id}
    return JsonResponse({"error": body}, problem.status, headers)

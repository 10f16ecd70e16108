"""What goes over the wire: translations, problems and any other value as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from regard.serve.http.problem import Problem
from regard.serve.models import ServedModel
from regard.text import normalise
from regard.text.vocabulary import SPACE
from regard.translator import Token, Translation

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

# LibreTranslate's clients want {"error": "words"}, whoever refuses them
LIBRETRANSLATE_PATHS = frozenset(
    {"/translate", "/translate_file", "/detect", "/languages", "/frontend/settings", "/suggest"}
)


def to_json(value: Any) -> bytes:
    """JSON as browsers read it: what is no number is null, and nothing can not be encoded."""
    return to_text(value).encode("utf-8", "replace")


def to_text(value: Any) -> str:
    try:
        return _ENCODER.encode(value)
    except ValueError:
        return _ENCODER.encode(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


class Json(Response):
    """A response of JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else to_json(content)


class InParts(Response):
    """JSON that goes part after part, as fast as the client takes it; `sent` is called when it has gone, or not."""

    media_type = "application/json"

    def __init__(self, parts: list[bytes], sent: Callable[[], None]) -> None:
        self._parts, self._sent = parts, sent
        self.status_code, self.background = 200, None
        self.init_headers({"Content-Length": str(sum(map(len, parts)))})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            for part in self._parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._sent()


def problem_response(problem: Problem, scope: Scope) -> Json:
    """The refusal, in the form that the path's clients expect."""
    headers = {} if problem.retry_after is None else {"Retry-After": str(problem.retry_after)}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if scope["path"] in LIBRETRANSLATE_PATHS:
        return Json({"error": problem.message}, problem.status, headers)
    request_id = scope.get("state", {}).get("request_id", "")
    body = {"code": problem.code, "message": problem.message, "request_id": request_id}
    return Json({"error": body}, problem.status, headers)


def translation_record(text: str, translation: Translation, details: bool) -> dict[str, Any]:
    """One translation as clients get it."""
    record: dict[str, Any] = {
        "text": translation.text,
        "score": translation.score,
        "alternatives": [{"text": one.text, "score": one.score} for one in translation.alternatives],
        "warnings": translation.warnings,
        "n_parts": translation.n_parts,
    }
    if details:
        record["words"] = _words(translation)
        record["source_words"] = normalise(text).split()
        record["alignment"] = translation.alignment
        record["tokens"] = [{"text": token.piece, "probability": token.probability} for token in translation.tokens]
    return record


def model_record(model: ServedModel, ready: bool) -> dict[str, Any]:
    """What GET /v1/models says of one."""
    return {
        "name": model.name,
        "source": model.source,
        "targets": model.targets,
        **model.facts,
        "training": model.run is not None,
        "ready": ready and model.ready,
    }


def _words(translation: Translation) -> list[dict[str, Any]]:
    """The words between the spaces, each as probable as all its sub-words together."""
    words = translation.text.split()
    groups: list[list[Token]] = []
    for token in translation.tokens:
        if token.piece.startswith(SPACE) or not groups:
            groups.append([])
        groups[-1].append(token)
    groups = [group for group in groups if any(token.piece != SPACE for token in group)]
    if len(groups) != len(words):
        return [{"text": word, "probability": None} for word in words]
    return [{"text": word, "probability": _product(group)} for word, group in zip(words, groups, strict=True)]


def _product(tokens: list[Token]) -> float:
    value = 1.0
    for token in tokens:
        value *= token.probability
    return value

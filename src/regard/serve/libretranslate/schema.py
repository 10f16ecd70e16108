"""LibreTranslate's requests and answers, as /docs shows them."""

from __future__ import annotations

from typing import Any

_Json = dict[str, Any]


def _object(properties: _Json, *required: str) -> _Json:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list_of(items: _Json) -> _Json:
    return {"type": "array", "items": items}


def _one_or_many(one: _Json) -> _Json:
    return {"oneOf": [one, _list_of(one)]}


def _request(body: _Json) -> _Json:
    kinds = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
    return {"requestBody": {"required": True, "content": {kind: {"schema": body} for kind in kinds}}}


def _answer(description: str, body: _Json) -> _Json:
    return {"description": description, "content": {"application/json": {"schema": body}}}


_TEXT: _Json = {"type": "string"}
_KEY: _Json = {"type": "string", "description": "API key, where one is needed"}
_LANGUAGE: _Json = {"type": "string", "example": "en"}
_ERROR = _object({"error": _TEXT}, "error")
_FOUND = _object({"confidence": {"type": "number", "minimum": 0, "maximum": 100}, "language": _LANGUAGE}, "language")
_REFUSALS: dict[int | str, _Json] = {
    status: _answer(description, _ERROR)
    for status, description in {
        400: "Something is missing or not supported",
        401: "A key is needed",
        403: "The key is not valid",
        408: "The request came too slowly",
        413: "The request is too large",
        429: "Too much is waiting already",
        503: "The service is stopping, or has failed",
        504: "Not done in time",
    }.items()
}

TRANSLATE = _request(
    _object(
        {
            "q": _one_or_many(_TEXT | {"example": "Hello!"}),
            "source": {"type": "string", "example": "en", "description": "a language, or auto"},
            "target": {"type": "string", "example": "de"},
            "format": {"type": "string", "enum": ["text", "html"], "default": "text"},
            "alternatives": {"type": "integer", "minimum": 0, "default": 0},
            "api_key": _KEY,
        },
        "q",
        "source",
        "target",
    )
)
TRANSLATED: dict[int | str, _Json] = _REFUSALS | {
    200: _answer(
        "A text for a text, a list for a list",
        _object(
            {
                "translatedText": _one_or_many(_TEXT),
                "detectedLanguage": _one_or_many(_FOUND),
                "alternatives": {"type": "array"},
            },
            "translatedText",
        ),
    )
}
DETECT = _request(_object({"q": _TEXT | {"example": "Hello!"}, "api_key": _KEY}, "q"))
DETECTED: dict[int | str, _Json] = _REFUSALS | {200: _answer("Best first", _list_of(_FOUND))}
LANGUAGES: dict[int | str, _Json] = {
    200: _answer(
        "What can be translated into what",
        _list_of(
            _object({"code": _LANGUAGE, "name": _TEXT, "targets": _list_of(_LANGUAGE)}, "code", "name", "targets")
        ),
    )
}
_NAMED = _object({"code": _LANGUAGE, "name": _TEXT}, "code", "name")
SETTINGS: dict[int | str, _Json] = {
    200: _answer(
        "Settings",
        _object(
            {
                "apiKeys": {"type": "boolean"},
                "charLimit": {"type": "integer"},
                "filesTranslation": {"type": "boolean"},
                "frontendTimeout": {"type": "integer"},
                "keyRequired": {"type": "boolean"},
                "language": _object({"source": _NAMED, "target": _NAMED}, "source", "target"),
                "suggestions": {"type": "boolean"},
                "supportedFilesFormat": _list_of(_TEXT),
            },
            "charLimit",
            "language",
        ),
    )
}

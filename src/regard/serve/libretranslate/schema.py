"""The OpenAPI description of LibreTranslate's API."""

from __future__ import annotations

from typing import Any

_Json = dict[str, Any]


def _object(properties: _Json, *required: str) -> _Json:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list_of(items: _Json) -> _Json:
    return {"type": "array", "items": items}


def _one_or_many(schema: _Json) -> _Json:
    return {"oneOf": [schema, _list_of(schema)]}


def _request(body: _Json) -> _Json:
    types = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
    return {"requestBody": {"required": True, "content": {content_type: {"schema": body} for content_type in types}}}


def _response(description: str, body: _Json) -> _Json:
    return {"description": description, "content": {"application/json": {"schema": body}}}


_TEXT: _Json = {"type": "string"}
_KEY: _Json = {"type": "string", "description": "API key, if the service requires one"}
_LANGUAGE: _Json = {"type": "string", "example": "en"}
_ERROR = _object({"error": _TEXT}, "error")
_DETECTION = _object(
    {"confidence": {"type": "number", "minimum": 0, "maximum": 100}, "language": _LANGUAGE}, "language"
)
_ERRORS: dict[int | str, _Json] = {
    status: _response(description, _ERROR)
    for status, description in {
        400: "A parameter is missing or not supported",
        401: "An API key is required",
        403: "The API key is invalid",
        408: "The request was sent too slowly",
        413: "The request is too large",
        429: "The queue is full; see Retry-After",
        503: "The service is stopping, the engine has failed, or the model is still training",
        504: "The deadline was exceeded",
    }.items()
}

TRANSLATE = _request(
    _object(
        {
            "q": _one_or_many(_TEXT | {"example": "Hello!"}),
            "source": {"type": "string", "example": "en", "description": "A language code, or auto to detect it"},
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
TRANSLATE_RESPONSES: dict[int | str, _Json] = _ERRORS | {
    200: _response(
        "The translation: a text if q is a text, a list if q is a list",
        _object(
            {
                "translatedText": _one_or_many(_TEXT),
                "detectedLanguage": _one_or_many(_DETECTION),
                "alternatives": {"type": "array"},
            },
            "translatedText",
        ),
    )
}
DETECT = _request(_object({"q": _TEXT | {"example": "Hello!"}, "api_key": _KEY}, "q"))
DETECT_RESPONSES: dict[int | str, _Json] = _ERRORS | {
    200: _response("The likely languages, best first", _list_of(_DETECTION))
}
LANGUAGES_RESPONSES: dict[int | str, _Json] = {
    200: _response(
        "The languages, and which targets each can be translated into",
        _list_of(
            _object({"code": _LANGUAGE, "name": _TEXT, "targets": _list_of(_LANGUAGE)}, "code", "name", "targets")
        ),
    )
}
_NAMED_LANGUAGE = _object({"code": _LANGUAGE, "name": _TEXT}, "code", "name")
SETTINGS_RESPONSES: dict[int | str, _Json] = {
    200: _response(
        "Limits, languages and features of this service",
        _object(
            {
                "apiKeys": {"type": "boolean"},
                "charLimit": {"type": "integer"},
                "filesTranslation": {"type": "boolean"},
                "frontendTimeout": {"type": "integer"},
                "keyRequired": {"type": "boolean"},
                "language": _object({"source": _NAMED_LANGUAGE, "target": _NAMED_LANGUAGE}, "source", "target"),
                "suggestions": {"type": "boolean"},
                "supportedFilesFormat": _list_of(_TEXT),
            },
            "charLimit",
            "language",
        ),
    )
}

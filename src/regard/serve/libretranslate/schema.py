"""Requests and responses of LibreTranslate's API, as OpenAPI describes them; `fields` reads the requests."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

_Code = Annotated[str, Field(examples=["en"])]
_Key = Annotated[str, Field(description="API key, if the service requires one")]


class TranslateBody(BaseModel):
    q: str | list[str] = Field(examples=["Hello!"])
    source: str = Field(examples=["en"], description="A language code, or auto to detect it")
    target: str = Field(examples=["de"])
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(default=0, ge=0)
    split: bool = Field(default=True, description="false: line by line instead of sentence by sentence")
    api_key: _Key = ""


class DetectBody(BaseModel):
    q: str = Field(examples=["Hello!"])
    api_key: _Key = ""


class Detection(BaseModel):
    confidence: float = Field(ge=0, le=100)
    language: _Code


class TranslateResponse(BaseModel):
    translatedText: str | list[str]
    detectedLanguage: Detection | list[Detection] | None = None
    alternatives: list[str] | list[list[str]] = []
    warnings: list[str] | list[list[str]] = []


class NamedLanguage(BaseModel):
    code: _Code
    name: str


class Language(NamedLanguage):
    targets: list[_Code]


class LanguagePair(BaseModel):
    source: NamedLanguage
    target: NamedLanguage


class FrontendSettings(BaseModel):
    apiKeys: bool
    charLimit: int
    filesTranslation: bool
    frontendTimeout: int
    keyRequired: bool
    language: LanguagePair
    suggestions: bool
    supportedFilesFormat: list[str]


class LibreTranslateError(BaseModel):
    error: str


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": LibreTranslateError, "description": description}
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


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI description of a route that takes JSON or a form."""
    types = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {content_type: {"schema": schema} for content_type in types}}}

"""LibreTranslate's API, as other people's clients speak it: /translate, /languages, /detect, /frontend/settings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Any

from fastapi import APIRouter, Request, Response

from regard.serve.http.problem import Problem, not_ready, too_late
from regard.serve.http.responses import Json
from regard.serve.libretranslate import schema
from regard.serve.libretranslate.fields import Asked, key_of, read_fields, texts_of
from regard.serve.models import ServedModel
from regard.serve.service import Service
from regard.text.language_detection import Detected, Detector
from regard.text.languages import Languages, language_name
from regard.translator import Translation
from regard.translator.markup.document import Markup
from regard.translator.plain_text import PlainText

_SURE = 80.0  # how sure it must be that a text is in the target language already, to leave it as it is
_FRONTEND_TIMEOUT = 500  # milliseconds that a page waits after a key is pressed

Document = Markup | PlainText


def libretranslate_router(service: Service) -> APIRouter:
    """The routes, over a service. A Problem that they raise is said in LibreTranslate's words by who catches it."""
    router = APIRouter(tags=["LibreTranslate"])
    made = LibreTranslate(service, service.ready_models)

    def libre() -> LibreTranslate:
        """Anew when a model has been added: one that has just been trained."""
        nonlocal made
        service.look_for_models()
        if made.models != service.ready_models:
            made = LibreTranslate(service, service.ready_models)
        if not made.models:
            raise not_ready()
        return made

    @router.post("/translate", summary="Translate", openapi_extra=schema.TRANSLATE, responses=schema.TRANSLATED)
    async def translate(request: Request) -> Response:
        fields = await _fields(service, request)
        return Json(await libre().translate(fields))

    @router.post("/detect", summary="Detect a language", openapi_extra=schema.DETECT, responses=schema.DETECTED)
    async def detect(request: Request) -> Response:
        fields = await _fields(service, request)
        return Json(await libre().detect(fields))

    @router.get("/languages", summary="Languages", responses=schema.LANGUAGES)
    async def languages(request: Request) -> Response:
        await _fields(service, request)
        return Json(libre().languages())

    @router.get("/frontend/settings", summary="What a page should know", responses=schema.SETTINGS)
    async def frontend_settings(request: Request) -> Response:
        await _fields(service, request)
        return Json(libre().frontend_settings())

    return router


async def _fields(service: Service, request: Request) -> dict[str, Any]:
    """What was sent; refused without a key, where one is needed and none stood in the headers."""
    fields = await read_fields(request)
    if service.keys is not None and not getattr(request.state, "has_key", False):
        key = key_of(fields)
        if key is not None and not service.keys.allow(key):
            raise Problem(403, "key", "Invalid API key")
        service.keys.require(key)
    return fields


class LibreTranslate:
    """What the routes answer, without HTTP."""

    def __init__(self, service: Service, models: list[ServedModel]) -> None:
        self._service, self.models = service, models
        facts = [model.described.facts if model.described is not None else {} for model in self.models]
        spoken = [Languages(model.source, model.targets) for model in self.models]
        self._detector = Detector(zip(spoken, facts, strict=True))
        self._open = any(model.source is None or not model.targets for model in self.models)  # for any language

    def languages(self) -> list[dict[str, Any]]:
        """Every language once, with those it can be translated into; also those that can not, as clients expect."""
        targets: dict[str, list[str]] = {code: [] for code in self._detector.languages}
        for model in self.models:
            if model.source is not None:
                targets[model.source] += [one for one in model.targets if one not in targets[model.source]]
        return [{"code": code, "name": language_name(code), "targets": found} for code, found in targets.items()]

    def frontend_settings(self) -> dict[str, Any]:
        """As a page of LibreTranslate asks for them."""
        first = self.models[0]
        return {
            "apiKeys": self._service.keys is not None,
            "charLimit": self._service.settings.max_text,
            "filesTranslation": False,
            "frontendTimeout": _FRONTEND_TIMEOUT,
            "keyRequired": self._service.keys is not None,
            "language": {
                "source": _named(first.source),
                "target": _named(first.targets[0] if first.targets else None),
            },
            "suggestions": False,
            "supportedFilesFormat": [],
        }

    async def detect(self, fields: dict[str, Any]) -> list[dict[str, Any]]:
        """Best first; several texts are taken as one."""
        text = "\n".join(texts_of(fields, self._service.settings)[0])
        return [_as_json(one) for one in await asyncio.to_thread(self._detector.detect, text)]

    async def translate(self, fields: dict[str, Any]) -> dict[str, Any]:
        """One text or many, each from its own language when that is to be found out."""
        asked = Asked.of(fields, self._service.settings)
        target = self._known(asked.target, [one for model in self.models for one in model.targets])
        detected = await self._sources(asked, target)
        if not asked.html:
            self._check_lines(sum(text.count("\n") + 1 for text in asked.texts))
        documents = await asyncio.to_thread(lambda: [_document(text, asked.html) for text in asked.texts])
        self._check_lines(sum(len(one.texts) for one in documents))
        found = await self._translate_all(documents, [one.language for one in detected], target, asked.alternatives)
        answer = await asyncio.to_thread(_filled, documents, found, asked.alternatives > 0)
        if asked.source is None:
            answer["detectedLanguage"] = [_as_json(one) for one in detected]
        return answer if asked.many else {name: values[0] for name, values in answer.items()}

    async def _sources(self, asked: Asked, target: str) -> list[Detected]:
        """The source language of each text: as said, or as it looks."""
        if asked.source is not None:
            source = self._known(asked.source, [one.source for one in self.models if one.source is not None])
            return [Detected(source, 100.0)] * len(asked.texts)
        return await asyncio.to_thread(lambda: [self._source(text, target) for text in asked.texts])

    def _source(self, text: str, target: str) -> Detected:
        """The likeliest language that there is a model for; or the target, when it surely is that already."""
        suiting = [one for one in self.models if one.suits(None, target)]
        possible = [one.source for one in suiting if one.source is not None]
        if suiting and not possible:
            return Detected("auto", 0.0)  # of a language that the model does not name
        found = self._detector.detect(text, [*possible, target] if possible else None)
        for one in found:
            if one.language in possible or one.confidence >= _SURE:
                return one
        return Detected(possible[0] if possible else "auto", 0.0)

    def _check_lines(self, n_lines: int) -> None:
        most = self._service.settings.max_lines
        if n_lines > most:
            raise Problem(413, "too_many", f"Invalid request: {n_lines:,} lines; {most:,} at most")

    def _known(self, code: str, codes: Sequence[str]) -> str:
        """The code as a model has it: `pt` for `pt-BR` where that is all there is."""
        if code in codes or self._open:
            return code
        near = [one for one in codes if _primary(one) == _primary(code)]
        everywhere = self._detector.languages
        if not near and code not in everywhere:
            raise Problem(400, "no_language", f"{code} is not supported")
        return near[0] if near else code

    async def _translate_all(
        self, documents: Sequence[Document], sources: Sequence[str], target: str, alternatives: int
    ) -> list[list[Translation]]:
        """Every document's sentences, those of one model together."""
        found: list[list[Translation]] = [[] for _ in documents]
        wanted: dict[ServedModel, list[int]] = {}
        for number, source in enumerate(sources):
            model = self._model(source, target)
            if model is None:
                found[number] = [Translation(text) for text in documents[number].texts]
            else:
                wanted.setdefault(model, []).append(number)
        deadline = monotonic() + self._service.settings.deadline_seconds
        texts = {
            model: [text for number in numbers for text in documents[number].texts] for model, numbers in wanted.items()
        }
        await self._admit(texts, alternatives)
        for model, numbers in wanted.items():
            details = any(isinstance(documents[number], Markup) for number in numbers)
            done = iter(await self._translate(model, texts[model], target, alternatives, details, deadline))
            for number in numbers:
                found[number] = [next(done) for _ in documents[number].texts]
        return found

    async def _admit(self, texts: dict[ServedModel, list[str]], alternatives: int) -> None:
        """Everything is let in, or nothing is begun."""
        service, size = self._service, self._service.settings.max_texts
        sizes = await asyncio.to_thread(
            lambda: {model: sum(map(model.count_tokens, lines)) for model, lines in texts.items()}
        )
        for model, lines in texts.items():
            service.admit(lines[:size], model=model, n_tokens=sizes[model], alternatives=alternatives)

    async def _translate(
        self, model: ServedModel, texts: Sequence[str], target: str, alternatives: int, details: bool, deadline: float
    ) -> list[Translation]:
        """Some at a time, so that others get their turn in between."""
        done: list[Translation] = []
        size = self._service.settings.max_texts
        for start in range(0, len(texts), size):
            left = deadline - monotonic()
            if left <= 0:
                raise too_late(self._service.settings.deadline_seconds)
            done += await self._service.translate(
                texts[start : start + size],
                model=model,
                target=target,
                alternatives=alternatives,
                details=details,
                deadline_seconds=left,
                admitted=True,
            )
        return done

    def _model(self, source: str, target: str) -> ServedModel | None:
        """The model for the pair; None when both are the same, and there is nothing to do."""
        if source == target:
            return None
        try:
            return self._service.pick(None if source == "auto" else source, target)
        except Problem as problem:
            names = [f"{language_name(code)} ({code})" for code in (target, source)]
            message = f"{names[0]} is not available as a target language from {names[1]}"
            raise Problem(400, problem.code, message) from problem


def _named(code: str | None) -> dict[str, str]:
    return {"code": code, "name": language_name(code)} if code else {"code": "auto", "name": "Auto Detect"}


def _as_json(one: Detected) -> dict[str, Any]:
    return {"confidence": one.confidence, "language": one.language}


def _primary(code: str) -> str:
    return code.replace("_", "-").split("-")[0]


def _document(text: str, html: bool) -> Document:
    return Markup(text) if html else PlainText(text)


def _filled(documents: Sequence[Document], found: Sequence[list[Translation]], more: bool) -> dict[str, Any]:
    both = list(zip(documents, found, strict=True))
    answer: dict[str, Any] = {"translatedText": [document.filled(done) for document, done in both]}
    if more:
        answer["alternatives"] = [_alternatives(*one) for one in both]
    return answer


def _alternatives(document: Document, done: Sequence[Translation]) -> list[str]:
    """Of plain text alone, as LibreTranslate."""
    return document.alternatives(done) if isinstance(document, PlainText) else []

"""The routes of LibreTranslate's API: /translate, /languages, /detect, /frontend/settings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Any

from fastapi import APIRouter, Request, Response

from regard.serve.batching.jobs import TranslateJob
from regard.serve.http.problem import Problem, deadline_exceeded, not_ready
from regard.serve.http.responses import JsonResponse
from regard.serve.libretranslate import schema
from regard.serve.libretranslate.fields import TranslateFields, api_key, parse_texts, read_fields
from regard.serve.models import ServedModel
from regard.serve.service import Service
from regard.text.language_detection import Detected, Detector
from regard.text.languages import Languages, language_name
from regard.translator import Translation
from regard.translator.markup.document import HtmlDocument
from regard.translator.plain_text import PlainText

_MIN_TARGET_CONFIDENCE = 80.0  # a text detected as the target language with this confidence is not translated
_FRONTEND_TIMEOUT = 500  # milliseconds that a LibreTranslate page waits after a key press

Document = HtmlDocument | PlainText


def libretranslate_router(service: Service) -> APIRouter:
    """The routes raise Problems, which `problem_response` renders in LibreTranslate's format."""
    router = APIRouter(tags=["LibreTranslate"])
    current = LibreTranslate(service, service.ready_translators)

    def api() -> LibreTranslate:
        """Created again when a training has finished and its model was added."""
        nonlocal current
        service.load_finished_runs()
        if current.models != service.ready_translators:
            current = LibreTranslate(service, service.ready_translators)
        if not current.models:
            service.pick()  # raises a Problem if no model translates
            raise not_ready()
        return current

    @router.post(
        "/translate",
        summary="Translate text",
        response_model=schema.TranslateResponse,
        response_description="The translation: a text if q is a text, a list if q is a list",
        openapi_extra=schema.request_body(schema.TranslateBody),
        responses=schema.ERRORS,
    )
    async def translate(request: Request) -> Response:
        fields = await _read_with_key(service, request)
        return JsonResponse(await api().translate(fields))

    @router.post(
        "/detect",
        summary="Detect the language of a text",
        response_model=list[schema.Detection],
        response_description="The likely languages, best first",
        openapi_extra=schema.request_body(schema.DetectBody),
        responses=schema.ERRORS,
    )
    async def detect(request: Request) -> Response:
        fields = await _read_with_key(service, request)
        return JsonResponse(await api().detect(fields))

    @router.get(
        "/languages",
        summary="List the supported languages",
        response_model=list[schema.Language],
        response_description="The languages, and which targets each can be translated into",
    )
    async def languages(request: Request) -> Response:
        await _read_with_key(service, request)
        return JsonResponse(api().languages())

    @router.get(
        "/frontend/settings",
        summary="Settings for a web page",
        response_model=schema.FrontendSettings,
        response_description="Limits, languages and features of this service",
    )
    async def frontend_settings(request: Request) -> Response:
        await _read_with_key(service, request)
        return JsonResponse(api().frontend_settings())

    return router


async def _read_with_key(service: Service, request: Request) -> dict[str, Any]:
    """The fields of a request. Requires an API key among them, unless the headers had one or none is needed."""
    fields = await read_fields(request)
    if service.keys is not None and not getattr(request.state, "has_key", False):
        key = api_key(fields)
        if key is not None and not service.keys.allow(key):
            raise Problem(403, "key", "Invalid API key")
        service.keys.require(key)
    return fields


class LibreTranslate:
    """LibreTranslate's API without HTTP."""

    def __init__(self, service: Service, models: list[ServedModel]) -> None:
        self._service, self.models = service, models
        facts = [model.description.facts if model.description is not None else {} for model in self.models]
        languages = [Languages(model.source, model.targets) for model in self.models]
        self._detector = Detector(zip(languages, facts, strict=True))
        self._any_language = any(model.source is None or not model.targets for model in self.models)

    def languages(self) -> list[dict[str, Any]]:
        """Every language with the targets it can be translated into; clients expect languages without targets, too."""
        targets: dict[str, list[str]] = {code: [] for code in self._detector.languages}
        for model in self.models:
            if model.source is not None:
                targets[model.source] += [code for code in model.targets if code not in targets[model.source]]
        return [{"code": code, "name": language_name(code), "targets": codes} for code, codes in targets.items()]

    def frontend_settings(self) -> dict[str, Any]:
        """The settings that LibreTranslate's web page requests."""
        first = self.models[0]
        return {
            "apiKeys": self._service.keys is not None,
            "charLimit": self._service.settings.max_text,
            "filesTranslation": False,
            "frontendTimeout": _FRONTEND_TIMEOUT,
            "keyRequired": self._service.keys is not None,
            "language": {
                "source": _language_record(first.source),
                "target": _language_record(first.targets[0] if first.targets else None),
            },
            "suggestions": False,
            "supportedFilesFormat": [],
        }

    async def detect(self, fields: dict[str, Any]) -> list[dict[str, Any]]:
        """The likely languages, best first; several texts are joined."""
        text = "\n".join(parse_texts(fields, self._service.settings)[0])
        if await asyncio.to_thread(self._detector.is_unknown, text):
            return [Detected("unknown", 0.0)._asdict()]
        return [detected._asdict() for detected in await asyncio.to_thread(self._detector.detect, text)]

    async def translate(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Translates one text or many; with source "auto", the language of each text is detected separately."""
        request = TranslateFields.parse(fields, self._service.settings)
        target = self._supported_code(request.target, [code for model in self.models for code in model.targets])
        detected = await self._detect_sources(request, target)
        if not request.html:
            self._check_line_count(sum(text.count("\n") + 1 for text in request.texts))
        kind = HtmlDocument if request.html else PlainText
        documents = await asyncio.to_thread(lambda: [kind(text) for text in request.texts])
        self._check_line_count(sum(len(document.texts) for document in documents))
        sources = [detection.language for detection in detected]
        translations = await self._translate_documents(documents, sources, target, request)
        response = await asyncio.to_thread(_response, documents, translations, request.alternatives > 0)
        if request.source is None:
            response["detectedLanguage"] = [detection._asdict() for detection in detected]
        return response if request.is_list else {name: values[0] for name, values in response.items()}

    async def _detect_sources(self, request: TranslateFields, target: str) -> list[Detected]:
        """The source language of each text: as requested, or detected."""
        if request.source is not None:
            sources = [model.source for model in self.models if model.source is not None]
            return [Detected(self._supported_code(request.source, sources), 100.0)] * len(request.texts)
        return await asyncio.to_thread(lambda: [self._detect_source(text, target) for text in request.texts])

    def _detect_source(self, text: str, target: str) -> Detected:
        """The most likely language that can be translated, or the target if the text clearly is in it already."""
        models = [model for model in self.models if model.supports(None, target)]
        sources = [model.source for model in models if model.source is not None]
        if models and not sources:
            return Detected("auto", 0.0)  # the source language of the model is unknown
        for detected in self._detector.detect(text, [*sources, target] if sources else None):
            if detected.language in sources or detected.confidence >= _MIN_TARGET_CONFIDENCE:
                return detected
        return Detected(sources[0] if sources else "auto", 0.0)

    def _check_line_count(self, n_lines: int) -> None:
        limit = self._service.settings.max_lines
        if n_lines > limit:
            raise Problem(413, "too_many", f"Invalid request: {n_lines:,} lines exceed the limit ({limit:,})")

    def _supported_code(self, code: str, codes: Sequence[str]) -> str:
        """The code as a model has it: `pt` for `pt-BR` if there is no `pt-BR`."""
        if code in codes or self._any_language:
            return code
        similar = [candidate for candidate in codes if _primary(candidate) == _primary(code)]
        if not similar and code not in self._detector.languages:
            raise Problem(400, "no_language", f"{code} is not supported")
        return similar[0] if similar else code

    async def _translate_documents(
        self, documents: Sequence[Document], sources: Sequence[str], target: str, request: TranslateFields
    ) -> list[list[Translation]]:
        """The translations of each document's texts; documents for the same model are translated together."""
        translations: list[list[Translation]] = [[] for _ in documents]
        indices_of: dict[ServedModel, list[int]] = {}
        for index, source in enumerate(sources):
            model = self._pick(source, target)
            if model is None:
                translations[index] = [Translation(text) for text in documents[index].texts]
            else:
                indices_of.setdefault(model, []).append(index)
        deadline = monotonic() + self._service.settings.deadline_seconds
        texts = {
            model: [text for index in indices for text in documents[index].texts]
            for model, indices in indices_of.items()
        }
        details = any(isinstance(document, HtmlDocument) for document in documents)
        jobs = {
            model: self._service.translate_job(
                model, target, alternatives=request.alternatives, details=details, split=request.split
            )
            for model in texts
        }
        await self._admit(texts, jobs)
        for model, indices in indices_of.items():
            translated = iter(await self._translate_texts(texts[model], model, jobs[model], deadline))
            for index in indices:
                translations[index] = [next(translated) for _ in documents[index].texts]
        return translations

    async def _admit(self, texts: dict[ServedModel, list[str]], jobs: dict[ServedModel, TranslateJob]) -> None:
        """Admits all texts or none, before any is translated."""
        service, size = self._service, self._service.settings.max_texts
        n_tokens = await asyncio.to_thread(
            lambda: {model: sum(map(model.count_tokens, lines)) for model, lines in texts.items()}
        )
        for model, lines in texts.items():
            service.admit(lines[:size], model, jobs[model], n_tokens=n_tokens[model])

    async def _translate_texts(
        self, texts: Sequence[str], model: ServedModel, job: TranslateJob, deadline: float
    ) -> list[Translation]:
        """In several steps, so that other requests are served in between."""
        translations: list[Translation] = []
        size = self._service.settings.max_texts
        for start in range(0, len(texts), size):
            remaining_seconds = deadline - monotonic()
            if remaining_seconds <= 0:
                raise deadline_exceeded(self._service.settings.deadline_seconds)
            part = texts[start : start + size]
            translations += await self._service.translate(
                part, model, job, deadline_seconds=remaining_seconds, admitted=True
            )
        return translations

    def _pick(self, source: str, target: str) -> ServedModel | None:
        """The model for a pair of languages; None if they are equal, because then the text stays as it is."""
        if source == target:
            return None
        try:
            return self._service.pick(None if source == "auto" else source, target)
        except Problem as problem:
            target_name, source_name = (f"{language_name(code)} ({code})" for code in (target, source))
            message = f"{target_name} is not available as a target language from {source_name}"
            raise Problem(400, problem.code, message) from problem


def _language_record(code: str | None) -> dict[str, str]:
    return {"code": code, "name": language_name(code)} if code else {"code": "auto", "name": "Auto Detect"}


def _primary(code: str) -> str:
    return code.replace("_", "-").split("-")[0]


def _response(
    documents: Sequence[Document], translations: Sequence[list[Translation]], with_alternatives: bool
) -> dict[str, Any]:
    pairs = list(zip(documents, translations, strict=True))
    response: dict[str, Any] = {"translatedText": [document.fill(translated) for document, translated in pairs]}
    warnings = [sorted({sign for line in translated for sign in line.warnings}) for translated in translations]
    if any(warnings):  # not in LibreTranslate's API; clients ignore fields that they do not know
        response["warnings"] = warnings
    if with_alternatives:  # for plain text only, as in LibreTranslate
        response["alternatives"] = [
            document.alternatives(translated) if isinstance(document, PlainText) else []
            for document, translated in pairs
        ]
    return response

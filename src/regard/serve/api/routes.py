"""The routes of /v1: translate, look, heads, training, models."""

from __future__ import annotations

from time import perf_counter

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from regard.serve.api.request_body import body_of, read_asked
from regard.serve.api.schemas import ERRORS, LookRequest, ModelsReply, TranslateReply, TranslateRequest
from regard.serve.api.streaming import Stream
from regard.serve.http.problem import Problem
from regard.serve.http.responses import InParts, Json, model_record, translation_record
from regard.serve.inside.look_service import Looking
from regard.serve.inside.training_status import Stories
from regard.serve.service import Service

_TRUTHS = {"1": True, "true": True, "0": False, "false": False}
_STREAM_PARAMETER = {
    "name": "stream",
    "in": "query",
    "description": "Server-sent events.",
    "schema": {"type": "boolean", "default": False},
}
_STREAM = {"text/event-stream": {"schema": {"type": "string"}}}


def translate_router(service: Service) -> tuple[APIRouter, ASGIApp]:
    """The route that applications live on, and the same without a router: its machinery takes longer than ours."""
    router = APIRouter(tags=["translate"])

    @router.post(
        "/v1/translate",
        summary="Translate one text or several",
        responses={200: {"model": TranslateReply, "content": _STREAM}, **ERRORS},
        openapi_extra={**body_of(TranslateRequest), "parameters": [_STREAM_PARAMETER]},
    )
    async def translate(request: Request) -> Response:
        """With `?stream=1`, long texts come as server-sent events, sentence by sentence."""
        started_at = perf_counter()
        asked = await read_asked(request, TranslateRequest)
        model = service.pick(asked.source, asked.target, asked.model)
        texts = [asked.text] if isinstance(asked.text, str) else asked.text
        if _wants_stream(request):
            return StreamingResponse(Stream(service, model, texts, asked).events(), media_type="text/event-stream")
        done = await service.translate(
            texts,
            model=model,
            target=asked.target,
            beam=asked.beam,
            alternatives=asked.alternatives,
            details=asked.details,
        )
        records = [translation_record(text, one, asked.details) for text, one in zip(texts, done, strict=True)]
        milliseconds = round((perf_counter() - started_at) * 1000, 3)
        return Json({"model": model.name, "milliseconds": milliseconds, "translations": records})

    async def translate_at_once(scope: Scope, receive: Receive, send: Send) -> None:
        response = await translate(Request(scope, receive))
        await response(scope, receive, send)

    return router, translate_at_once


def _wants_stream(request: Request) -> bool:
    if not request.scope["query_string"]:
        return False
    said = request.query_params.get("stream", "0").lower()
    if said not in _TRUTHS:
        raise Problem(422, "not_understood", "stream: 1 or 0")
    return _TRUTHS[said]


def inside_router(service: Service, looking: Looking, stories: Stories) -> APIRouter:
    """What the page shows besides: the inside of a model, and how it was trained."""
    router = APIRouter(tags=["look inside"])
    named = Query(None, description="A name from /v1/models; the default is the first.")

    @router.get("/v1/models", summary="What there is", response_model=ModelsReply, responses=ERRORS)
    async def models() -> Response:
        ready = service.ready
        service.look_for_models()
        return Json({"models": [model_record(model, ready) for model in service.models.values()]})

    @router.post(
        "/v1/look",
        summary="Everything that the model computes for one sentence",
        responses={200: {"description": "regard-look/1"}, **ERRORS},
        openapi_extra=body_of(LookRequest),
    )
    async def look(request: Request) -> Response:
        """With interventions: heads switched off, no scaling, no mask, other positions."""
        asked = await read_asked(request, LookRequest)
        model = service.pick(asked.source, asked.target, asked.model)
        service.require_ready(model)
        service.check_size([asked.text, asked.translation or ""])
        service.check_beam(asked.beam, 0)
        parts = await looking.look(model, asked)
        return InParts(parts, lambda: looking.sent(parts))

    @router.get(
        "/v1/heads",
        summary="Every head over the run's validation text",
        responses={200: {"description": "regard-heads/1"}, **ERRORS},
    )
    async def heads(model: str | None = named) -> Response:
        found = service.named(model)
        service.require_ready(found)
        return Json(await looking.heads(found))

    @router.get(
        "/v1/training",
        summary="How the model was trained, so far",
        responses={200: {"description": "regard-run/1"}, **ERRORS},
    )
    async def training(model: str | None = named) -> Response:
        return Json(await stories.story(service.named(model)))

    return router

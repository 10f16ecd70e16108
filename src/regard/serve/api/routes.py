"""The routes of /v1: translate, predict, look, heads, training, models."""

from __future__ import annotations

from time import perf_counter
from typing import Any, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ValidationError
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from regard.serve.api.schemas import (
    ERRORS,
    LookRequest,
    ModelsReply,
    PredictReply,
    PredictRequest,
    ProjectionRequest,
    TranslateReply,
    TranslateRequest,
    model_record,
    translation_record,
)
from regard.serve.api.streaming import stream_sentences
from regard.serve.http.json_size import check_structure
from regard.serve.http.problem import Problem
from regard.serve.http.responses import JsonPartsResponse, JsonResponse
from regard.serve.inside.look_service import LookService
from regard.serve.inside.training_status import TrainingStatus
from regard.serve.service import Service

RequestModel = TypeVar("RequestModel", bound=BaseModel)

_MAX_ERRORS = 100
_BOOLEANS = {"1": True, "true": True, "0": False, "false": False}
_STREAM_PARAMETER = {
    "name": "stream",
    "in": "query",
    "description": "Return server-sent events, one per sentence.",
    "schema": {"type": "boolean", "default": False},
}
_TRANSLATED = "The translations, in the order of the texts."
_MODEL_NAME = Query(None, description="Model name from /v1/models; the default is the first model.")
_EVENT_STREAM = {"text/event-stream": {"schema": {"type": "string"}}}


def translate_router(service: Service) -> tuple[APIRouter, ASGIApp]:
    """The router of /v1/translate, and the same route as a plain ASGI application: the router adds much overhead."""
    router = APIRouter(tags=["translate"])

    @router.post(
        "/v1/translate",
        summary="Translate one or more texts",
        responses={200: {"model": TranslateReply, "content": _EVENT_STREAM, "description": _TRANSLATED}, **ERRORS},
        openapi_extra={**_request_body(TranslateRequest), "parameters": [_STREAM_PARAMETER]},
    )
    async def translate(request: Request) -> Response:
        """With `?stream=1`, the response is a stream of server-sent events, one per sentence; use it for long texts."""
        started_at = perf_counter()
        body = await _read_json(request, TranslateRequest)
        model = service.pick(body.source, body.target, body.model)
        texts = [body.text] if isinstance(body.text, str) else body.text
        job = service.translate_job(
            model,
            body.target,
            beam=body.beam,
            alternatives=body.alternatives,
            details=body.details,
            split=body.split,
        )
        if _wants_stream(request):
            return StreamingResponse(stream_sentences(service, model, job, texts), media_type="text/event-stream")
        translations = await service.translate(texts, model, job)
        records = [
            translation_record(text, translation, body.details)
            for text, translation in zip(texts, translations, strict=True)
        ]
        milliseconds = round((perf_counter() - started_at) * 1000, 3)
        return JsonResponse({"model": model.name, "milliseconds": milliseconds, "translations": records})

    async def translate_directly(scope: Scope, receive: Receive, send: Send) -> None:
        response = await translate(Request(scope, receive))
        await response(scope, receive, send)

    return router, translate_directly


def predict_router(service: Service) -> APIRouter:
    """For the models of all tasks."""
    router = APIRouter(tags=["predict"])

    @router.post(
        "/v1/predict",
        summary="Predict with a model of any task",
        responses={
            200: {"model": PredictReply, "description": "The predictions, in the order of the inputs."},
            **ERRORS,
        },
        openapi_extra=_request_body(PredictRequest),
    )
    async def predict(request: Request) -> Response:
        """What an input and a prediction are depends on the model's task; a translator takes texts."""
        body = await _read_json(request, PredictRequest)
        model = service.get_model(body.model)
        return JsonResponse({"model": model.name, "output": await service.predict(body.input, model=model)})

    return router


def models_router(service: Service, training_status: TrainingStatus) -> APIRouter:
    """The models and their training."""
    router = APIRouter(tags=["look inside"])

    @router.get("/v1/models", summary="List the models", response_model=ModelsReply, responses=ERRORS)
    async def models() -> Response:
        ready = service.ready
        service.load_finished_runs()
        return JsonResponse({"models": [model_record(model, ready) for model in service.models.values()]})

    @router.get(
        "/v1/training",
        summary="Training progress and history of a model",
        responses={200: {"description": "Format regard-run/2: recipe, progress, losses and scores."}, **ERRORS},
    )
    async def training(model: str | None = _MODEL_NAME) -> Response:
        return JsonResponse(await training_status.read(service.get_model(model)))

    return router


def look_router(service: Service, look_service: LookService) -> APIRouter:
    """What a model computes."""
    router = APIRouter(tags=["look inside"])

    @router.post(
        "/v1/look",
        summary="Inspect what the model computes for one sentence or other input",
        responses={
            200: {"description": "Format regard-look/1: attention weights, embeddings and layer outputs."},
            **ERRORS,
        },
        openapi_extra=_request_body(LookRequest),
    )
    async def look(request: Request) -> Response:
        """Interventions change the model for this request: heads off, no scaling, no mask, other positions.

        For a model of another task, `text` is its input.
        """
        body = await _read_json(request, LookRequest)
        named = None if body.model is None else service.get_model(body.model)
        model = named if named and not named.translates else service.pick(body.source, body.target, body.model)
        service.require_ready(model)
        service.check_lengths([body.text, body.translation or ""])
        service.check_beam(body.beam, 0)
        parts = await look_service.look(model, body)
        return JsonPartsResponse(parts, lambda: look_service.release(parts))

    @router.post(
        "/v1/projection",
        summary="How one attention head gets its queries, keys and values",
        responses={200: {"description": "For q, k and v: x, weight and bias; q = x · weight + bias."}, **ERRORS},
        openapi_extra=_request_body(ProjectionRequest),
    )
    async def projection(request: Request) -> Response:
        """The inputs of the head for one sentence, and its matrices. For Transformers."""
        body = await _read_json(request, ProjectionRequest)
        model = service.pick(None, body.target, body.model)
        service.require_ready(model)
        service.check_lengths([body.text, body.translation])
        return JsonResponse(await look_service.projection(model, body))

    @router.get(
        "/v1/heads",
        summary="Statistics of every attention head on the run's validation text",
        responses={200: {"description": "Format regard-heads/1: what each head attends to."}, **ERRORS},
    )
    async def heads(model: str | None = _MODEL_NAME) -> Response:
        served_model = service.pick(name=service.get_model(model).name)
        service.require_ready(served_model)
        return JsonResponse(await look_service.heads(served_model))

    return router


async def _read_json(request: Request, model: type[RequestModel]) -> RequestModel:
    """Validates the request body; any mistake in it becomes a 4xx Problem.

    Pydantic's parser limits nesting and rejects lone surrogates and NaN. Only application/json is accepted: pages of
    other origins cannot send that without a CORS preflight.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise Problem(415, "not_json", "send JSON with Content-Type: application/json")
    content = await request.body()
    check_structure(content, has_numbers=model is PredictRequest)
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        if error.error_count() > _MAX_ERRORS:  # writing them all down takes longer than finding them
            message = f"{error.error_count():,} fields or values are not as described in /docs"
            raise Problem(422, "not_understood", message) from None
        # the location and the reason, but never the client's value
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        location = ".".join(str(part) for part in first["loc"][:4])
        message = f"{location}: {first['msg']}" if location else str(first["msg"])
        raise Problem(422, "not_understood", message) from None


def _request_body(model: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI description of a route that reads its body with `_read_json`."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _wants_stream(request: Request) -> bool:
    if not request.scope["query_string"]:
        return False
    value = request.query_params.get("stream", "0").lower()
    if value not in _BOOLEANS:
        raise Problem(422, "not_understood", "stream: must be 1 or 0")
    return _BOOLEANS[value]

"""The FastAPI application: routes and middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from regard import __version__
from regard.serve.api.routes import look_router, models_router, predict_router, translate_router
from regard.serve.api.schemas import REQUESTS
from regard.serve.http.access_log import AccessLog
from regard.serve.http.admission import Admission, log_error
from regard.serve.http.head import HeadRequests
from regard.serve.http.monitoring import Metrics, monitoring_router
from regard.serve.http.problem import Problem
from regard.serve.http.responses import JsonResponse, problem_response
from regard.serve.inside.look_service import LookService, load_lens
from regard.serve.inside.training_status import TrainingStatus
from regard.serve.libretranslate.routes import libretranslate_router
from regard.serve.models import ServedModel
from regard.serve.service import Service

WEB = Path(__file__).parents[1] / "web"


def create_app(service: Service, *, load: Callable[[ServedModel], Any] = load_lens) -> FastAPI:
    """The application for a service; `load` loads the lens of a model."""
    look_service, training_status, metrics = LookService(service.settings, load), TrainingStatus(), Metrics(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await service.start()
        except Exception as error:
            log_error(error)  # uvicorn's own log is silenced
            raise
        try:
            yield
        finally:
            look_service.close()
            training_status.close()
            await service.stop()

    app = FastAPI(
        title="Regard",
        version=__version__,
        summary="Machine translation, with access to the internals of the model.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
        default_response_class=JsonResponse,
    )
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    v1_translate_router, translate_directly = translate_router(service)
    routers = [
        v1_translate_router,
        predict_router(service),
        models_router(service, training_status),
        look_router(service, look_service),
        libretranslate_router(service),
        monitoring_router(service, metrics, app),
    ]
    for router in routers:
        app.include_router(router)
    _add_page(app, service, look_service)
    app.add_exception_handler(HTTPException, _on_http_error)
    paths = {"/", "/static", *(path for router in routers for path in _paths(router))}
    _add_middleware(app, service, metrics, paths, {"/v1/translate": translate_directly})
    return app


def _paths(router: APIRouter) -> list[str]:
    return [path for route in router.routes if (path := getattr(route, "path", None))]


def _add_page(app: FastAPI, service: Service, look_service: LookService) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        for model in service.ready_translators[:1]:
            look_service.preload(model)  # the page is likely to need it
        return FileResponse(WEB / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/static", _RevalidatedFiles(directory=WEB, check_dir=False))


class _RevalidatedFiles(StaticFiles):
    """Browsers revalidate every file, and download only what has changed."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


async def _on_http_error(request: Request, error: Exception) -> Response:
    """Starlette's own errors in the format of all others, which Admission answers."""
    assert isinstance(error, HTTPException)
    codes = {404: "not_found", 405: "method"}
    problem = Problem(error.status_code, codes.get(error.status_code, "refused"), error.detail)
    response = problem_response(problem, request.scope)
    response.headers.update(error.headers or {})
    return response


def _add_middleware(
    app: FastAPI, service: Service, metrics: Metrics, paths: set[str], direct_routes: dict[str, ASGIApp]
) -> None:
    """From the innermost to the outermost."""
    app.add_middleware(Admission, service=service, direct_routes=direct_routes)
    if service.settings.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.settings.cors),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-Request-Id"],
            expose_headers=["X-Request-Id", "Retry-After"],
        )
    app.add_middleware(HeadRequests)
    app.add_middleware(AccessLog, metrics=metrics, routes=frozenset(paths))


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's description, plus the request bodies that the routes validate themselves."""
    if app.openapi_schema is None:
        openapi = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        _, schemas = models_json_schema(
            [(model, "validation") for model in REQUESTS], ref_template="#/components/schemas/{model}"
        )
        openapi.setdefault("components", {}).setdefault("schemas", {}).update(schemas["$defs"])
        app.openapi_schema = openapi
    return app.openapi_schema

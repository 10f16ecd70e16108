"""The application: routes, and the layers around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from regard import __version__
from regard.serve.api.routes import inside_router, translate_router
from regard.serve.api.schemas import ASKED
from regard.serve.http.access_log import Front
from regard.serve.http.admission import Guard, report
from regard.serve.http.health import operations_router
from regard.serve.http.metrics import Metrics
from regard.serve.http.problem import Problem
from regard.serve.http.responses import Json, problem_response
from regard.serve.inside.look_service import Looking, Looks, load_lens
from regard.serve.inside.training_status import Stories
from regard.serve.libretranslate.routes import libretranslate_router
from regard.serve.models import ServedModel
from regard.serve.service import Service

WEB = Path(__file__).parents[1] / "web"


def create_app(service: Service, *, load: Callable[[ServedModel], Looks] = load_lens) -> FastAPI:
    """Everything over one service; `load` gives the lens of a model."""
    looking, stories, metrics = Looking(service.settings, load), Stories(), Metrics(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await service.start()
        except Exception as error:
            report(error)  # the server that asked is silent
            raise
        try:
            yield
        finally:
            looking.close()
            stories.close()
            await service.stop()

    app = FastAPI(
        title="Regard",
        version=__version__,
        summary="A translator that you can look inside.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
        default_response_class=Json,
    )
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    translating, translate = translate_router(service)
    routers = [
        translating,
        inside_router(service, looking, stories),
        libretranslate_router(service),
        operations_router(service, metrics, app),
    ]
    for router in routers:
        app.include_router(router)
    _add_page(app, service, looking)
    _add_refusals(app)
    app.add_middleware(Guard, service=service, direct={"/v1/translate": translate})
    _add_layers(app, service, metrics, {"/", "/static", *(path for router in routers for path in _paths(router))})
    return app


def _paths(router: APIRouter) -> list[str]:
    return [path for route in router.routes if (path := getattr(route, "path", None))]


def _add_page(app: FastAPI, service: Service, looking: Looking) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        model = service.pick()
        if model.ready:  # a person has come, and will want to look
            looking.warm(model)
        return FileResponse(WEB / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/static", _Files(directory=WEB, check_dir=False))


class _Files(StaticFiles):
    """Asked for again each time, and sent only when changed."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _add_refusals(app: FastAPI) -> None:
    """Whoever refuses, and for whatever reason, it looks the same."""

    async def told(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return problem_response(error, request.scope)

    async def misasked(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return problem_response(Problem(422, "not_understood", f"{where}: {first['msg']}"), request.scope)

    async def missed(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        codes = {404: "not_found", 405: "method"}
        problem = Problem(error.status_code, codes.get(error.status_code, "refused"), error.detail)
        response = problem_response(problem, request.scope)
        response.headers.update(error.headers or {})
        return response

    app.add_exception_handler(Problem, told)
    app.add_exception_handler(RequestValidationError, misasked)
    app.add_exception_handler(HTTPException, missed)


def _add_layers(app: FastAPI, service: Service, metrics: Metrics, routes: set[str]) -> None:
    """The last one added sees a request first."""
    if service.settings.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.settings.cors),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-Request-Id"],
            expose_headers=["X-Request-Id", "Retry-After"],
        )
    app.add_middleware(Front, metrics=metrics, routes=frozenset(routes))


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's own description, and the bodies that the routes read by themselves."""
    if app.openapi_schema is None:
        told = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        _, asked = models_json_schema(
            [(kind, "validation") for kind in ASKED], ref_template="#/components/schemas/{model}"
        )
        told.setdefault("components", {}).setdefault("schemas", {}).update(asked["$defs"])
        app.openapi_schema = told
    return app.openapi_schema

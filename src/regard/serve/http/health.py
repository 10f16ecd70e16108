"""The routes for those who run the service: alive, ready, metrics; and how its API is described."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import FileResponse, Response

from regard.serve.api.schemas import Status
from regard.serve.http.metrics import Metrics
from regard.serve.http.responses import Json
from regard.serve.service import Service

_DOCUMENTATION = Path(__file__).parents[2] / "web" / "docs"


def operations_router(service: Service, metrics: Metrics, app: FastAPI) -> APIRouter:
    """Liveness is the one route that never wants a key."""
    router = APIRouter(tags=["operate"])
    failing: dict[int | str, dict[str, Any]] = {503: {"model": Status, "description": "It does not."}}

    @router.get("/livez", summary="Whether the engine moves", response_model=Status, responses=failing)
    async def livez() -> Response:
        return Json({"status": "ok"}) if service.live else Json({"status": "failed"}, 503)

    @router.get("/readyz", summary="Whether new requests are taken", response_model=Status, responses=failing)
    async def readyz() -> Response:
        if service.ready:
            return Json({"status": "ok"})
        return Json({"status": "stopping" if service.live else "failed"}, 503)

    @router.get("/metrics", summary="For Prometheus", response_class=Response)
    async def measured() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @router.get("/openapi.json", include_in_schema=False)
    async def described() -> Response:
        return Json(app.openapi())

    @router.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return FileResponse(_DOCUMENTATION / "docs.html")

    @router.get("/docs/{name}", include_in_schema=False)
    async def docs_file(name: str) -> Response:
        known = {"docs.js", "docs.css"}
        return FileResponse(_DOCUMENTATION / name) if name in known else Response(status_code=404)

    return router

"""Monitoring: liveness, readiness, Prometheus metrics, and the API documentation."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import FileResponse, Response

from regard.serve.api.schemas import Status
from regard.serve.http.responses import JsonResponse
from regard.serve.service import Service

_DOCS = Path(__file__).parents[2] / "web" / "docs"
_BUCKET_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


def monitoring_router(service: Service, metrics: Metrics, app: FastAPI) -> APIRouter:
    """/livez, /health and the documentation never require an API key."""
    router = APIRouter(tags=["monitoring"])
    answers: dict[int | str, dict[str, Any]] = {
        200: {"description": "Yes."},
        503: {"model": Status, "description": "No."},
    }

    @router.get("/livez", summary="Is the engine working?", response_model=Status, responses=answers)
    async def livez() -> Response:
        return JsonResponse({"status": "ok"}) if service.live else JsonResponse({"status": "failed"}, 503)

    @router.get("/health", summary="The same as /readyz, without a key", response_model=Status, responses=answers)
    @router.get("/readyz", summary="Can a model be used?", response_model=Status, responses=answers)
    async def readyz() -> Response:
        service.load_finished_runs()
        if service.ready:
            return JsonResponse({"status": "ok"})
        status = "failed" if not service.live else "stopping" if service.draining else "training"
        return JsonResponse({"status": status}, 503)

    @router.get("/metrics", summary="Metrics in Prometheus format", response_class=Response)
    async def prometheus() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @router.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return JsonResponse(app.openapi())

    @router.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return FileResponse(_DOCS / "docs.html")

    @router.get("/docs/{name}", include_in_schema=False)
    async def docs_file(name: str) -> Response:
        return FileResponse(_DOCS / name) if name in {"docs.js", "docs.css"} else Response(status_code=404)

    return router


class Metrics:
    """Prometheus metrics in a separate registry, so that two services in one process do not mix.

    Labels take few values: route templates and status classes.
    """

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter("regard_requests", "Requests answered", ["route", "status"], registry=self.registry)
        self._seconds = Histogram(
            "regard_request_seconds", "Request duration", ["route"], buckets=_BUCKET_SECONDS, registry=self.registry
        )
        self.registry.register(_BatcherCollector(service))
        self._counter = cache(lambda route, hundreds: self._requests.labels(route, f"{hundreds}xx"))
        self._histogram = cache(lambda route: self._seconds.labels(route))

    def record(self, route: str, status: int, seconds: float) -> None:
        self._counter(route, status // 100).inc()
        self._histogram(route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


_COUNTERS = [  # name, help, field of Throughput
    ("regard_batches", "Batches translated", "n_batches"),
    ("regard_texts", "Texts translated", "n_texts"),
    ("regard_refused", "Requests refused: queue full", "n_refused"),
    ("regard_tokens", "Source tokens translated", "n_tokens"),
    ("regard_tokens_wasted", "Source tokens translated after the client had disconnected", "n_wasted_tokens"),
    (
        "regard_tokens_dropped",
        "Source tokens removed from a queue: client disconnected, or deadline exceeded",
        "n_dropped_tokens",
    ),
]
_GAUGES = [  # name, help, field of Batcher
    ("regard_waiting_texts", "Texts in queues", "n_waiting"),
    ("regard_waiting_tokens", "Source tokens in queues", "n_waiting_tokens"),
]


class _BatcherCollector(Collector):
    """Reads the state of the batchers when metrics are requested."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        batchers = self._service.batchers.values()
        for name, help_text, field in _COUNTERS:
            total = sum(getattr(batcher.throughput, field) for batcher in batchers)
            yield CounterMetricFamily(name, help_text, value=total)
        for name, help_text, field in _GAUGES:
            total = sum(getattr(batcher, field) for batcher in batchers)
            yield GaugeMetricFamily(name, help_text, value=total)
        yield GaugeMetricFamily("regard_live", "Engine threads work", value=float(self._service.live))
        yield GaugeMetricFamily("regard_ready", "Accepts requests", value=float(self._service.ready))

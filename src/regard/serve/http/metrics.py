"""What Prometheus is told. Every set of labels is closed: route templates and classes of status."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from regard.serve.service import Service

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """A registry of the service's own, so that two services in one process do not mix."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter("regard_requests", "Requests answered", ["route", "status"], registry=self.registry)
        self._seconds = Histogram(
            "regard_request_seconds", "From head to end", ["route"], buckets=_SECONDS, registry=self.registry
        )
        self.registry.register(_Queues(service))
        self._count = cache(lambda route, hundreds: self._requests.labels(route, f"{hundreds}xx"))
        self._clock = cache(lambda route: self._seconds.labels(route))

    def saw(self, route: str, status: int, seconds: float) -> None:
        self._count(route, status // 100).inc()
        self._clock(route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Queues(Collector):
    """Read from the batchers when somebody asks."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        batchers = self._service.batchers
        meters = [batcher.meter for batcher in batchers]
        counted: list[tuple[str, str, Callable[[], int]]] = [
            ("regard_batches", "Batches translated", lambda: sum(one.n_batches for one in meters)),
            ("regard_texts", "Texts translated", lambda: sum(one.n_texts for one in meters)),
            ("regard_refused", "Requests refused: queue full", lambda: sum(one.n_refused for one in meters)),
            ("regard_tokens", "Source tokens translated", lambda: sum(one.n_tokens for one in meters)),
            ("regard_tokens_wasted", "… for clients that had left", lambda: sum(one.n_wasted_tokens for one in meters)),
            ("regard_tokens_dropped", "… not begun", lambda: sum(one.n_dropped_tokens for one in meters)),
        ]
        for name, what, value in counted:
            yield CounterMetricFamily(name, what, value=value())
        yield GaugeMetricFamily("regard_waiting_texts", "Texts in queues", value=sum(b.n_waiting for b in batchers))
        yield GaugeMetricFamily(
            "regard_waiting_tokens", "Source tokens in queues", value=sum(b.n_waiting_tokens for b in batchers)
        )
        yield GaugeMetricFamily("regard_live", "Engine threads move", value=float(self._service.live))
        yield GaugeMetricFamily("regard_ready", "Takes requests", value=float(self._service.ready))

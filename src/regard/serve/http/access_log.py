"""The outermost layer: a request id, security headers, a line in the log, a count in the metrics."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Collection
from itertools import count
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.http.metrics import Metrics

access = logging.getLogger("regard.access")

_SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
CSP = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
_SECURITY = [
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]
_NO_STORE = (b"cache-control", b"no-store")
_STARTED = secrets.token_hex(4)
_numbers = count(1)
LEFT = 499  # nobody is sent this: the client has closed the connection


class Front:
    """Sees every request first and every response last. Neither text nor keys nor queries reach log or metrics."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Collection[str]) -> None:
        self._app, self._metrics, self._routes = app, metrics, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = perf_counter()
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        status = LEFT

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message["headers"], *_SECURITY, (b"x-request-id", request_id.encode())]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append(_NO_STORE)
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        finally:
            seconds = perf_counter() - started_at
            route = self._route(scope)
            self._metrics.saw(route, status, seconds)
            access.info("%s %s %d %.1f ms %s", _method(scope), route, status, seconds * 1000, request_id)

    def _route(self, scope: Scope) -> str:
        """The template of the route that was taken, never another path: that is the client's own text."""
        template = str(getattr(scope.get("route"), "path", scope["path"]))
        if template.startswith("/static/"):
            template = "/static"
        return template if template in self._routes else "other"


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _SANE_ID.fullmatch(value):
            return str(value.decode())
    return f"{_STARTED}{next(_numbers):08x}"


def _method(scope: Scope) -> str:
    method = scope["method"]
    return method if method in {"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"} else "other"

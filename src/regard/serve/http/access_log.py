"""The outermost middleware: request ids, security headers, access log, request metrics."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Collection
from itertools import count
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.http.monitoring import Metrics

log = logging.getLogger("regard.access")

CSP = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
CLIENT_DISCONNECTED = 499  # logged when the client has closed the connection; never sent
_VALID_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SECURITY_HEADERS = [
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]
_UNLOGGED = frozenset({"/static", "/docs/{name}"})  # files: a visit to the page loads a hundred
_NO_STORE = (b"cache-control", b"no-store")
_ID_PREFIX = secrets.token_hex(4)  # differs between processes
_request_numbers = count(1)


class AccessLog:
    """Logs and counts every request. Texts, keys and query strings never reach the log or the metrics."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Collection[str]) -> None:
        self._app, self._metrics, self._routes = app, metrics, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = perf_counter()
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        status = CLIENT_DISCONNECTED

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message["headers"], *_SECURITY_HEADERS, (b"x-request-id", request_id.encode())]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append(_NO_STORE)
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        finally:
            seconds = perf_counter() - started_at
            route = self._route(scope)
            self._metrics.record(route, status, seconds)
            if route not in _UNLOGGED or status >= 400:
                log.info(
                    "%s %s %d %.1f ms %s", _method(scope), route, status, seconds * 1000, request_id,
                    extra={"fields": {"method": _method(scope), "route": route, "status": status,
                                      "milliseconds": round(seconds * 1000, 1), "request_id": request_id}},
                )  # fmt: skip

    def _route(self, scope: Scope) -> str:
        """The route template, or "other": an unknown path is text that the client wrote, and is not logged."""
        template = str(getattr(scope.get("route"), "path", scope["path"]))
        if template.startswith("/static/"):
            template = "/static"
        return template if template in self._routes else "other"


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _VALID_ID.fullmatch(value):
            return str(value.decode())
    return f"{_ID_PREFIX}{next(_request_numbers):08x}"


def _method(scope: Scope) -> str:
    method = scope["method"]
    return method if method in {"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"} else "other"

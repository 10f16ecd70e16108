"""`regard serve`: the HTTP API (also that of LibreTranslate) and the web page."""

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.errors import UserError

log = logging.getLogger("regard.serve")


def serve(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Run or model directories; the first is the default model.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all interfaces.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 for any free one.")] = 8000,
    keys: Annotated[
        Path | None, typer.Option(metavar="FILE", help="API keys, one per line; requests without a key get 401.")
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="Web origin that may use the API. Repeatable.")
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="Host name that a proxy forwards, to accept. Repeatable.")
    ] = None,
    wait_ms: Annotated[
        float, typer.Option(metavar="MS", min=0, max=1000, help="How long a text waits to be batched with others.")
    ] = 2.0,
    queue: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum queue length; beyond it, 429.")] = 512,
    deadline: Annotated[float, typer.Option(metavar="S", min=0.1, help="Request timeout in seconds; then 504.")] = 30.0,
    max_text: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of characters per text.")] = 10_000,
    max_texts: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of texts per request.")] = 128,
    max_body: Annotated[int, typer.Option(metavar="BYTES", min=1, help="Maximum size of a request body.")] = 1_048_576,
    grace: Annotated[float, typer.Option(metavar="S", min=0.1, help="Seconds to end requests after SIGTERM.")] = 30.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log only warnings and errors.")] = False,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="The log, on stderr: text, or a JSON object per line.")
    ] = "text",
) -> None:
    """Serve an HTTP API and a web page. Texts are never logged."""
    try:
        from regard.serve import Service, Settings, create_app, load_models, read_keys, run
        from regard.serve.http.server import bind, is_loopback
    except ModuleNotFoundError as error:
        raise UserError(
            f"{error.name} is not installed", hint="in Regard's directory, run: pip install '.[serve]'"
        ) from error

    settings = Settings(
        host=host,
        port=port,
        cors=tuple(cors or ()),
        names=tuple(name or ()),
        wait_seconds=wait_ms / 1000,
        max_waiting=queue,
        deadline_seconds=deadline,
        max_text=max_text,
        max_texts=max_texts,
        max_body=max_body,
        grace_seconds=grace,
    )
    _log_to_stderr(quiet, log_format)
    api_keys = read_keys(keys) if keys is not None else None
    server_socket = bind(settings)
    if api_keys is None and not is_loopback(host):
        log.warning("anyone who can reach %s:%d can use this service: set API keys with --keys FILE", host, port)
    service = Service(load_models([served_path(run) for run in runs]), settings, api_keys)
    names = ", ".join(name if model.ready else f"{name} (in training)" for name, model in service.models.items())
    succeeded = run(create_app(service), service, server_socket, lambda url: typer.echo(f"{names}: {url}"))
    _exit(0 if succeeded else 1)


def served_path(run: Path) -> Path:
    """A run that is training now is shown while it trains; one that was interrupted is served as it is."""
    from regard.cli.model_path import model_path
    from regard.durable import is_locked

    return run if is_locked(run) else model_path(run)


def _exit(code: int) -> None:
    """Exit at once: an engine thread that still runs could crash the interpreter during its shutdown."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _log_to_stderr(quiet: bool, log_format: str) -> None:
    from regard.serve.http.log_format import FORMATTERS

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATTERS[log_format]())
    logger = logging.getLogger("regard")
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    logger.propagate = False

"""`regard serve`: the HTTP API, LibreTranslate's too, and the page."""

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from regard.errors import UserError


def serve(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Runs, or model directories; the first is the default.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is all of them.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0: any that is free.")] = 8000,
    keys: Annotated[
        Path | None, typer.Option(metavar="FILE", help="API keys, one a line; without one of them, 401.")
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="Web origin whose pages may ask, as https://example.org.")
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="Another host name to answer to, as a proxy sends it.")
    ] = None,
    wait_ms: Annotated[
        float, typer.Option(metavar="MS", min=0, max=1000, help="How long a text waits for others to join it.")
    ] = 2.0,
    queue: Annotated[int, typer.Option(metavar="N", min=1, help="Texts that may wait; beyond that, 429.")] = 512,
    deadline: Annotated[float, typer.Option(metavar="S", min=0.1, help="Seconds for an answer; then 504.")] = 30.0,
    max_text: Annotated[int, typer.Option(metavar="N", min=1, help="Characters of one text.")] = 10_000,
    max_texts: Annotated[int, typer.Option(metavar="N", min=1, help="Texts of one request.")] = 128,
    max_body: Annotated[int, typer.Option(metavar="BYTES", min=1, help="Bytes of one request.")] = 1_048_576,
    grace: Annotated[float, typer.Option(metavar="S", min=0.1, help="Seconds to finish in, after SIGTERM.")] = 30.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No line for each request.")] = False,
) -> None:
    """Serve translations and the page. Texts are never logged."""
    try:
        from regard.serve import Service, Settings, create_app, load_models, read_keys, run
        from regard.serve.http.server import bind
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is not installed", hint="pip install 'regard[serve]'") from error

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
    _log_to_stderr(quiet)
    known = read_keys(keys) if keys is not None else None
    bound = bind(settings)
    service = Service(load_models(runs), settings, known)
    names = ", ".join(name if model.ready else f"{name} (in training)" for name, model in service.models.items())
    ended_well = run(create_app(service), service, bound, lambda url: typer.echo(f"{names}: {url}"))
    _end(0 if ended_well else 1)


def _end(code: int) -> None:
    """At once: engines have threads of their own, and one that still runs would break us while Python takes leave."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _log_to_stderr(quiet: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("regard")
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    logger.propagate = False

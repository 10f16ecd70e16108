"""The settings of a service: every limit, timeout and deadline."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Settings(BaseModel, frozen=True, extra="forbid"):
    """The defaults are safe: local requests only, no other web origins, everything bounded."""

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)  # 0: any free port
    cors: tuple[str, ...] = ()  # web origins whose pages may call the API
    names: tuple[str, ...] = ()  # host names to answer to besides localhost; see http/admission.py

    wait_seconds: float = Field(default=0.002, ge=0, le=1)  # how long a text waits for others to share its batch
    max_waiting: int = Field(default=512, ge=1)  # texts in the queue of a model; beyond that, 429
    deadline_seconds: float = Field(default=30.0, gt=0)  # from admission to response; then 504
    max_streamed: int = Field(default=32, ge=1)  # sentences of one stream that are queued or translated at a time
    max_looks: int = Field(default=8, ge=1)  # queued looks; beyond that, 429
    max_looked: int = Field(default=268_435_456, ge=1)  # bytes of looks being sent; beyond that, 429
    max_numbers: int = Field(default=20_000_000, ge=4)  # in one look as base64; a quarter of it as lists

    max_text: int = Field(default=10_000, ge=1)  # characters per text
    max_texts: int = Field(default=128, ge=1)  # texts per request
    max_lines: int = Field(default=4_096, ge=1)  # lines or sentences per LibreTranslate request
    max_beam: int = Field(default=16, ge=1)
    max_body: int = Field(default=1_048_576, ge=1)  # bytes per request body
    max_bodies: int = Field(default=67_108_864, ge=1)  # bytes of all request bodies in memory; beyond that, 429
    max_header: int = Field(default=16_384, ge=256)  # bytes of request headers
    max_connections: int = Field(default=2_000, ge=1)

    header_seconds: float = Field(default=10.0, gt=0)  # to receive all headers; then 408
    body_seconds: float = Field(default=20.0, gt=0)  # to receive the whole body; then 408
    read_seconds: float = Field(default=30.0, gt=0)  # for a client to read one part of a long response
    idle_seconds: int = Field(default=75, ge=1)  # between two requests on one connection

    stall_seconds: float = Field(default=10.0, gt=0)  # beyond the expected time of a batch, the engine counts as stuck
    notice_seconds: float = Field(default=0.5, ge=0)  # on SIGTERM: how long only readiness fails
    grace_seconds: float = Field(default=30.0, gt=0)  # on SIGTERM: then how long admitted requests may take

"""What a service allows: every limit, wait and deadline in one frozen record."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Settings(BaseModel, frozen=True, extra="forbid"):
    """Safe as it stands: this machine only, no other origin, everything bounded."""

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)  # 0: any that is free
    cors: tuple[str, ...] = ()  # origins whose pages may ask; none
    names: tuple[str, ...] = ()  # of this machine, in a request's Host, beside localhost; see guard.py

    wait_seconds: float = Field(default=0.002, ge=0, le=1)  # how long the first of a batch waits for company
    max_waiting: int = Field(default=512, ge=1)  # texts in the queue of a model; beyond that, 429
    deadline_seconds: float = Field(default=30.0, gt=0)  # from admission to answer; then 504
    max_streamed: int = Field(default=32, ge=1)  # sentences of one stream that wait or are translated at a time
    max_looks: int = Field(default=8, ge=1)  # looks that wait; beyond that, 429
    max_looked: int = Field(default=268_435_456, ge=1)  # bytes of looks that are being sent; beyond that, 429
    max_numbers: int = Field(default=20_000_000, ge=4)  # in one look, as base64; as lists a quarter

    max_text: int = Field(default=10_000, ge=1)  # characters of one text
    max_texts: int = Field(default=128, ge=1)  # texts of one request
    max_lines: int = Field(default=4_096, ge=1)  # lines or sentences of one request of a LibreTranslate client
    max_beam: int = Field(default=16, ge=1)
    max_body: int = Field(default=1_048_576, ge=1)  # bytes
    max_bodies: int = Field(default=67_108_864, ge=1)  # bytes of all bodies that are held at a time
    max_header: int = Field(default=16_384, ge=256)  # bytes of a request's head
    max_connections: int = Field(default=2_000, ge=1)

    header_seconds: float = Field(default=10.0, gt=0)  # for a whole head to arrive; then 408
    body_seconds: float = Field(default=20.0, gt=0)  # for a whole body to arrive; then 408
    read_seconds: float = Field(default=30.0, gt=0)  # for a client to take a part of a long answer; then it breaks off
    idle_seconds: int = Field(default=75, ge=1)  # between two requests on one connection

    stall_seconds: float = Field(default=10.0, gt=0)  # more than a batch should take, and the engine counts as stuck
    notice_seconds: float = Field(default=0.5, ge=0)  # asked to stop: so long only readiness has fallen
    grace_seconds: float = Field(default=30.0, gt=0)  # asked to stop: so long for what was admitted

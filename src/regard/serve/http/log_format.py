"""The log as lines of text, or as one JSON object per line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime


class TextFormatter(logging.Formatter):
    """The time and the message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s")


class JsonFormatter(logging.Formatter):
    """Time, level and message; for a request its method, route, status, milliseconds and ID instead of the message."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        content = getattr(record, "fields", None) or {"message": record.getMessage()}
        return json.dumps({"at": at, "level": record.levelname.lower(), **content}, ensure_ascii=False)


FORMATTERS = {"text": TextFormatter, "json": JsonFormatter}

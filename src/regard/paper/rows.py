"""The rows of a table: each is an ordinary run, which is resumed or skipped when the command is called again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, Protocol, TypeVar

from regard.errors import UserError
from regard.report import RunReader
from regard.run import Callbacks, merge, train
from regard.tasks import Raw


class Row(NamedTuple):
    """A model of a table."""

    name: str  # of its directory
    label: str
    settings: Raw
    short: str = ""  # for charts

    def with_values(self, values: Raw) -> Row:
        return self._replace(settings=merge(self.settings, values))


def _row(name: str, label: str, short: str, **model: Any) -> Row:
    return Row(name, label, {"model": {"preset": "tiny", **model}}, short)


# Table 2 of the paper names them as its rivals, or their kind
ARCHITECTURE_ROWS = (
    _row("lstm", "LSTM, no attention", "LSTM", architecture="lstm", attention="none"),
    _row("lstm-attention", "LSTM, additive attention", "LSTM + att.", architecture="lstm"),
    _row("gru-attention", "GRU, additive attention", "GRU + att.", architecture="gru"),
    _row("convs2s", "ConvS2S", "ConvS2S", architecture="convs2s"),
    _row("bytenet", "ByteNet", "ByteNet", architecture="bytenet"),
    _row("neural-gpu", "Extended Neural GPU", "Neural GPU", architecture="neural-gpu"),
    _row("transformer", "Transformer", "Transformer", architecture="transformer"),
)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_R = TypeVar("_R", bound=_Named)


def choose(rows: Sequence[_R], only: Sequence[str]) -> list[_R]:
    """The rows of these names, or all if there are none."""
    unknown = set(only) - {row.name for row in rows}
    if unknown:
        names = ", ".join(row.name for row in rows)
        raise UserError(f"there is no row {sorted(unknown)[0]!r}", hint=f"the rows are {names}")
    return [row for row in rows if not only or row.name in only]


class Trainer(NamedTuple):
    """Trains rows on one text, with the values that they share, and tells how much of the table is left."""

    out: Path
    shared: Raw
    callbacks: Callbacks

    def with_values(self, *values: Raw) -> Trainer:
        return self._replace(shared=merge(self.shared, *values))

    def train(self, rows: Sequence[Row], done: int = 0, to_come: int = 0) -> dict[str, Path]:
        """The runs by the names of their rows. Other calls train the rows before them and those to come."""
        runs = {row.name: self.out / row.name for row in rows}
        unfinished = [row for row in rows if not (runs[row.name] / "model" / "config.json").exists()]
        for number, row in enumerate(rows, start=1):
            durations = [seconds for path in runs.values() if (seconds := _seconds(path)) is not None]
            self.callbacks.on_event(
                "row",
                label=row.label,
                number=done + number,
                n_rows=done + len(rows) + to_come,
                n_after=sum(other in unfinished for other in rows[number:]) + to_come,
                seconds_each=fmean(durations) if durations else None,
            )
            train(merge(self.shared, row.settings), runs[row.name], fill_defaults=True, callbacks=self.callbacks)
        return runs


def _seconds(run: Path) -> float | None:
    """How long a finished run took."""
    if not (run / "model" / "config.json").exists():
        return None
    return RunReader(run).read().speed.get("elapsed_seconds")

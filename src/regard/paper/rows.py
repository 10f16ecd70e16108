"""The rows of a table: each is an ordinary run, which is resumed or skipped when the command is called again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from regard.errors import UserError
from regard.report import RunReader
from regard.run import Callbacks, merge, train
from regard.tasks import Raw


class Row(NamedTuple):
    """A model of a table."""

    name: str  # of its directory
    label: str
    settings: Raw

    def with_values(self, values: Raw) -> Row:
        return self._replace(settings=merge(self.settings, values))


def architecture(name: str, label: str, **model: Any) -> Row:
    """A row that is an architecture, in the size `tiny` unless another one is given."""
    return Row(name, label, {"model": {"preset": "tiny", **model}})


# Table 2 of the paper names them as its rivals, or their kind
ARCHITECTURE_ROWS = (
    architecture("lstm", "LSTM, no attention", architecture="lstm", attention="none"),
    architecture("lstm-attention", "LSTM, additive attention", architecture="lstm"),
    architecture("gru-attention", "GRU, additive attention", architecture="gru"),
    architecture("convs2s", "ConvS2S", architecture="convs2s"),
    architecture("bytenet", "ByteNet", architecture="bytenet"),
    architecture("neural-gpu", "Extended Neural GPU", architecture="neural-gpu"),
    architecture("transformer", "Transformer", architecture="transformer"),
)


def choose(rows: Sequence[Row], only: Sequence[str]) -> list[Row]:
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

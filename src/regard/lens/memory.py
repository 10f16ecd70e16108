"""The memory of a model over time: how much is in each of its columns after every step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.lens.look import Look

_EMPTY = "·"  # the label of a column that no symbol belongs to


class MemoryMap(NamedTuple):
    """The lengths of the vectors in one row of cells."""

    title: str
    values: NDArray[np.float32]  # (T, N): over time, by column
    rows: list[str]  # numbers of the steps, or the symbols that they wrote
    columns: list[str]


def memory_maps(look: Look) -> list[MemoryMap]:
    """One map per row of every memory that was recorded over time; none for most models."""
    found = [s for s in look.sites if s.kind == "memory" and s.axes[1:] == ("column", "row", "unit")]
    maps = []
    for site in found:
        lengths = look.trace[site.path][0].float().norm(dim=-1).numpy()  # (T, N, R)
        symbols = (look.target.outputs if site.axes[0] == "target" else look.source).labels("pieces")
        n_times, n_columns, n_rows = lengths.shape
        columns = [*symbols, *[_EMPTY] * n_columns][:n_columns]
        rows = symbols if site.axes[0] == "target" else [str(step) for step in range(n_times)]
        for row in range(n_rows):
            title = site.path if n_rows == 1 else f"{site.path} · row {row + 1}"
            maps.append(MemoryMap(title, lengths[:, :, row], rows, columns))
    return maps

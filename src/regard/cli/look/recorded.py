"""What a model recorded, as text: for models without attention, and for tasks other than translation."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from regard.cli.evaluate import escape_controls, write_text
from regard.cli.look.options import Outputs
from regard.tasks.predictors import task_of

if TYPE_CHECKING:
    from regard.artifact import Description
    from regard.lens.look import Look
    from regard.nn import Trace

_BARS = "▁▂▃▄▅▆▇█"
_N_ALTERNATIVES, _MIN_PROBABILITY = 3, 0.01

Row = tuple[str | Text, ...]


def look_at_example(described: "Description", value: str, outputs: Outputs) -> None:
    """A look at one input of any task: what the model predicts, and what it recorded."""
    task = task_of(described)
    look = task.look(described, Path(value) if task.reads_files else value)
    if outputs.json is not None:
        outputs.write_json(look.to_dict())
    if outputs.png is not None or outputs.svg is not None:
        outputs.draw(look.picture())
    if outputs.html is not None:
        from regard.lens.site_page import site_page

        write_text(outputs.html, site_page(look, value))
    if not outputs.any:
        console = Console(highlight=False, soft_wrap=True)
        for name, predicted in look.shown_prediction():
            console.print(Text(escape_controls(f"{name}: {predicted}")))
        if table := look.table():
            print_columns(console, [tuple(Text(escape_controls(cell)) for cell in row) for row in table], {1, 3})
        print_columns(console, list(recorded_rows(look.trace)), right_aligned=set())


def alternative_rows(look: "Look") -> Iterator[Row]:
    """Each sub-word of the translation, its probability, and the most probable others."""
    yield ("piece", "probability", "instead of")
    for step in look.steps:
        others = [other for other in step.top if other.id != step.chosen.id and other.probability >= _MIN_PROBABILITY]
        named = ", ".join(f"{other.text} {other.probability:.1%}" for other in others[:_N_ALTERNATIVES])
        yield (Text(escape_controls(step.chosen.text)), f"{step.chosen.probability:.1%}", Text(escape_controls(named)))


def recorded_rows(trace: "Trace") -> Iterator[Row]:
    """Path, kind and size of everything recorded; for vectors also their norms, position by position."""
    yield ("recorded", "kind", "size", "norm by position")
    for site in trace.sites():
        size = " × ".join(f"{axis} {n}" for axis, n in zip(site.axes, site.shape, strict=True))
        bars = ""
        if len(site.axes) == 2 and site.axes[1] == "unit":
            norms = trace[site.path][0].float().norm(dim=-1)
            bars = "".join(map(_bar, (norms / norms.max().clamp(min=1e-30)).tolist()))
        yield (Text(site.path), site.kind, size, bars)


def state_tables(look: "Look") -> Iterator[list[Row]]:
    """One table per recurrent layer, one line per sub-word: the length of the state, and the mean of every gate."""
    pieces = {"source": look.source, "target": look.target.inputs}
    for module, group in groupby(look.recurrent_sites, key=lambda site: site.module):
        sites = list(group)
        columns = []
        for site in sites:
            values = look.trace[site.path][0].float()
            numbers = values.norm(dim=-1) if site.kind == "state" else values.mean(-1)
            shares = numbers / numbers.max().clamp(min=1e-30) if site.kind == "state" else numbers
            columns.append([f"{_bar(s)} {n:.2f}" for n, s in zip(numbers.tolist(), shares.tolist(), strict=True)])
        names = [f"{site.name}, {'norm' if site.kind == 'state' else 'mean'}" for site in sites]
        labels = [Text(escape_controls(text)) for text in pieces[sites[0].axes[0]].labels("pieces")]
        yield [(module, *names), *zip(labels, *columns, strict=True)]


def memory_tables(look: "Look") -> Iterator[list[Row]]:
    """One table per memory over time, one line per step: the lengths of the vectors in its columns."""
    from regard.lens.memory import memory_maps

    for memory in memory_maps(look):
        shares = memory.values / max(float(memory.values.max()), 1e-30)
        bars = ["".join(map(_bar, row)) for row in shares.tolist()]
        labels = [Text(escape_controls(text)) for text in memory.rows]
        yield [(memory.title, "norm by column"), *zip(labels, bars, strict=True)]


def _bar(share: float) -> str:
    return _BARS[round(share * (len(_BARS) - 1))]


def print_columns(console: Console, rows: Sequence[Row], right_aligned: set[int]) -> None:
    """Columns that are never cut, measured in terminal cells: a Chinese character takes two."""
    console.print()
    widths = [max(cell_len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        line = Text(style="dim" if number == 0 else "")
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - cell_len(str(cell)))
            line.append(space if column in right_aligned else "")
            line.append(cell)
            line.append(("" if column in right_aligned else space) + "  ")
        line.rstrip()
        console.print(line)

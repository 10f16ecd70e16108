"""`regard check`: is this corpus fit for a training?"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from regard.text.doctor.examine import Progress
    from regard.text.doctor.findings import CorpusReport

_WORTH_A_BAR_BYTES = 4_000_000
_MARKS = {"spoils": ("red", "spoils "), "warning": ("yellow", "warning"), "note": ("dim", "note   ")}

_MEASURES = {"mean": "mean", "median": "median", "p95": "95% are within", "max": "longest"}


def check(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="Source sentences, one a line; or a TSV, alone.")],
    target: Annotated[Path | None, typer.Argument(metavar="TGT", help="Their translations, line by line.")] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="TEST[,TEST…]", help="Test files whose lines should not be in the corpus."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON, and nothing else.")] = False,
) -> None:
    """Examine a parallel corpus: counts, lengths, blanks, odd characters, duplicates, leaks, slipped alignment.

    Exit code 1 when something would spoil a training.
    """
    from regard.text.corpus import Corpus
    from regard.text.doctor.examine import examine

    corpus = Corpus(tsv=source) if target is None else Corpus(source=source, target=target)
    tests = [Path(name) for names in against or [] for name in names.split(",") if name]
    with _progress(corpus.files) as progress:
        report = examine(corpus, against=tests, progress=progress)
    if as_json:
        sys.stdout.write(json.dumps(report.to_dict(), ensure_ascii=False, indent=2) + "\n")
    else:
        _show(report)
    if report.has_errors:
        raise typer.Exit(1)


@contextmanager
def _progress(files: tuple[Path, ...]) -> Iterator["Progress | None"]:
    """A bar on stderr, where somebody sees it and the files are large enough to wait for."""
    n_bytes = sum(path.stat().st_size for path in files if path.is_file())
    if not sys.stderr.isatty() or n_bytes < _WORTH_A_BAR_BYTES:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("reading"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(report: "CorpusReport") -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    _show_sides(console, report)
    for finding in report.findings:
        colour, mark = _MARKS[finding.severity]
        where = f"  (line {', '.join(map(str, finding.lines))})" if finding.lines else ""
        console.print(f"[{colour}]{mark}[/]  ", end="")
        console.print(finding.message + where, markup=False)
        console.print(f"         → {finding.advice}", style="dim", markup=False)
    n_spoiling = sum(finding.severity == "spoils" for finding in report.findings)
    if n_spoiling:
        console.print(f"\n[red]Not fit for training yet:[/] {n_spoiling} of these would spoil it.")
    else:
        console.print("\n[green]Fit for training.[/]")


def _show_sides(console: "Console", report: "CorpusReport") -> None:
    from rich.table import Table

    sides = (report.source, report.target)
    for label, side in zip(("source", "target"), sides, strict=True):
        console.print(f"{label}  {side.name}", markup=False)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(f"{report.n_pairs:,} pairs")
    for label in ("source", "target"):
        table.add_column(label, justify="right")
    table.add_row("lines", *(f"{side.n_lines:,}" for side in sides))
    table.add_row("blank", *(f"{side.n_blank:,}" for side in sides))
    for unit in ("words", "characters"):
        for measure in ("mean", "median", "p95", "max"):
            values = (getattr(getattr(side, unit), measure) for side in sides)
            table.add_row(f"{unit}, {_MEASURES[measure]}", *(f"{value:,}" for value in values))
    console.print()
    console.print(table)
    console.print()

"""`regard check`: examine a parallel corpus before training."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import RecipeError

if TYPE_CHECKING:
    from rich.console import Console

    from regard.text.corpus import Corpus
    from regard.text.doctor.clean import Cleaned
    from regard.text.doctor.examine import ProgressCallback
    from regard.text.doctor.findings import CorpusReport

_MIN_BYTES_FOR_PROGRESS_BAR = 4_000_000
_LABELS = {"spoils": ("red", "error  "), "warning": ("yellow", "warning"), "note": ("dim", "note   ")}

_STATISTICS = {"mean": "mean", "median": "median", "p95": "95th percentile", "max": "maximum"}


def check(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="Source sentences, one per line; or a TSV file.")],
    target: Annotated[Path | None, typer.Argument(metavar="TGT", help="Their translations, on the same lines.")] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="TEST[,TEST…]", help="Test files: report their lines that are also in the corpus."),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="SRC,TGT", help="Another corpus: report the pairs that are in both. Or TSV; repeatable."),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the corpus without bad pairs, and those with the reasons, into DIR."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check parallel text for problems. Finds wrong encodings, blank and repeated lines, and lines that do not match.

    The exit code is 1 if there is an error that would harm training.
    """
    from regard.text.corpus import Corpus
    from regard.text.doctor.clean import write_clean
    from regard.text.doctor.examine import EarlierPairs, read_corpus

    corpus = Corpus(tsv=source) if target is None else Corpus(source=source, target=target)
    tests = [Path(name) for names in against or [] for name in names.split(",") if name]
    earlier = EarlierPairs()
    for other in [_corpus(names) for names in also or []]:
        with _progress(other.files) as progress:
            read_corpus(other, earlier=earlier, progress=progress)
    with _progress(corpus.files) as progress:
        examination = read_corpus(corpus, against=tests, earlier=earlier, progress=progress)
    examination.judge_pairs()
    report = examination.report()
    if as_json:
        sys.stdout.write(json.dumps(report.to_dict(), ensure_ascii=False, indent=2) + "\n")
    else:
        _show(report)
    if write is not None:
        _show_cleaned(write_clean(examination, report, write))
    if report.has_errors:
        raise typer.Exit(1)


def _corpus(names: str) -> "Corpus":
    """`SRC,TGT` or a TSV file."""
    from regard.text.corpus import Corpus

    paths = [Path(name) for name in names.split(",")]
    if len(paths) > 2:
        raise RecipeError(f"--also {names}: more than two files", hint="give SRC,TGT or one TSV file")
    return Corpus(tsv=paths[0]) if len(paths) == 1 else Corpus(source=paths[0], target=paths[1])


def _show_cleaned(cleaned: "Cleaned") -> None:
    files = " and ".join(str(path) for path in cleaned.files[:-1])
    sys.stderr.write(f"wrote {cleaned.n_kept:,} pairs to {files}\n")
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in cleaned.reasons.most_common())
    sys.stderr.write(
        f"rejected {cleaned.reasons.total():,}, listed in {cleaned.files[-1]}{': ' * bool(reasons)}{reasons}\n"
    )


@contextmanager
def _progress(files: tuple[Path, ...]) -> Iterator["ProgressCallback | None"]:
    """A progress bar on stderr, for large files and on a terminal only."""
    n_bytes = sum(path.stat().st_size for path in files if path.is_file())
    if not sys.stderr.isatty() or n_bytes < _MIN_BYTES_FOR_PROGRESS_BAR:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda n_done, total: bar.update(task, completed=n_done, total=total)


def _show(report: "CorpusReport") -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    _show_sides(console, report)
    for finding in report.findings:
        colour, label = _LABELS[finding.severity]
        noun = "line" if len(finding.lines) == 1 else "lines"
        places = f"  ({noun} {', '.join(map(str, finding.lines))})" if finding.lines else ""
        console.print(f"[{colour}]{label}[/]  ", end="")
        console.print(finding.message + places, markup=False)
        console.print(f"         → {finding.advice}", style="dim", markup=False)
    n_errors = sum(finding.severity == "spoils" for finding in report.findings)
    if n_errors:
        which = "the error" if n_errors == 1 else f"the {n_errors} errors"
        console.print(f"\n[red]Not ready for training:[/] fix {which} first.")
    else:
        console.print("\n[green]Ready for training.[/]")


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
        for name, label in _STATISTICS.items():
            values = (getattr(getattr(side, unit), name) for side in sides)
            table.add_row(f"{unit}, {label}", *(f"{value:,}" for value in values))
    console.print()
    console.print(table)
    console.print()

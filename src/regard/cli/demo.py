"""`regard demo`: a Transformer trained from nothing in about a minute."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the run is kept.")] = Path("runs/demo"),
) -> None:
    """Train a Transformer from nothing, in about a minute, to read digits backwards."""
    from regard.cli.display import TrainingDisplay
    from regard.demo.first_run import first_run

    with TrainingDisplay(sys.stderr) as display:
        shown = first_run(out, display)
    for line in shown:
        typer.echo(line)

"""`regard demo`: a Transformer trained from nothing in about a minute, and what it learned."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import TrainingStopped

if TYPE_CHECKING:
    from regard.demo.first_run import FirstRun


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the run is kept.")] = Path("runs/demo"),
    again: Annotated[bool, typer.Option("--again", help="Train again, even if it was done before.")] = False,
) -> None:
    """Train a Transformer from nothing, in about a minute, and see it choose what "it" stands for."""
    from regard.cli.display import TrainingDisplay
    from regard.demo.first_run import first_run

    with TrainingDisplay(sys.stderr) as display:
        try:
            shown = first_run(out, display, again=again)
        except TrainingStopped as stopped:
            display.say(f"stopped after step {stopped.step}, and saved; the same command goes on from there")
            raise typer.Exit(128 + stopped.signal_number) from stopped
    for line in _story(shown, out):
        typer.echo(line)


def _story(shown: "FirstRun", out: Path) -> list[str]:
    test, unseen = shown.test, shown.unseen
    lines = [""]
    for source, translation in shown.examples:
        lines += [f"  {source}", f"  {translation}", ""]
    return [
        *lines,
        f"Sentences it had never seen: {test.exact:.1%} exactly right, {test.pronouns:.1%} of the pronouns.",
        f"Nouns never seen together:   {unseen.exact:.1%} exactly right, {unseen.pronouns:.1%} of the pronouns.",
        f'Try it:     echo "The dog did not eat the cake because it was too old." | regard translate {out}',
        "Your own:   regard train --source YOUR.en --target YOUR.de --out runs/mine --budget 20m",
    ]

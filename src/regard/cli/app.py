"""The verbs."""

from typing import Annotated

import typer

from regard import __version__
from regard.cli.check import check
from regard.cli.compare import compare
from regard.cli.demo import demo
from regard.cli.evaluate import evaluate
from regard.cli.look.command import look
from regard.cli.serve import serve
from regard.cli.train import train
from regard.cli.translate.command import translate

app = typer.Typer(
    name="regard",
    help="Two text files in, a translator out: the Transformer of the paper, trained on your own machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def _all(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Two text files in, a translator out: the Transformer of the paper, trained on your own machine."""


app.command()(demo)
app.command()(check)
app.command()(train)
app.command()(translate)
app.command()(evaluate)
app.command()(compare)
app.command()(look)
app.command()(serve)

"""The `regard` command and its subcommands."""

from typing import Annotated

import typer

from regard import __version__
from regard.cli.check import check
from regard.cli.compare import compare
from regard.cli.demo import demo
from regard.cli.encode import encode
from regard.cli.evaluate import evaluate
from regard.cli.export import export
from regard.cli.import_model import import_model
from regard.cli.look.command import look
from regard.cli.paper import paper
from regard.cli.plan import plan
from regard.cli.predict import predict
from regard.cli.serve import serve
from regard.cli.train import train
from regard.cli.translate.command import translate

app = typer.Typer(
    name="regard",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train a Transformer on your own parallel text, translate with it, and look inside."""


for command in (demo, check, encode, plan, train, translate, predict, evaluate, compare, look, serve):
    app.command()(command)
app.command("import")(import_model)
app.command()(export)
app.add_typer(paper, name="paper")

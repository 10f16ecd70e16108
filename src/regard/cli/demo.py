"""`regard demo`: a Transformer trained from nothing in about a minute, what it learned, and the page to look inside."""

import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import TrainingStopped

if TYPE_CHECKING:
    from regard.demo.first_run import Example, FirstRun


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the run is kept.")] = Path("runs/demo"),
    again: Annotated[bool, typer.Option("--again", help="Train again, even if it was done before.")] = False,
    serve: Annotated[bool, typer.Option("--serve/--no-serve", help="Open the page at the end, or do not.")] = True,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Of the page; 0: any that is free.")] = 8000,
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
    if serve:
        _open_page(out, port)


def _story(shown: "FirstRun", out: Path) -> list[str]:
    test, unseen, head = shown.test, shown.unseen, shown.head
    lines = [""]
    for example in shown.examples:
        lines += [f"  {example.source}", f"  {example.translation}", f"  {_looked(shown, example)}", ""]
    return [
        *lines,
        f"Sentences it had never seen: {test.exact:.1%} exactly right, {test.pronouns:.1%} of the pronouns.",
        f"Nouns never seen together:   {unseen.exact:.1%} exactly right, {unseen.pronouns:.1%} of the pronouns.",
        f"That head looks at the right noun in {head.right:.0%} of {head.n_sentences} sentences, at the other in "
        f"{head.wrong:.0%}; of all heads, no other finds it better.",
        "Your own:    regard train --source YOUR.en --target YOUR.de --out runs/mine --budget 20m",
        f'Translate:   echo "The dog did not eat the pear because it was too sour." | regard translate {out}',
        f'Look inside: regard look {out} "{shown.examples[0].source}" --html look.html',
    ]


def _looked(shown: "FirstRun", example: "Example") -> str:
    """Which words the head that finds the noun looks at."""
    place = shown.head.place
    where = "it, in the encoder's" if place.attention == "encoder" else "the pronoun, in the decoder's"
    seen = ", ".join(f"{word} {weight:.2f}" for word, weight in example.looked_at.items())
    return f"({where} layer {place.layer + 1}, head {place.head + 1}, looks at: {seen})"


def _open_page(out: Path, port: int) -> None:
    """Serve the page until Ctrl-C, if the service is installed; on another port when somebody else has this one."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        typer.echo(f"The page:    pip install 'regard[serve]', then: regard serve {out}")
        return
    from regard.cli.serve import serve

    typer.echo("\nThe page, until you press Ctrl-C:")
    serve([out], port=port if _is_free(port) else 0, quiet=True)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

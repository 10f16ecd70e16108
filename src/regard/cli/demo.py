"""`regard demo`: train a small Transformer in about a minute, show what it learned, and serve the web page."""

import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from regard.demo.first_run import DemoExample, DemoResult


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Run directory.")] = Path("runs/demo"),
    again: Annotated[bool, typer.Option("--again", help="Remove an earlier demo and train again.")] = False,
    serve: Annotated[bool, typer.Option("--serve/--no-serve", help="Serve the web page until Ctrl-C.")] = True,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 for any free one.")] = 8000,
) -> None:
    """Train a demo model in about a minute. It shows how attention resolves the pronoun "it"."""
    from regard.cli.display import TrainingDisplay
    from regard.demo.first_run import first_run

    with TrainingDisplay(sys.stderr) as display:
        results = first_run(out, display, again=again)
    for line in _summary(results, out):
        typer.echo(line)
    if serve:
        _open_page(out, port)


def _summary(results: "DemoResult", out: Path) -> list[str]:
    test, unseen, head = results.test, results.unseen, results.head
    lines = [""]
    for example in results.examples:
        lines += [f"  {example.source}", f"  {example.translation}", f"  {_attention(results, example)}", ""]
    return [
        *lines,
        f"Unseen sentences:   {test.exact:.1%} exactly right, {test.pronouns:.1%} of pronouns right.",
        f"Unseen noun pairs:  {unseen.exact:.1%} exactly right, {unseen.pronouns:.1%} of pronouns right.",
        f"This head attends most to the correct noun in {head.right:.0%} of {head.n_sentences} sentences, to the other "
        f"noun in {head.wrong:.0%}: the best of all heads.",
        "Your own text: regard train --source YOUR.en --target YOUR.de --out runs/mine --budget 20m",
        f'Translate:     echo "The dog did not eat the pear because it was too sour." | regard translate {out}',
        f'Look inside:   regard look {out} "{results.examples[0].source}" --html look.html',
    ]


def _attention(results: "DemoResult", example: "DemoExample") -> str:
    """The words that the pronoun attends to, in the head that finds its noun."""
    place = results.head.place
    kind, query = ("encoder", '"it"') if place.attention == "encoder" else ("decoder", "the pronoun")
    weights = ", ".join(f"{word} {weight:.2f}" for word, weight in example.looked_at.items())
    return f"({kind} layer {place.layer + 1}, head {place.head + 1}: {query} attends to {weights})"


def _open_page(out: Path, port: int) -> None:
    """Serve the page until Ctrl-C, if the dependencies are installed; on a free port if this one is taken."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        typer.echo(f"Web page:      in Regard's directory, run: pip install '.[serve]'; then: regard serve {out}")
        return
    from regard.cli.serve import serve

    typer.echo("\nServing the web page until you press Ctrl-C:")
    serve([out], port=port if _is_free(port) else 0, quiet=True)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

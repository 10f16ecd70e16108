"""The options of `regard look`, and the files it writes."""

import json
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.evaluate import Target as Target
from regard.cli.evaluate import check_destination, write_text
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.lens.plots.canvas import Picture

_FILES, _SELECTION = "Output files", "Which heads to show"
_INTERVENTIONS, _CORPUS = "Interventions: change the model and compare", "All heads over a corpus"

AttentionName = Literal["encoder", "decoder", "cross"]
LevelName = Literal["words", "pieces"]
ShowName = Literal["attention", "scores", "states", "dependence", "reach"]
PositionsName = Literal["normal", "shuffled", "none"]
Run = Annotated[Path | None, typer.Argument(metavar="RUN", help="A run directory or model directory.")]
Text = Annotated[str | None, typer.Argument(metavar="TEXT", help="The sentence to translate.")]
Translation = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Inspect this translation instead of the model's own.")
]
Beam = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, max=100, help="Beam size (default: 4); 1 is greedy."),
]
Png = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw a picture (PNG).", rich_help_panel=_FILES)]
Svg = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw a picture (SVG).", rich_help_panel=_FILES)]
Html = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write an interactive tour of the model, in one file.", rich_help_panel=_FILES),
]
Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="All values, counted from 0; - prints them.", rich_help_panel=_FILES),
]
Attention = Annotated[
    AttentionName | None,
    typer.Option(help="Kind of attention (default: cross in the terminal, else encoder).", rich_help_panel=_SELECTION),
]
Layer = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Show one head: its layer.", rich_help_panel=_SELECTION)
]
HeadNumber = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Show one head: its number.", rich_help_panel=_SELECTION)
]
Level = Annotated[LevelName, typer.Option(help="Show words, or sub-words (pieces).", rich_help_panel=_SELECTION)]
HeadsOff = Annotated[
    str | None,
    typer.Option(
        metavar="HEAD,…", help="Ablate heads: encoder.1.4 is layer 1, head 4.", rich_help_panel=_INTERVENTIONS
    ),
]
NoScale = Annotated[bool, typer.Option("--no-scale", help="Do not divide by √d_k.", rich_help_panel=_INTERVENTIONS)]
NoMask = Annotated[
    bool, typer.Option("--no-mask", help="Let the decoder see later positions.", rich_help_panel=_INTERVENTIONS)
]
PositionsAs = Annotated[
    PositionsName, typer.Option(help="Keep, shuffle or remove the positional encoding.", rich_help_panel=_INTERVENTIONS)
]
Show = Annotated[
    ShowName,
    typer.Option(
        help="attention: its weights; scores: before the softmax; states: states and gates over time; dependence: what "
        "each word depends on, by gradients and by leaving words out, beside attention; reach: how far each layer sees."
    ),
]
Heads = Annotated[bool, typer.Option("--heads", help="Measure each head over a corpus.", rich_help_panel=_CORPUS)]
Source = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Source sentences, for --heads.", rich_help_panel=_CORPUS)
]
Reference = Annotated[Path | None, typer.Option(metavar="FILE", help="Their translations.", rich_help_panel=_CORPUS)]
Bleu = Annotated[bool, typer.Option("--bleu", help="Also BLEU without each head (slow).", rich_help_panel=_CORPUS)]
Positions = Annotated[bool, typer.Option("--positions", help="Draw the positional encoding of RUN, or the paper's.")]


@dataclass(frozen=True)
class Outputs:
    """The files to write."""

    png: Path | None
    svg: Path | None
    html: Path | None
    json: Path | None

    def check(self, inputs: Sequence[Path | None]) -> None:
        for path in (self.png, self.svg, self.html, None if self.to_stdout else self.json):
            check_destination(path, inputs)

    @property
    def any(self) -> bool:
        return any((self.png, self.svg, self.html, self.json))

    @property
    def only_json(self) -> bool:
        return self.json is not None and not any((self.png, self.svg, self.html))

    @property
    def to_stdout(self) -> bool:
        return self.json == Path("-")

    def draw(self, picture: "Picture") -> None:
        """Writes the PNG, the SVG or both, and prints the picture's warnings once."""
        for warning in picture.warnings:
            sys.stderr.write(f"warning: {warning}\n")
        for file_format, path in (("png", self.png), ("svg", self.svg)):
            if path is not None:
                picture.save(path, "png" if file_format == "png" else "svg")
                sys.stderr.write(f"wrote {path}\n")

    def write_json(self, record: Mapping[str, Any]) -> None:
        text = json.dumps(record, ensure_ascii=False) + "\n"
        if self.to_stdout:
            sys.stdout.write(text)
        elif self.json is not None:
            write_text(self.json, text)


@dataclass(frozen=True)
class HeadSelection:
    """The heads to show, counted from 1."""

    attention: AttentionName | None = None
    layer: int | None = None
    head: int | None = None
    level: LevelName = "words"

    def __bool__(self) -> bool:
        """Whether anything is selected."""
        return self != HeadSelection()


def reject(context: typer.Context, mode: str, ignored: Set[str]) -> None:
    """Raise UserError if an option is given that this mode would ignore."""
    for parameter in context.command.params:
        name, flag = parameter.name or "", parameter.opts[0]
        if name in ignored and context.params[name] != parameter.default:
            flag = flag if flag.startswith("--") else flag.upper()  # arguments are in capitals
            raise UserError(f"{flag} cannot be used with {mode}", hint="drop one of them; regard look --help")

"""What `regard look` can be asked for: its options, and the files it writes."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.evaluate import Target as Target
from regard.cli.evaluate import check_destination
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.lens.plots.canvas import Picture

_WRITE, _WHICH, _CHANGE, _CORPUS = (
    "What to write",
    "Which heads",
    "Change the model, and see",
    "All heads over a corpus",
)

AttentionName = Literal["encoder", "decoder", "cross"]
LevelName = Literal["words", "pieces"]
PositionsName = Literal["normal", "shuffled", "none"]
Run = Annotated[Path | None, typer.Argument(metavar="RUN", help="A run, or a model directory.")]
Text = Annotated[str | None, typer.Argument(metavar="TEXT", help="A sentence to translate.")]
Translation = Annotated[str | None, typer.Option(metavar="TEXT", help="Look at this translation, not the model's own.")]
Beam = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, max=100, help="Hypotheses kept a step (default: 4); 1 is greedy."),
]
Png = Annotated[Path | None, typer.Option(metavar="FILE", help="A picture.", rich_help_panel=_WRITE)]
Svg = Annotated[Path | None, typer.Option(metavar="FILE", help="A picture for print.", rich_help_panel=_WRITE)]
Html = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A walk through the model: one file, no server.", rich_help_panel=_WRITE),
]
Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Every number, counted from 0. - prints it.", rich_help_panel=_WRITE),
]
Attention = Annotated[
    AttentionName | None,
    typer.Option(help="Which of the three (default: encoder; as text, without --head, cross).", rich_help_panel=_WHICH),
]
Layer = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="From 1; with --head: one, large.", rich_help_panel=_WHICH)
]
HeadNumber = Annotated[int | None, typer.Option(metavar="N", min=1, help="From 1.", rich_help_panel=_WHICH)]
Level = Annotated[LevelName, typer.Option(help="By words, or by their pieces.", rich_help_panel=_WHICH)]
HeadsOff = Annotated[
    str | None,
    typer.Option(metavar="HEAD,…", help="Silence them: encoder.1.4 is layer 1, head 4.", rich_help_panel=_CHANGE),
]
NoScale = Annotated[bool, typer.Option("--no-scale", help="Leave out ÷ √d_k.", rich_help_panel=_CHANGE)]
NoMask = Annotated[bool, typer.Option("--no-mask", help="Let the decoder see the future.", rich_help_panel=_CHANGE)]
PositionsAs = Annotated[
    PositionsName,
    typer.Option(help="What the model is told about the order of words.", rich_help_panel=_CHANGE),
]
Heads = Annotated[
    bool, typer.Option("--heads", help="Where each looks, and what is lost without it.", rich_help_panel=_CORPUS)
]
Source = Annotated[Path | None, typer.Option(metavar="FILE", help="Sentences, for --heads.", rich_help_panel=_CORPUS)]
Reference = Annotated[Path | None, typer.Option(metavar="FILE", help="Its translations.", rich_help_panel=_CORPUS)]
Bleu = Annotated[bool, typer.Option("--bleu", help="Also translate without each head: slow.", rich_help_panel=_CORPUS)]
Positions = Annotated[bool, typer.Option("--positions", help="Draw the positional encoding: the paper's, or RUN's.")]


@dataclass(frozen=True)
class Outputs:
    """What is to be written where."""

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
        """In one form or in both; characters that no font has are said once."""
        for remark in picture.remarks:
            sys.stderr.write(f"warning: {remark}\n")
        for form, path in (("png", self.png), ("svg", self.svg)):
            if path is not None:
                picture.save(path, "png" if form == "png" else "svg")
                sys.stderr.write(f"wrote {path}\n")

    def dump(self, record: Mapping[str, Any]) -> None:
        text = json.dumps(record, ensure_ascii=False) + "\n"
        if self.to_stdout:
            sys.stdout.write(text)
        elif self.json is not None:
            write_text(self.json, text)


@dataclass(frozen=True)
class Which:
    """Which heads are shown; counted from 1."""

    attention: AttentionName | None
    layer: int | None
    head: int | None
    level: LevelName

    @property
    def given(self) -> dict[str, object]:
        level = None if self.level == "words" else self.level
        return {"attention": self.attention, "layer": self.layer, "head": self.head, "level": level}


@dataclass(frozen=True)
class Altering:
    """What is to be done to the model."""

    heads_off: str | None
    no_scale: bool
    no_mask: bool
    positions_as: PositionsName

    @property
    def given(self) -> dict[str, object]:
        positions = None if self.positions_as == "normal" else self.positions_as
        return {
            "heads-off": self.heads_off,
            "no-scale": self.no_scale,
            "no-mask": self.no_mask,
            "positions-as": positions,
        }


def write_text(path: Path, text: str) -> None:
    from regard.durable import write_file

    write_file(path, text.encode("utf-8", "replace"))
    sys.stderr.write(f"wrote {path}\n")


def refuse(mode: str, options: Mapping[str, object]) -> None:
    """Say so when an option has no meaning here, in place of passing over it. Arguments are in capitals."""
    for name, value in options.items():
        if value not in (None, False):
            written = name if name.isupper() else f"--{name}"
            raise UserError(f"{written} has no meaning with {mode}", hint="leave one of them out; regard look --help")

"""`regard paper`: the story and the tables of the paper, measured on a text."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.paper.document import Document
    from regard.paper.rows import Trainer
    from regard.paper.texts import PaperText
    from regard.run import Raw

paper = typer.Typer(no_args_is_help=True, help="Measure the story and the tables of the paper on your own text.")

Out = Annotated[Path, typer.Option(metavar="DIR", help="Directory of the runs and results; finished rows are skipped.")]
Source = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Source sentences, one per line (default: the street corpus).")
]
Target = Annotated[Path | None, typer.Option(metavar="FILE", help="Their translations, on the same lines.")]
ValidSource = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Validation source sentences (default: hold out some pairs).")
]
ValidTarget = Annotated[Path | None, typer.Option(metavar="FILE", help="Their translations.")]
TestSource = Annotated[Path | None, typer.Option(metavar="FILE", help="Test sentences (default: the validation set).")]
TestTarget = Annotated[Path | None, typer.Option(metavar="FILE", help="Their reference translations.")]
Only = Annotated[list[str] | None, typer.Option(metavar="ROW", help="Only this row; repeatable.")]
Budget = Annotated[str | None, typer.Option(metavar="TIME", help="Time per row, such as 90s or 10m.")]
Steps = Annotated[int | None, typer.Option(metavar="N", min=1, help="Training steps per row.")]


@paper.command()
def story(
    out: Out,
    source: Source = None,
    target: Target = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    test_source: TestSource = None,
    test_target: TestTarget = None,
    budget: Budget = None,
    steps: Steps = None,
) -> None:
    """Train an LSTM, an LSTM with attention and a Transformer on one text, and show what each gets wrong.

    On the street corpus each takes 600 steps, about five minutes in all; on your own text, 100 seconds each.
    """
    from regard.paper.story import STREET_VALUES
    from regard.paper.story import story as make
    from regard.run import merge

    if budget is None and steps is None:
        budget, steps = (None, 600) if source is None else ("100s", None)
    length = _length(budget, steps)
    text = _text(out, (source, target), (valid_source, valid_target), (test_source, test_target))
    _run(out, text, merge(STREET_VALUES, length) if text.street else length, lambda trainer: make(text, trainer))


@paper.command()
def table1(
    out: Out,
    longest: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="Longest sentence, in tokens.")] = 1024,
    only: Only = None,
) -> None:
    """Measure what a longer sentence costs every architecture, beside the formulas: Table 1 of the paper.

    Needs no text and no training: the weights are random.
    """
    from regard.cli.display import TrainingDisplay
    from regard.paper.rows import ARCHITECTURE_ROWS, choose
    from regard.paper.table1 import table1 as make

    with TrainingDisplay(sys.stderr) as display:
        document = make(display, longest, choose(ARCHITECTURE_ROWS, only or ()))
    _write(document, out)


@paper.command()
def table2(
    out: Out,
    source: Source = None,
    target: Target = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    test_source: TestSource = None,
    test_target: TestTarget = None,
    equal: Annotated[
        Literal["time", "steps", "parameters"], typer.Option(help="What all rows have in common.")
    ] = "time",
    budget: Budget = None,
    steps: Steps = None,
    only: Only = None,
) -> None:
    """Train every architecture on one text, and compare quality, speed and operations: Table 2 of the paper.

    With --equal time every row has the same --budget (default 10m). With --equal steps all take the same --steps
    (default 2,000) on the same batches, and with --equal parameters also have as many parameters as the Transformer.
    """
    from regard.paper.rows import ARCHITECTURE_ROWS, choose
    from regard.paper.table2 import table2 as make

    rows = choose(ARCHITECTURE_ROWS, only or ())
    if (steps is not None) == (equal == "time") and (steps is not None or budget is not None):
        raise UserError(
            f"--equal {equal} needs --{'budget' if equal == 'time' else 'steps'}", hint="drop the other one"
        )
    length = _length(budget or "10m", None) if equal == "time" else _length(None, steps or 2000)
    text = _text(out, (source, target), (valid_source, valid_target), (test_source, test_target))
    _run(out, text, length, lambda trainer: make(text, trainer, equal, rows))


@paper.command()
def table3(
    out: Out,
    source: Source = None,
    target: Target = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    test_source: TestSource = None,
    test_target: TestTarget = None,
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, max=100, help="Seeds of the base model, to tell differences from noise.")
    ] = 3,
    budget: Budget = None,
    steps: Steps = None,
    only: Only = None,
) -> None:
    """Change one thing of the Transformer at a time: Table 3 of the paper, at a size that trains in minutes.

    Every row has the same --budget (default 4m), or takes the same --steps.
    """
    from regard.paper.rows import choose
    from regard.paper.table3 import VARIANTS
    from regard.paper.table3 import table3 as make

    variants, length = choose(VARIANTS, only or ()), _length(budget or (None if steps else "4m"), steps)
    text = _text(out, (source, target), (valid_source, valid_target), (test_source, test_target))
    _run(out, text, length, lambda trainer: make(text, trainer, seeds, variants))


@paper.command()
def distance(out: Out, budget: Budget = None, steps: Steps = None, only: Only = None) -> None:
    """Measure how many pronouns each architecture gets right, k words after the noun, k = 0 to 30.

    The sentences are generated. Every row has the same --budget (default 5m), or takes the same --steps.
    """
    from regard.paper.distance import distance as make
    from regard.paper.distance import distance_text
    from regard.paper.rows import ARCHITECTURE_ROWS, choose

    rows, length = choose(ARCHITECTURE_ROWS, only or ()), _length(budget or (None if steps else "5m"), steps)
    text = distance_text(out / "data")
    _run(out, text, length, lambda trainer: make(text, trainer, rows))


def _text(out: Path, *options: tuple[Path | None, Path | None]) -> "PaperText":
    """The files of the options --source, --valid-source and --test-source; without any, the street corpus."""
    from regard.paper.texts import own_text, street_text

    pairs = []
    for (source, target), name in zip(options, ("", "valid-", "test-"), strict=True):
        if (source is None) != (target is None):
            raise UserError(f"--{name}source and --{name}target go together", hint="give both, or none")
        pairs.append(None if source is None or target is None else (source, target))
    train, validation, test = pairs
    if train is None:
        if validation or test:
            raise UserError("a validation or test set needs --source and --target", hint="add them")
        return street_text(out / "data")
    return own_text(out / "data", train, validation, test)


def _length(budget: str | None, steps: int | None) -> "Raw":
    """How long each row is trained."""
    from regard.cli.training_options import parse_time

    if budget is not None and steps is not None:
        raise UserError("--budget and --steps exclude each other", hint="drop one of them")

    if budget is not None:
        return {"training": {"budget_seconds": parse_time(budget), "schedule": "cooldown"}}
    return {"training": {"steps": steps}}


def _run(out: Path, text: "PaperText", length: "Raw", make: Callable[["Trainer"], "Document"]) -> None:
    """Trains and measures with a display, writes the result, and prints it."""
    from regard.cli.display import TrainingDisplay
    from regard.paper.rows import Trainer

    with TrainingDisplay(sys.stderr) as display:
        document = make(Trainer(out, {"data": text.data} | length, display))
    _write(document, out)


def _write(document: "Document", out: Path) -> None:
    page = document.write(out)
    sys.stdout.write(document.to_markdown())
    sys.stderr.write(f"wrote {page}, and the same as .md and .json\n")

"""`regard predict`: line i of the output is the prediction for line i of the input."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.tasks import Prediction, Predictor


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory or model directory.")],
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help="Inputs (default: the lines of standard input).")
    ] = None,
    length: Annotated[
        int | None, typer.Option(metavar="N", help="Language models: tokens of a continuation at most (default: 40).")
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(metavar="T", help="Language models: 0 is the most probable token each time (default: 0.8)."),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(metavar="K", help="Language models: draw from the K most probable tokens.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Language models: draw from the most probable tokens that together have this probability "
            "(default: 0.95).",
        ),
    ] = None,
    beam: Annotated[
        int | None, typer.Option(metavar="N", help="Language models: beam search of this size; nothing is drawn.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Language models: seed of what is drawn (default: 1).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Predict with a model of any task: one line of output per input.

    A translator translates, a classifier labels, and a language model continues the line. A classifier of images reads
    files, PNG or JPEG; FILE.npz:N is number N of an .npz or IDX file.
    """
    from regard.artifact import describe
    from regard.cli.model_path import model_path
    from regard.cli.translate.stream import FilePair, LineStream
    from regard.tasks.predictors import load_predictor, task_of
    from regard.translator import Translator

    def line_of(prediction: "Prediction") -> str:
        return (json.dumps(prediction.to_dict(), ensure_ascii=False) if as_json else prediction.text) + "\n"

    given = {"length": length, "temperature": temperature, "top_k": top_k, "top_p": top_p, "beam": beam, "seed": seed}
    options = {name: value for name, value in given.items() if value is not None}
    stream = LineStream(FilePair(None, None), resume=False, identity="")
    n_done = 0
    described = describe(model_path(run))
    reads_files = described.task != Translator.task and task_of(described).reads_files
    with closing(load_predictor(described)) as predictor, stream.writer() as write:
        for batch in [inputs] if inputs else stream.batches():
            values: Sequence[Any] = [{"text": value, **options} for value in batch] if options else batch
            values = list(map(Path, batch)) if reads_files else values
            for predictions in _predict(predictor, values, n_done):
                write("".join(map(line_of, predictions)), len(predictions))
                n_done += len(predictions)
    sys.stderr.writelines(f"{message}\n" for message in stream.read_notes.messages(stream.name))


def _predict(predictor: "Predictor", inputs: Sequence[Any], n_before: int) -> Iterator[Sequence["Prediction"]]:
    """If an input is invalid, those before it still get their predictions, and the error says which one it is."""
    try:
        predictions = predictor.predict(inputs) if inputs else []
    except UserError as error:
        if len(inputs) == 1:
            raise UserError(f"input {n_before + 1}: {error.message}", hint=error.hint) from error
        for number, value in enumerate(inputs):
            yield from _predict(predictor, [value], n_before + number)
        return
    if len(predictions) != len(inputs):
        raise RuntimeError(f"{len(predictions)} predictions for {len(inputs)} inputs")
    yield predictions

"""`regard predict`: line i of the output is the prediction for line i of the input."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.tasks import Prediction, Predictor


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory or model directory.")],
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help="Inputs (default: the lines of standard input).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Predict with a model of any task: one line of output per input. A translator translates."""
    from regard.cli.model_path import model_path
    from regard.cli.translate.stream import FilePair, LineStream
    from regard.tasks import load

    def line_of(prediction: "Prediction") -> str:
        return (json.dumps(prediction.to_dict(), ensure_ascii=False) if as_json else prediction.text) + "\n"

    stream = LineStream(FilePair(None, None), resume=False, identity="")
    n_done = 0
    with closing(load(model_path(run))) as predictor, stream.writer() as write:
        for batch in [inputs] if inputs else stream.batches():
            for predictions in _predict(predictor, batch, n_done):
                write("".join(map(line_of, predictions)), len(predictions))
                n_done += len(predictions)
    sys.stderr.writelines(f"{message}\n" for message in stream.read_notes.messages(stream.name))


def _predict(predictor: "Predictor", inputs: Sequence[str], n_before: int) -> Iterator[Sequence["Prediction"]]:
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

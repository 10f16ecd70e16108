"""A learning curve: what twice the text and twice the time are worth, from short trainings on parts of the text."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from functools import partial
from math import hypot
from pathlib import Path
from typing import Any, NamedTuple

from regard.artifact import describe
from regard.durable import make_directory
from regard.errors import RunError, UserError
from regard.metrics import Measure, headline
from regard.run.callbacks import Callbacks
from regard.run.forecast.forecast import Question
from regard.run.forecast.sample import Accepts, sample_text, text_bytes
from regard.run.recipe import merge, read_recipe
from regard.run.train import train
from regard.tasks import TASKS, Raw

_EIGHTHS = {Fraction(1, 8): 1, Fraction(1, 4): 2, Fraction(1, 2): 4}
_VALIDATION_LINES, _BYTES_PER_LINE = 1_000, 100  # about; of the last eighth, which no training sees


class _Run(NamedTuple):
    share: Fraction  # of the text
    time: Fraction  # of the longest training


# three times as much text in the same time, and the same text for three times
_RUNS = (
    _Run(Fraction(1, 8), Fraction(1)),
    _Run(Fraction(1, 4), Fraction(1)),
    _Run(Fraction(1, 2), Fraction(1)),
    _Run(Fraction(1, 2), Fraction(1, 2)),
    _Run(Fraction(1, 2), Fraction(1, 4)),
)
_BY_TEXT, _BY_TIME = (0, 1, 2), (4, 3, 2)


class _WithoutPath(Callbacks):
    """Does not tell where a model is that is deleted at the end."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks

    def on_progress(self, stage: str, done: int, total: int | None) -> None:
        self._callbacks.on_progress(stage, done, total)

    def on_event(self, event: str, **fields: Any) -> None:
        self._callbacks.on_event(event, **fields | ({"path": None} if event == "finished" else {}))


def measure_curve(
    question: Question, model: Raw, seconds: float, directory: Path, callbacks: Callbacks
) -> dict[str, Any]:
    """Trains `model`, a section of a recipe, five times, for `seconds` in all."""
    given = question.given if question.run is None else merge(read_recipe(question.run / "recipe.toml"), question.given)
    if question.stated is not None:
        raise UserError("--curve trains on parts of a text", hint="give its files")
    longest = seconds / float(sum(run.time for run in _RUNS))
    texts, validation = _texts(given, directory)
    results: list[dict[str, Any]] = []
    for number, run in enumerate(_RUNS, start=1):
        label = f"{run.share} of the text for {float(run.time) * longest:.0f} s"
        n_after = len(_RUNS) - number
        callbacks.on_event(
            "row", label=label, number=number, n_rows=len(_RUNS), n_after=n_after, seconds_each=seconds / len(_RUNS)
        )
        training = {"budget_seconds": float(run.time) * longest + 1, "schedule": "cooldown"}
        values = merge(texts[run.share], {"model": model, "training": training})
        out = directory / f"curve-{number}"
        try:
            quiet = _WithoutPath(callbacks)
            train(values, out, fill_defaults=True, device=question.device.type, callbacks=quiet)
        except RunError as error:  # too little time for one of them
            raise UserError(f"--curve: {error.message}", hint="give it more time, such as --curve 20m") from error
        results.append(_measured(out, validation) | {"share": str(run.share), "seconds": float(run.time) * longest})
    measure = headline(TASKS[given.get("task", "translation")].measures)[0]
    return {
        "measure": measure._asdict(),
        "runs": [_of_measure(result, measure) for result in results],
        "gains": {
            "text": _gain([_of_measure(results[i], measure) for i in _BY_TEXT]),
            "time": _gain([_of_measure(results[i], measure) for i in _BY_TIME]),
        },
    }


def _texts(given: Raw, directory: Path) -> tuple[dict[Fraction, Raw], list[Path]]:
    """The recipe with each part of the text, and the files of the validation set that all of them share."""
    every = 8 * max(1, text_bytes(given) // (8 * _VALIDATION_LINES * _BYTES_PER_LINE))
    texts = {}
    own = given["data"].get("validation")
    held_out: dict[str, Accepts] = {} if own else {"validation": lambda number: number % every == 7}
    for share, eighths in _EIGHTHS.items():
        parts: dict[str, Accepts] = {"train": partial(_is_among_first, eighths), **held_out}
        make_directory(folder := directory / f"text-{share.denominator}")
        text, _ = sample_text(given, folder, parts)
        data = {key: value for key, value in text["data"].items() if key not in ("fingerprint", "held_out")}
        texts[share] = {**text, "data": merge(data, {"validation": own} if own else {})}
    first = next(iter(texts.values()))["data"]["validation"]
    return texts, [Path(path) for entry in first for path in (entry.values() if isinstance(entry, dict) else [entry])]


def _is_among_first(eighths: int, number: int) -> bool:
    """Whether this block is one of so many of each eight."""
    return number % 8 < eighths


def _measured(run: Path, validation: list[Path]) -> dict[str, Any]:
    """The measures of a trained model on the validation text, and their intervals."""
    described = describe(run)
    task = TASKS[described.task]
    predictor = task.predictor(described)
    try:
        evaluation = task.evaluate(predictor, validation)
    finally:
        predictor.close()
    return {"steps": described.facts["steps"], "metrics": evaluation.metrics, "intervals": evaluation.intervals}


def _of_measure(result: dict[str, Any], measure: Measure) -> dict[str, Any]:
    interval = result["intervals"].get(measure.name)
    return {
        "share": result["share"],
        "seconds": result["seconds"],
        "steps": result["steps"],
        "value": result["metrics"][measure.name],
        "interval": None if interval is None else [interval.low, interval.high],
    }


def _gain(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Of a doubling, the mean of two; its interval follows from those of the first and of the last run."""
    first, middle, last = (run["value"] for run in runs)
    value, interval = (last - first) / 2, None
    with suppress(TypeError):  # without intervals
        widths = [(run["interval"][1] - run["interval"][0]) / 2 for run in (runs[0], runs[-1])]
        interval = [value - hypot(*widths) / 2, value + hypot(*widths) / 2]
    doublings = [middle - first, last - middle]
    changes = interval is not None and abs(doublings[1] - doublings[0]) > 2 * (interval[1] - interval[0])
    return {"value": value, "interval": interval, "doublings": doublings, "changes": changes}

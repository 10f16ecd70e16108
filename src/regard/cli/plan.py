"""`regard plan`: what a training will cost."""

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from regard.cli.train import STARTED_AT
from regard.cli.train import train as train_command
from regard.cli.training_options import TrainingOptions, no_data, parse_time, read_settings
from regard.errors import RecipeError, UserError

if TYPE_CHECKING:
    from regard.run.forecast.forecast import Question, Stated

_ONLY_FOR_TRAINING = {"out", "recipe", "separately", "seeds", "best_by", "resume", "report", "processes"}


def _with_options_of_training(command: Callable[..., None]) -> Callable[..., None]:
    """Replaces `**options` by the options of `regard train`, so that the two commands cannot differ."""
    own, hints = inspect.signature(command), get_type_hints(train_command, include_extras=True)
    ours = [parameter for parameter in own.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    first, *others = ours
    theirs = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(train_command).parameters.items()
        if name not in _ONLY_FOR_TRAINING
    ]
    parameters = [first, *theirs, *others]
    command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


@_with_options_of_training
def plan(
    recipe: Annotated[
        Path | None,
        typer.Argument(metavar="[RECIPE]", help="Recipe, or a run directory, whose text is used."),
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Without a text: its number of pairs, or of tokens for a language model."
        ),
    ] = None,
    lengths: Annotated[
        str | None, typer.Option(metavar="S,T", help="With --examples: tokens of a source and of a target sentence.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="GPUS", help="Plan for GPUs, such as 8xA100 or H200, not for this machine.")
    ] = None,
    network: Annotated[
        float | None,
        typer.Option(metavar="GBIT", min=0.001, help="With --cluster: Gbit/s between hosts of 8 GPUs (default: 100)."),
    ] = None,
    took: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --cluster: how long the training took, to see how well it was used."),
    ] = None,
    price: Annotated[
        float | None, typer.Option(metavar="PER_HOUR", min=0, help="Price of the machine, or whole cluster, per hour.")
    ] = None,
    curve: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Train on parts of the text for this time in all, to see what more gives."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print where every figure comes from.")] = False,
    **options: Any,
) -> None:
    """Show what a training costs: parameters, operations, memory, disk and time. Nothing is kept.

    Takes a recipe, or the options of `regard train`. The time is measured by trial steps on this machine, or
    calculated for the GPUs of --cluster.
    """
    from regard.cli.display import TrainingDisplay
    from regard.run.forecast.curve import measure_curve
    from regard.run.forecast.forecast import forecast
    from regard.run.forecast.table import explained, shown

    device = options.pop("device", None)
    with TemporaryDirectory(prefix="regard-plan-") as text, TrainingDisplay(sys.stderr) as display:
        question = _question(recipe, Path(text), device, options, _stated(examples, lengths))
        question = _with_cluster(question, cluster, network, took, price)
        result = forecast(question, display)
        values = result.to_dict()
        if curve is not None:
            values["curve"] = measure_curve(question, result.model, parse_time(curve), Path(text), display)
    if as_json:
        sys.stdout.write(json.dumps(values, indent=1, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(shown(result, values.get("curve")) + (explained(result, question.cluster) if explain else ""))


def _question(
    recipe: Path | None, text: Path, device: str | None, options: Mapping[str, Any], stated: "Stated | None"
) -> "Question":
    """What the options ask for; a generated corpus is written to `text`."""
    from regard.run.forecast.forecast import Question
    from regard.training import select_device

    run = recipe if recipe is not None and recipe.is_dir() else None
    given = read_settings(TrainingOptions.of({**options, "recipe": None if run else recipe}), text)
    fill_defaults = recipe is None or options.get("budget") is not None
    if run is not None and given.keys() - {"training", "model"}:
        raise RecipeError(f"{run} has its own text", hint="give only --set and --cluster with a run")
    if run is None and stated is None and not given.get("data"):
        error = no_data()
        raise UserError(error.message, hint=f"{error.hint}; or state its size: --examples 4500000 --lengths 25,27")
    if stated is not None and given.get("data"):
        raise UserError("--examples is for a text that is not at hand", hint="drop it, or the files")
    return Question(given=given, fill_defaults=fill_defaults, run=run, stated=stated, device=select_device(device))


def _with_cluster(
    question: "Question", cluster: str | None, network: float | None, took: str | None, price: float | None
) -> "Question":
    from dataclasses import replace

    from regard.run.forecast.clusters import Cluster

    if cluster is None and (took is not None or network is not None):
        raise UserError(f"--{'network' if took is None else 'took'} is about a cluster", hint="add --cluster 8xP100")
    return replace(
        question,
        spent_seconds=perf_counter() - STARTED_AT,
        cluster=None if cluster is None else Cluster.parse(cluster, network),
        took=None if took is None else parse_time(took),
        price=price,
    )


def _stated(examples: int | None, lengths: str | None) -> "Stated | None":
    from regard.run.forecast.forecast import Stated

    if examples is None:
        if lengths is not None:
            raise UserError("--lengths needs --examples, the number of pairs", hint="add --examples 4500000")
        return None
    try:
        numbers = tuple(int(part) for part in (lengths or "").split(",") if part)
    except ValueError:
        numbers = (0,)
    if any(number < 1 for number in numbers):
        raise UserError(f"--lengths: {lengths!r} is not two numbers of tokens", hint="write it as 25,27")
    return Stated(examples, numbers)

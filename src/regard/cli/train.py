"""`regard train`: train a model."""

import re
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.errors import RecipeError, RunError

if TYPE_CHECKING:
    from regard.run import Raw

_STARTED_AT = perf_counter()  # importing torch takes seconds, which count towards the budget
N_STREET = 40_000  # pairs of the built-in corpus
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def train(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Run directory; an existing run is resumed.")],
    source: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Source sentences, one per line; plain, gzip or zstd. Repeatable."),
    ] = None,
    target: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Their translations, on the same lines. Repeatable.")
    ] = None,
    tsv: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Source, tab, translation in one file. Repeatable.")
    ] = None,
    corpus: Annotated[
        Literal["street"] | None, typer.Option(help="Use the built-in corpus: 40,000 pairs, English to German.")
    ] = None,
    valid_source: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Validation source sentences (default: hold out some pairs).")
    ] = None,
    valid_target: Annotated[Path | None, typer.Option(metavar="FILE", help="Their translations.")] = None,
    architecture: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model architecture (default: transformer, for parallel text).")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Fit the whole training to this time: 90s, 20m, 2h, 1d.")
    ] = None,
    recipe: Annotated[Path | None, typer.Option(metavar="FILE", help="Recipe: a TOML file with settings.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a recipe value, such as training.steps=300. Repeatable."),
    ] = None,
    start_from: Annotated[
        Path | None, typer.Option("--from", metavar="MODEL", help="Fine-tune this run or model.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or mps (default: the fastest available).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Fail if there is no run in DIR to resume.")] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Update DIR/report.html during training, not only at the end.")
    ] = False,
) -> None:
    """Train a model. Without a recipe, settings are chosen for your text and your machine.

    Ctrl-C saves a checkpoint and stops; run the same command again to resume. Without --budget, the result is
    bit-identical to that of an uninterrupted run.
    """
    if resume and not (out / "recipe.toml").exists():
        raise RunError(f"there is no run in {out} to resume", hint="start one without --resume")
    from regard.cli.display import TrainingDisplay
    from regard.run import merge, parse_setting, read_recipe
    from regard.run import train as run

    settings = merge(
        read_recipe(recipe) if recipe is not None else {},
        _data(source or [], target or [], tsv or [], valid_source, valid_target),
        _street(out, alone=not (source or target or tsv or valid_source or valid_target)) if corpus == "street" else {},
        {"start_from": str(start_from)} if start_from is not None else {},
        {"model": {"architecture": architecture}} if architecture is not None else {},
        {"training": {"budget_seconds": parse_time(budget), "schedule": "cooldown"}} if budget is not None else {},
        *(parse_setting(text) for text in setting or []),
    )
    if not settings.get("data") and not (out / "recipe.toml").exists():
        raise RecipeError("no training data", hint="use --source FILE --target FILE, or --tsv FILE, or --corpus street")
    with TrainingDisplay(sys.stderr) as display:
        run(
            settings,
            out,
            fill_defaults=recipe is None or budget is not None,
            device=device,
            callbacks=display,
            spent_seconds=perf_counter() - _STARTED_AT,
            live_report=report,
        )
        if (page := out / "report.html").exists():
            display.print(f"the report is in {page}")


def parse_time(text: str) -> float:
    """`20m` → 1200 seconds; also 90s, 1.5h, 2d, 1h30m."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise RecipeError(f"{text!r} is not a duration", hint="write for example 90s, 20m, 2h or 1h30m")
    return float(sum(float(number) * _UNITS[unit] for number, unit in parts))


def _data(
    source: list[Path], target: list[Path], tsv: list[Path], valid_source: Path | None, valid_target: Path | None
) -> "Raw":
    if len(source) != len(target):
        raise RecipeError(
            f"{len(source)} --source and {len(target)} --target", hint="each source file needs a target file"
        )
    if (valid_source is None) != (valid_target is None):
        raise RecipeError("a validation set needs both --valid-source and --valid-target")
    train = [{"source": str(a), "target": str(b)} for a, b in zip(source, target, strict=True)]
    train += [{"tsv": str(file)} for file in tsv]
    data: dict[str, object] = {"train": train} if train else {}
    if valid_source is not None:
        data["validation"] = [{"source": str(valid_source), "target": str(valid_target)}]
    return {"data": data} if data else {}


def _street(out: Path, alone: bool) -> "Raw":
    """The street corpus, written to `data/` in the run directory."""
    from regard.demo.first_run import street_text

    if not alone:
        raise RecipeError(
            "--corpus street cannot be combined with files", hint="use either --corpus street or your own files"
        )
    text = street_text(out, N_STREET)
    train, validation = (
        [{"source": str(text / f"{name}.en"), "target": str(text / f"{name}.de")}] for name in ("train", "validation")
    )
    return {"data": {"train": train, "validation": validation}}

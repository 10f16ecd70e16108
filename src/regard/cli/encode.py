"""`regard encode`: builds the token store of a large corpus, here, in parts or on a cluster."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.parts import Part, Ray, parse_part
from regard.cli.training_options import TrainingOptions, parallel_data
from regard.errors import RecipeError

if TYPE_CHECKING:
    from regard.run import Raw
    from regard.tasks.task import OnProgress
    from regard.tasks.translation.encode import EncodingPlan


def encode(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory of the store; an unfinished one is continued.")],
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
    valid_source: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Validation source sentences (default: hold out some pairs).")
    ] = None,
    valid_target: Annotated[Path | None, typer.Option(metavar="FILE", help="Their translations.")] = None,
    recipe: Annotated[Path | None, typer.Option(metavar="FILE", help="Recipe, for its data and text.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Set a recipe value, such as text.vocabulary=32000. Repeatable."
        ),
    ] = None,
    start_from: Annotated[
        Path | None, typer.Option("--from", metavar="MODEL", help="Use the vocabulary of this run or model.")
    ] = None,
    shard_lines: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=5_000_000, help="Lines of text per shard (default: 500000).")
    ] = None,
    part: Part = None,
    join: Annotated[bool, typer.Option("--join", help="Finish the store when all parts have been built.")] = False,
    processes: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes (default: one per core).")
    ] = None,
    ray: Ray = None,
) -> None:
    """Encode a large corpus into a token store, for `regard train --store`. Run again, it continues.

    With --part 3/64, only every 64th shard is built, from the third on; the parts can run at the same time, on any
    machines that share DIR. Then --join finishes the store.
    """
    given = TrainingOptions.of(locals())
    from regard.cli.display import TrainingDisplay
    from regard.data.store import read_meta
    from regard.processes import n_cores
    from regard.tasks.translation.encode import EncodingPlan, build_shards, join_shards

    if sum((part is not None, join, ray is not None)) > 1:
        raise RecipeError("--part, --join and --ray do not go together", hint="give one of them")
    numbers = None if part is None else parse_part(part)
    n_processes = processes or n_cores()
    with TrainingDisplay(sys.stderr) as display:
        data = parallel_data(given)
        if data or recipe is not None:
            plan = _plan(out, data, recipe, setting or [], start_from, shard_lines, n_processes, display.on_progress)
        else:
            plan = EncodingPlan.read(out)
        if numbers is not None:
            build_shards(out, plan, numbers, n_processes, display.on_progress)
            display.print(f"part {part} of {out} is finished; when all are: regard encode --out {out} --join")
            return
        if not join:
            build_shards(out, plan, (1, 1), n_processes, display.on_progress, ray)
        index = join_shards(out, plan, display.on_progress)
    n_pairs = sum(entry.n_pairs for entry in index.shards)
    n_left_out = sum(entry.n_blank + entry.n_too_long for entry in index.shards)
    left_out = f", {n_left_out:,} blank or too long ones left out" if n_left_out else ""
    n_shards, n_validation = len(index.shards), read_meta(out / "validation").n_pairs
    display.print(f"{n_pairs:,} pairs in {n_shards} shards, {n_validation:,} for validation{left_out}")
    display.print(f"train with: regard train --store {out} --out RUN")


def _plan(
    out: Path,
    data: "Raw",
    recipe: Path | None,
    settings: list[str],
    start_from: Path | None,
    shard_lines: int | None,
    n_processes: int,
    on_progress: "OnProgress",
) -> "EncodingPlan":
    """The plan of these files and settings."""
    from regard.cli.model_path import model_path
    from regard.run import merge, parse_setting, read_recipe
    from regard.run.recipe import Recipe
    from regard.tasks.translation.encode import plan_encoding

    given = read_recipe(recipe) if recipe is not None else {}
    values = merge(given, data, *(parse_setting(text) for text in settings))
    complete: Any = Recipe.build({key: values[key] for key in ("data", "text", "training") if key in values})
    return plan_encoding(
        out,
        complete.data,
        complete.text,
        seed=complete.training.seed,
        lines_per_shard=shard_lines,
        start_from=None if start_from is None else model_path(start_from),
        n_processes=n_processes,
        on_progress=on_progress,
    )

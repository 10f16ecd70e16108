"""`regard train`: train a model."""

import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.training_options import TrainingOptions, no_data, read_settings
from regard.errors import RecipeError, RunError

if TYPE_CHECKING:
    from regard.run import Raw

STARTED_AT = perf_counter()  # importing torch takes seconds, which count towards the budget


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
    store: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A token store, made by `regard encode` from a large corpus.")
    ] = None,
    corpus: Annotated[
        Literal["street", "addition", "addition-in-columns"] | None,
        typer.Option(help="Use a generated corpus: 40,000 English–German pairs, or 50,000 sums of binary numbers."),
    ] = None,
    valid_source: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Validation source sentences (default: hold out some pairs).")
    ] = None,
    valid_target: Annotated[Path | None, typer.Option(metavar="FILE", help="Their translations.")] = None,
    labels: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Train a classifier: a label, a tab and a text per line. Repeatable."),
    ] = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Running text, for a language model or an encoder; or the texts, if --labels has only labels. "
            "Repeatable.",
        ),
    ] = None,
    valid_labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Validation labels and texts (default: hold out some texts).")
    ] = None,
    valid_text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Validation text (default: hold out parts); or the texts, if --valid-labels has only labels.",
        ),
    ] = None,
    stories: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Train to answer questions about stories, in bAbI's format. Repeatable."),
    ] = None,
    valid_stories: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Validation stories (default: hold out some stories). Repeatable."),
    ] = None,
    images: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Train a classifier of images: a folder with a folder per class, an .npz file, or an IDX file, "
            "whose labels are beside it or given by --labels. Repeatable.",
        ),
    ] = None,
    valid_images: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Validation images (default: hold out some images). Repeatable."),
    ] = None,
    separately: Annotated[
        bool, typer.Option("--separately", help="Train one model per file of --stories, in a directory of DIR each.")
    ] = False,
    architecture: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Model architecture (default: transformer, or what suits the data)."),
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
    keep: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="With --from: general pairs (TSV) to mix in, against forgetting. Repeatable."
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", min=2, max=1000, help="Train N times, with other seeds, and show mean and spread."),
    ] = None,
    best_by: Annotated[
        str | None,
        typer.Option(
            metavar="MEASURE", help="With --seeds: keep the best model, by this measure, as the model of DIR."
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or mps (default: the fastest available).")] = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=1024, help="Share every update among N processes of this machine."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Fail if there is no run in DIR to resume.")] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Update DIR/report.html during training, not only at the end.")
    ] = False,
) -> None:
    """Train a model. Without a recipe, settings are chosen for your text and your machine.

    Ctrl-C saves a checkpoint and stops; run the same command again to resume. Without --budget, the result is
    bit-identical to that of an uninterrupted run. torchrun starts it in several processes, also on several machines.
    """
    given = TrainingOptions.of(locals())
    from regard.run import follow_torchrun

    follow_torchrun(device)  # all but one of torchrun's processes stay here
    if resume and not (list(out.glob("seed-*/recipe.toml")) if seeds else (out / "recipe.toml").exists()):
        raise RunError(f"there is no run in {out} to resume", hint="start one without --resume")
    from regard.run import open_workers
    from regard.run.seeds import write_models

    settings = read_settings(given, out)
    if not settings.get("data") and not (out / "recipe.toml").exists():
        raise no_data()
    options: dict[str, Any] = {
        "fill_defaults": recipe is None or budget is not None,
        "device": device,
        "live_report": report,
    }
    if best_by is not None and seeds is None:
        raise RecipeError("--best-by chooses among models with several seeds", hint="add --seeds N")
    parts = _separated(settings, out) if separately else [(settings, out)]
    with open_workers(processes, device) as workers:
        options["workers"] = workers
        for part, directory in parts:
            if seeds is None:
                _train(part, directory, spent_seconds=perf_counter() - STARTED_AT, **options)
            else:
                _train_seeds(part, directory, seeds, best_by, options)
    if separately:
        write_models(out, [directory for _, directory in parts])


def _train(settings: "Raw", out: Path, **options: Any) -> None:
    from regard.cli.display import TrainingDisplay
    from regard.run import train as run

    with TrainingDisplay(sys.stderr) as display:
        run(settings, out, callbacks=display, **options)
        if (page := out / "report.html").exists():
            display.print(f"the report is in {page}")
        display.print_verdict()


def _train_seeds(settings: "Raw", out: Path, n: int, best_by: str | None, options: dict[str, Any]) -> None:
    """One after another; a finished one is skipped, so that the same command resumes."""
    from regard.cli.evaluate import aligned
    from regard.run.seeds import HEADER, find_measure, keep_best, seed_runs, write_summary

    runs = seed_runs(settings, out, n)
    measure = None if best_by is None else find_measure(runs[0][1], best_by)
    for number, (path, recipe) in enumerate(runs, start=1):
        sys.stderr.write(f"{path.name} ({number} of {n})\n")
        _train(recipe, path, **options)
    spreads = write_summary(out, [path for path, _ in runs])
    sys.stdout.write(
        aligned([HEADER, *(spread.row() for spread in spreads)]) + f"{n} seeds, on their validation texts\n"
    )
    if measure is not None:
        best = keep_best(out, [path for path, _ in runs], measure)
        sys.stdout.write(f"{out}/model is that of {best.name}, the best by {measure.label}\n")


def _separated(settings: "Raw", out: Path) -> list[tuple["Raw", Path]]:
    """The settings and the directory of each file of stories."""
    from regard.run import merge

    files = [str(file) for file in settings.get("data", {}).get("train", [])]
    if settings.get("task") != "answering" or settings["data"].get("validation"):
        raise RecipeError("--separately trains one model per file of --stories", hint="drop --valid-stories")
    names = [Path(file).stem for file in files]
    if len(set(names)) < len(names):
        raise RecipeError("--separately: two files of --stories have the same name", hint="rename one of them")
    return [(merge(settings, {"data": {"train": [file]}}), out / name) for file, name in zip(files, names, strict=True)]

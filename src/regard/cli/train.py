"""`regard train`: train a model."""

import re
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    from regard.run import follow_torchrun

    follow_torchrun(device)  # all but one of torchrun's processes stay here
    if resume and not (list(out.glob("seed-*/recipe.toml")) if seeds else (out / "recipe.toml").exists()):
        raise RunError(f"there is no run in {out} to resume", hint="start one without --resume")
    from regard.run import open_workers
    from regard.run.seeds import write_models

    settings = read_settings(
        out, source=source, target=target, tsv=tsv, store=store, corpus=corpus, valid_source=valid_source,
        valid_target=valid_target, labels=labels, text=text, valid_labels=valid_labels, valid_text=valid_text,
        stories=stories, valid_stories=valid_stories, images=images, valid_images=valid_images,
        architecture=architecture, budget=budget, recipe=recipe, setting=setting, start_from=start_from, keep=keep,
    )  # fmt: skip
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
                _train(part, directory, spent_seconds=perf_counter() - _STARTED_AT, **options)
            else:
                _train_seeds(part, directory, seeds, best_by, options)
    if separately:
        write_models(out, [directory for _, directory in parts])


def read_settings(
    out: Path,
    *,
    source: list[Path] | None = None,
    target: list[Path] | None = None,
    tsv: list[Path] | None = None,
    store: Path | None = None,
    corpus: Literal["street", "addition", "addition-in-columns"] | None = None,
    valid_source: Path | None = None,
    valid_target: Path | None = None,
    labels: list[Path] | None = None,
    text: list[Path] | None = None,
    valid_labels: Path | None = None,
    valid_text: Path | None = None,
    stories: list[Path] | None = None,
    valid_stories: list[Path] | None = None,
    images: list[Path] | None = None,
    valid_images: list[Path] | None = None,
    architecture: str | None = None,
    budget: str | None = None,
    recipe: Path | None = None,
    setting: list[str] | None = None,
    start_from: Path | None = None,
    keep: list[Path] | None = None,
) -> "Raw":
    """The values of a recipe that the options give. A generated corpus is written to `out`."""
    from regard.cli.model_path import model_path
    from regard.run import merge, parse_setting, read_recipe

    parallel = [*(source or []), *(target or []), *(tsv or []), valid_source, valid_target, store]
    has_labels, has_text = bool(labels or valid_labels), bool(text or valid_text)
    has_stories, has_images = bool(stories or valid_stories), bool(images or valid_images)
    if has_images and (any([*parallel, has_text, has_stories, valid_labels]) or corpus is not None):
        raise RecipeError("--images needs no text", hint="drop one of them")
    has_labels = has_labels and not has_images
    if (has_labels or has_text) and (any(parallel) or corpus is not None):
        raise RecipeError("--labels and --text need no parallel text", hint="drop one of them")
    if has_stories and (any([*parallel, has_labels, has_text]) or corpus is not None):
        raise RecipeError("--stories needs no other text", hint="drop one of them")
    given = read_recipe(recipe) if recipe is not None else {}
    return merge(
        given,
        parallel_data(source or [], target or [], tsv or [], valid_source, valid_target, store),
        _labelled(labels or [], text or [], valid_labels, valid_text) if has_labels else {},
        _running_text(text or [], valid_text) if has_text and not has_labels else {},
        {"task": _task_of_text(given, architecture, start_from)} if has_text and not has_labels else {},
        _stories(stories or [], valid_stories or []) if has_stories else {},
        _images(images or [], labels or [], valid_images or []) if has_images else {},
        _generated(corpus, out, alone=not any(parallel)),
        {"data": {"keep": [{"tsv": str(file)} for file in keep]}} if keep else {},
        {"start_from": str(model_path(start_from))} if start_from is not None else {},
        {"model": {"architecture": architecture}} if architecture is not None else {},
        {"training": {"budget_seconds": parse_time(budget), "schedule": "cooldown"}} if budget is not None else {},
        *(parse_setting(text) for text in setting or []),
    )


def no_data() -> RecipeError:
    hint = "use --source and --target, --tsv, --labels, --text, --stories or --images, or --corpus street"
    return RecipeError("no training data", hint=hint)


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


def parse_time(text: str) -> float:
    """`20m` → 1200 seconds; also 90s, 1.5h, 2d, 1h30m."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise RecipeError(f"{text!r} is not a duration", hint="write for example 90s, 20m, 2h or 1h30m")
    return float(sum(float(number) * _UNITS[unit] for number, unit in parts))


def parallel_data(
    source: list[Path],
    target: list[Path],
    tsv: list[Path],
    valid_source: Path | None,
    valid_target: Path | None,
    store: Path | None = None,
) -> "Raw":
    """The [data] section with these files; empty if there are none."""
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
    if store is not None:
        data["store"] = str(store)
    return {"data": data} if data else {}


def _labelled(labels: list[Path], text: list[Path], valid_labels: Path | None, valid_text: Path | None) -> "Raw":
    if text and len(text) != len(labels):
        raise RecipeError(
            f"{len(labels)} --labels and {len(text)} --text", hint="each file of texts needs one of labels"
        )
    if valid_text is not None and valid_labels is None:
        raise RecipeError("--valid-text needs --valid-labels if there are --labels", hint="add their labels")

    def entry(labels: Path, text: Path | None) -> dict[str, str]:
        return {"labels": str(labels)} | ({} if text is None else {"text": str(text)})

    data: dict[str, object] = {}
    if labels:
        texts: list[Path | None] = [*text] or [None] * len(labels)
        data["train"] = [entry(*pair) for pair in zip(labels, texts, strict=True)]
    if valid_labels is not None:
        data["validation"] = [entry(valid_labels, valid_text)]
    return {"task": "classification", "data": data}


def _running_text(text: list[Path], valid_text: Path | None) -> "Raw":
    data: dict[str, object] = {"train": list(map(str, text))} if text else {}
    if valid_text is not None:
        data["validation"] = [str(valid_text)]
    return {"data": data}


def _task_of_text(recipe: "Raw", architecture: str | None, start_from: Path | None) -> str:
    """What is learned from running text: what the recipe says, or else what the architecture is for."""
    from regard.artifact import describe
    from regard.models import ARCHITECTURES

    if "task" in recipe:
        return str(recipe["task"])
    if architecture is None and start_from is not None:
        return describe(start_from).task
    tasks = ARCHITECTURES[architecture].models if architecture in ARCHITECTURES else {}
    return "pretraining" if "pretraining" in tasks else "language"


def _stories(stories: list[Path], valid_stories: list[Path]) -> "Raw":
    if not stories:
        raise RecipeError("--valid-stories needs --stories", hint="add the files to train on")
    sets = {"train": stories, "validation": valid_stories}
    return {"task": "answering", "data": {name: [str(path) for path in paths] for name, paths in sets.items() if paths}}


def _images(images: list[Path], labels: list[Path], valid_images: list[Path]) -> "Raw":
    """`labels` are those of IDX files, which can also be found beside them."""
    if not images:
        raise RecipeError("--valid-images needs --images", hint="add the images to train on")
    if labels and len(labels) != len(images):
        raise RecipeError(f"{len(images)} --images and {len(labels)} --labels", hint="give each file its labels")
    train = [{"images": str(path)} for path in images]
    for entry, path in zip(train, labels, strict=False):
        entry["labels"] = str(path)
    validation = [{"images": str(path)} for path in valid_images]
    return {"task": "images", "data": {"train": train} | ({"validation": validation} if validation else {})}


def _generated(name: Literal["street", "addition", "addition-in-columns"] | None, out: Path, alone: bool) -> "Raw":
    """A built-in corpus, written to `data/` in the run directory."""
    if name is None:
        return {}
    if not alone:
        raise RecipeError(
            f"--corpus {name} cannot be combined with files", hint=f"use either --corpus {name} or your own files"
        )
    if name == "street":
        from regard.demo.first_run import street_text

        text, suffixes = street_text(out, N_STREET), ("en", "de")
    else:
        from regard.demo.addition import addition_text

        text, suffixes = addition_text(out, name), ("sum", "result")

    def files(part: str) -> list[dict[str, str]]:
        source, target = (str(text / f"{part}.{suffix}") for suffix in suffixes)
        return [{"source": source, "target": target}]

    return {"data": {"train": files("train"), "validation": files("validation")}}

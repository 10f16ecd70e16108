"""`regard evaluate`: measure a model, or score a file of translations."""

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.evaluate import Scores, TestSet
    from regard.metrics import Measure
    from regard.tasks import Evaluation, Task

_TOKENIZED_SHARE = 0.5
_BATCH_LINES = 500  # small, so that the progress bar moves
_CONTROL_CATEGORIES = ("Cc", "Zl", "Zp")

EngineName = Literal["auto", "ctranslate2", "torch"]
_REFERENCE = typer.Option(metavar="FILE", help="Reference translations, one per line. Repeatable.")
Reference = Annotated[list[Path], _REFERENCE]
Beam = Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Beam size; 1 is greedy.")]
LengthPenalty = Annotated[
    float | None,
    typer.Option(metavar="A", min=0, max=3, help="Higher prefers longer translations (default: from training)."),
]
Engine = Annotated[
    EngineName, typer.Option(help="Inference engine; auto is ctranslate2 if the model supports it, else torch.")
]
Target = Annotated[str | None, typer.Option(metavar="LANG", help="Target language, for a model with several.")]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="Ignore case.")]
Tokenize = Annotated[
    str, typer.Option(metavar="NAME", help="Tokenizer for BLEU: 13a, intl, char, zh, ja-mecab or ko-mecab.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]


def evaluate(
    context: typer.Context,
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="A run directory or model directory.")] = None,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILES]...", help="Test files of RUN, as its task defines them.")
    ] = None,
    reference: Annotated[list[Path] | None, _REFERENCE] = None,
    source: Annotated[Path | None, typer.Option(metavar="FILE", help="Source sentences, for RUN to translate.")] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Translations to score; without RUN.")] = None,
    beam: Beam = 4,
    length_penalty: LengthPenalty = None,
    engine: Engine = "auto",
    target: Target = None,
    lowercase: Lowercase = False,
    tokenize: Tokenize = "13a",
    worst: Annotated[int, typer.Option(metavar="N", min=0, help="Show the N sentences with the lowest chrF++.")] = 0,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="Show scores by length of the source, in five buckets.")
    ] = False,
    save_output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the translations of RUN to this file.")
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the confusion matrix of a classifier, or a language model's loss by length of context (PNG).",
        ),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Tokens that a language model remembers of earlier segments."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a model of any task on test FILES, or score translations with BLEU, chrF++ and TER.

    The scores of translations are computed by sacreBLEU, with 95% confidence intervals and signatures.
    """
    if files:
        _evaluate_files(context, run or Path(), files, png, memory, as_json)
        return
    for name, value in (("--png", png), ("--memory", memory)):
        if value is not None:
            raise UserError(f"{name} needs test FILES of a model of another task", hint=f"drop {name}")
    if (run is None) == (output is None):
        raise UserError("give either RUN or --output", hint="use RUN --source FILE, or --output FILE without RUN")
    if save_output is not None and output is not None:
        raise UserError("--save-output needs RUN", hint="drop --save-output")
    from regard.durable import write_file
    from regard.evaluate import check_tokenizer, read_test_set, score

    check_tokenizer(tokenize)
    check_destination(save_output, [*(reference or ()), source])
    test_set = read_test_set(reference or (), source)
    if output is not None:
        outputs = test_set.read_outputs(output)
    else:
        outputs = _translate(run or Path(), test_set, beam, engine, target, length_penalty)
    if save_output is not None:
        write_file(save_output, "".join(f"{line}\n" for line in outputs).encode())
    warn_if_tokenized(outputs, "outputs")
    scores = score(outputs, test_set.references, sources=test_set.sources, lowercase=lowercase, tokenize=tokenize)
    if as_json:
        report = scores.to_dict() | {"worst": [_sentence(i, scores, test_set, outputs) for i in scores.worst(worst)]}
        sys.stdout.write(json.dumps(report, ensure_ascii=False, indent=2) + "\n")
    else:
        _show(scores, test_set, outputs, worst, by_length=by_length)


def _evaluate_files(
    context: typer.Context, run: Path, files: list[Path], png: Path | None, memory: int | None, as_json: bool
) -> None:
    """The measures of the model's task; of runs with several seeds, their mean and spread."""
    for name in context.params.keys() - {"run", "files", "png", "memory", "as_json"}:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = name.replace("_", "-")
            raise UserError(f"--{option} does not go with FILES", hint="give --source and --reference instead of FILES")
    from regard.artifact import describe
    from regard.cli.model_path import model_path
    from regard.run.seeds import HEADER, Spread, finished_seeds, separate_models
    from regard.tasks.predictors import task_of

    check_destination(png, files)
    if separate := separate_models(run):
        if len(separate) != len(files):
            raise UserError(f"{run} has {len(separate)} models, and there are {len(files)} files",
                            hint="give a test file for each model, in the order of the training files")  # fmt: skip
        task = task_of(describe(separate[0]))
        pairs = zip(separate, [[file] for file in files], strict=True)
        evaluations = [task.join([_evaluate_model(*pair, memory) for pair in pairs])]
        runs = [run]
    else:
        runs = [model_path(run)] if (run / "model").exists() else finished_seeds(run) or [model_path(run)]
        task = task_of(describe(runs[0]))
        evaluations = [_evaluate_model(path, files, memory) for path in runs]
    first = evaluations[0]
    if png is not None and first.draw is None:
        raise UserError(f"there is no picture of the measures of the task {task.name}", hint="drop --png")
    if as_json:
        reports = [_evaluation_dict(evaluation) for evaluation in evaluations]
        report = {"task": task.name} | (reports[0] if len(runs) == 1 else {"seeds": reports})
        sys.stdout.write(json.dumps(report, ensure_ascii=False, indent=2) + "\n")
    elif len(runs) > 1:
        values = {m: [evaluation.metrics[m.name] for evaluation in evaluations] for m in _measured(task, first)}
        rows = [Spread(measure, shares).row() for measure, shares in values.items()]
        sys.stdout.write(aligned([HEADER, *rows]) + f"{first.n_examples:,} {first.unit}, {len(runs)} seeds\n")
    else:
        sys.stdout.write(_evaluation_text(task, first))
    if png is not None and first.draw is not None:
        first.draw().save(png, "png")
        sys.stderr.write(f"wrote {png}\n")


def _evaluate_model(run: Path, files: list[Path], memory: int | None) -> "Evaluation":
    from regard.artifact import describe
    from regard.cli.display import TrainingDisplay
    from regard.tasks.predictors import load_predictor, task_of

    described = describe(run)
    task = task_of(described)
    if memory is not None and "memory" not in task.evaluated_with:
        raise UserError("--memory is for language models", hint="drop --memory")
    with closing(load_predictor(described)) as predictor, TrainingDisplay(sys.stderr) as display:
        settings = {"memory": memory, "on_progress": display.on_progress}
        for name in task.evaluated_with:
            setattr(predictor, name, settings[name])
        return task.evaluate(predictor, files)


def _measured(task: "Task[Any]", evaluation: "Evaluation") -> list["Measure"]:
    return [measure for measure in (*task.measures, *task.test_measures) if measure.name in evaluation.metrics]


def _evaluation_dict(evaluation: "Evaluation") -> dict[str, Any]:
    intervals = {name: [interval.low, interval.high] for name, interval in evaluation.intervals.items()}
    report = {"n_examples": evaluation.n_examples, "metrics": dict(evaluation.metrics)}
    return report | ({"intervals": intervals} if intervals else {}) | dict(evaluation.details)


def _evaluation_text(task: "Task[Any]", evaluation: "Evaluation") -> str:
    """A table of measures, with their intervals where there are any, and what else the task has to say."""
    rows: list[tuple[str, ...]] = [("measure", "value", "95% interval")]
    for measure in _measured(task, evaluation):
        interval = evaluation.intervals.get(measure.name)
        shown = "" if interval is None else f"{measure.format(interval.low)} – {measure.format(interval.high)}"
        rows.append((measure.label, measure.format(evaluation.metrics[measure.name]), shown))
    if not evaluation.intervals:
        rows = [row[:2] for row in rows]
    more = f"\n{evaluation.text}" if evaluation.text else ""
    return aligned(rows) + f"{evaluation.n_examples:,} {evaluation.unit}\n{more}"


def outputs_of(
    paths: Sequence[Path], test_set: "TestSet", *, beam: int, engine: EngineName, target: str | None = None
) -> list[list[str]]:
    """Translations by the models in directories, and lines of output files. Files are read first: errors come early."""
    lines = {path: test_set.read_outputs(path) for path in paths if not path.is_dir()}
    return [lines[path] if path in lines else _translate(path, test_set, beam, engine, target) for path in paths]


def check_destination(path: Path | None, inputs: Iterable[Path | None]) -> None:
    """Raise a UserError if the file cannot be written; call it before the work, not after."""
    if path is None:
        return
    if not path.parent.is_dir() or (path.exists() and not path.is_file()):
        raise UserError(f"cannot write {path}", hint="name a file in an existing directory")
    if path.resolve() in {source.resolve() for source in inputs if source is not None}:
        raise UserError(f"{path} is an input and would be overwritten", hint="choose another file name")


def _translate(
    path: Path,
    test_set: "TestSet",
    beam: int,
    engine: EngineName,
    target: str | None,
    length_penalty: float | None = None,
) -> list[str]:
    if test_set.sources is None:
        raise UserError(f"{path} is a model and needs sentences to translate", hint="add --source FILE")
    from regard.cli.model_path import model_path
    from regard.cli.translate.stream import line_progress
    from regard.translator import Translator

    sources, outputs = test_set.sources, []
    sys.stderr.write(f"translating {len(sources):,} lines with {path}\n")
    with Translator.load(model_path(path), engine=engine) as translator, line_progress(len(sources)) as advance:
        defaults = translator.options
        penalty = defaults.length_penalty if length_penalty is None else length_penalty
        options = replace(defaults, beam=beam, length_penalty=penalty)
        for translation in translator.translate_iter(sources, options=options, target=target, batch_size=_BATCH_LINES):
            outputs.append(translation.text)
            advance(1)
    return outputs


def warn_if_tokenized(outputs: list[str], name: str) -> None:
    """sacreBLEU expects detokenized text; tokenized text gets a wrong score without a warning."""
    n_tokenized = sum(line.endswith((" .", " 。")) for line in outputs)
    if n_tokenized > _TOKENIZED_SHARE * len(outputs):
        sys.stderr.write(f"warning: {n_tokenized:,} of {len(outputs):,} {name} end in ' .': detokenize them first\n")


def aligned(rows: list[tuple[str, ...]]) -> str:
    """A table as plain text: the first and last columns aligned left, the others right. Nothing is truncated."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        first, *middle, last = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join([first.strip().ljust(widths[0]), *middle, last.strip()]).rstrip())
    return "".join(f"{line}\n" for line in lines)


def escape_controls(text: str) -> str:
    """Text with control characters escaped, so that it cannot control the terminal."""
    return "".join(repr(char)[1:-1] if unicodedata.category(char) in _CONTROL_CATEGORIES else char for char in text)


def write_text(path: Path, text: str) -> None:
    from regard.durable import write_file

    write_file(path, text.encode("utf-8", "replace"))
    sys.stderr.write(f"wrote {path}\n")


def _sentence(i: int, scores: "Scores", test_set: "TestSet", outputs: list[str]) -> dict[str, object]:
    return {
        "line": i + 1,
        "chrf": scores.sentence_chrf[i],
        "source": None if test_set.sources is None else test_set.sources[i],
        "references": [lines[i] for lines in test_set.references],
        "output": outputs[i],
    }


def _show(scores: "Scores", test_set: "TestSet", outputs: list[str], n_worst: int, *, by_length: bool) -> None:
    rows: list[tuple[str, ...]] = [("measure", "value", "95% interval", "signature")]
    for score in scores.all:
        interval = f"{score.interval.low:.2f} – {score.interval.high:.2f}"
        rows.append((score.name, f"{score.value:.2f}", interval, score.signature))
    sys.stdout.write(aligned(rows))
    if by_length:
        rows = [(f"{scores.length_of} tokens", "sentences", "BLEU", "95% interval", "chrF++")]
        for bucket in scores.by_length:
            interval = f"{bucket.bleu_interval.low:.1f} – {bucket.bleu_interval.high:.1f}"
            count = f"{bucket.n_sentences:,}"
            rows.append((bucket.label, count, f"{bucket.bleu:.1f}", interval, f"{bucket.chrf:.1f}"))
        sys.stdout.write("\n" + aligned(rows))
    for i in scores.worst(n_worst):
        sys.stdout.write(f"\nline {i + 1}, chrF++ {scores.sentence_chrf[i]:.1f}\n")
        if test_set.sources is not None:
            sys.stdout.write(f"  source     {escape_controls(test_set.sources[i])}\n")
        for lines in test_set.references:
            sys.stdout.write(f"  reference  {escape_controls(lines[i])}\n")
        sys.stdout.write(f"  output     {escape_controls(outputs[i])}\n")

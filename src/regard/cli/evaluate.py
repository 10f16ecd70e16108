"""`regard evaluate`: how good is a model, or a file of translations?"""

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.evaluate import Scores, TestSet

_TOKENIZED_SHARE = 0.5
_BATCH_LINES = 500  # small, so that the progress bar moves
_INVISIBLE = ("Cc", "Zl", "Zp")

EngineName = Literal["auto", "ctranslate2", "torch"]
Reference = Annotated[
    list[Path], typer.Option(metavar="FILE", help="Good translations, line by line. Repeatable: several references.")
]
Beam = Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Hypotheses kept a step; 1 is greedy.")]
LengthPenalty = Annotated[
    float | None, typer.Option(metavar="A", min=0, max=3, help="Higher: longer. Default: as in the model.")
]
Engine = Annotated[EngineName, typer.Option(help="What computes.")]
Target = Annotated[str | None, typer.Option(metavar="LANG", help="Which target language, of several.")]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="Ignore upper and lower case.")]
Tokenize = Annotated[
    str, typer.Option(metavar="NAME", help="Words for BLEU: 13a, intl, char, zh, ja-mecab or ko-mecab.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]


def evaluate(
    reference: Reference,
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="A run, or a model directory.")] = None,
    source: Annotated[Path | None, typer.Option(metavar="FILE", help="What RUN is to translate.")] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Or score these translations, without RUN.")
    ] = None,
    beam: Beam = 4,
    length_penalty: LengthPenalty = None,
    engine: Engine = "auto",
    target: Target = None,
    lowercase: Lowercase = False,
    tokenize: Tokenize = "13a",
    worst: Annotated[int, typer.Option(metavar="N", min=0, help="Show the N sentences with the lowest chrF++.")] = 0,
    save_output: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep RUN's translations here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Score translations with sacreBLEU: BLEU, chrF++ and TER, with 95% intervals and signatures."""
    if (run is None) == (output is None):
        raise UserError("what is to be scored?", hint="give a run and --source FILE, or --output FILE alone")
    if save_output is not None and output is not None:
        raise UserError("--save-output is for the translations of a run", hint="leave it out, or give RUN")
    from regard.evaluate import check_tokenizer, read_test_set, score

    check_tokenizer(tokenize)
    check_destination(save_output, [*reference, source])
    test_set = read_test_set(reference, source)
    if output is not None:
        outputs = test_set.read_outputs(output)
    else:
        outputs = _translate(run or Path(), test_set, beam, engine, target, length_penalty)
    if save_output is not None:
        _save(save_output, outputs)
    warn_if_tokenized(outputs, "outputs")
    scores = score(outputs, test_set.references, lowercase=lowercase, tokenize=tokenize)
    if as_json:
        report = scores.to_dict() | {"worst": [_sentence(i, scores, test_set, outputs) for i in scores.worst(worst)]}
        sys.stdout.write(json.dumps(report, ensure_ascii=False, indent=2) + "\n")
    else:
        _show(scores, test_set, outputs, worst)


def outputs_of(
    paths: Sequence[Path], test_set: "TestSet", *, beam: int, engine: EngineName, target: str | None = None
) -> list[list[str]]:
    """What the models in directories make of the sources, or the lines of output files: these first, being quick."""
    known = {path: test_set.read_outputs(path) for path in paths if not path.is_dir()}
    return [known[path] if path in known else _translate(path, test_set, beam, engine, target) for path in paths]


def check_destination(path: Path | None, inputs: Iterable[Path | None]) -> None:
    """Better before the work than after it."""
    if path is None:
        return
    if not path.parent.is_dir() or (path.exists() and not path.is_file()):
        raise UserError(f"{path} can not be written", hint="give the name of a file in a directory that is there")
    if path.resolve() in {one.resolve() for one in inputs if one is not None}:
        raise UserError(f"{path} is what is to be read, and would be written over", hint="give another name")


def _translate(
    path: Path,
    test_set: "TestSet",
    beam: int,
    engine: EngineName,
    target: str | None,
    length_penalty: float | None = None,
) -> list[str]:
    if test_set.sources is None:
        raise UserError(f"{path} is a model: it needs something to translate", hint="give --source FILE")
    from regard.cli.translate.stream import line_progress
    from regard.translator import Translator

    sources, outputs = test_set.sources, []
    sys.stderr.write(f"translating {len(sources):,} lines with {path}\n")
    with Translator.load(path, engine=engine) as translator, line_progress(len(sources)) as advance:
        defaults = translator.options
        penalty = defaults.length_penalty if length_penalty is None else length_penalty
        options = replace(defaults, beam=beam, length_penalty=penalty)
        for translation in translator.translate_iter(sources, options=options, target=target, batch_size=_BATCH_LINES):
            outputs.append(translation.text)
            advance(1)
    return outputs


def warn_if_tokenized(outputs: list[str], name: str) -> None:
    """sacreBLEU wants text as people write it; text in separated tokens gets a wrong score, silently."""
    n_tokenized = sum(line.endswith((" .", " 。")) for line in outputs)
    if n_tokenized > _TOKENIZED_SHARE * len(outputs):
        sys.stderr.write(f"warning: {n_tokenized:,} of {len(outputs):,} {name} end in ' .': detokenise them first\n")


def aligned(rows: list[tuple[str, ...]]) -> str:
    """Columns of plain text, all but the outer two to the right. Nothing is cut: a terminal wraps, a pipe need not."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        first, *middle, last = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join([first.strip().ljust(widths[0]), *middle, last.strip()]).rstrip())
    return "".join(f"{line}\n" for line in lines)


def visible(text: str) -> str:
    """Text that can not move a terminal's cursor or break a line."""
    return "".join(repr(one)[1:-1] if unicodedata.category(one) in _INVISIBLE else one for one in text)


def _save(path: Path, outputs: list[str]) -> None:
    from regard.durable import write_file

    write_file(path, "".join(f"{line}\n" for line in outputs).encode())


def _sentence(i: int, scores: "Scores", test_set: "TestSet", outputs: list[str]) -> dict[str, object]:
    return {
        "line": i + 1,
        "chrf": scores.sentence_chrf[i],
        "source": None if test_set.sources is None else test_set.sources[i],
        "references": [lines[i] for lines in test_set.references],
        "output": outputs[i],
    }


def _show(scores: "Scores", test_set: "TestSet", outputs: list[str], n_worst: int) -> None:
    rows: list[tuple[str, ...]] = [("measure", "value", "95% interval", "signature")]
    for one in scores.all:
        interval = f"{one.interval.low:.2f} – {one.interval.high:.2f}"
        rows.append((one.name, f"{one.value:.2f}", interval, one.signature))
    sys.stdout.write(aligned(rows))
    for i in scores.worst(n_worst):
        sys.stdout.write(f"\nline {i + 1}, chrF++ {scores.sentence_chrf[i]:.1f}\n")
        if test_set.sources is not None:
            sys.stdout.write(f"  source     {visible(test_set.sources[i])}\n")
        for lines in test_set.references:
            sys.stdout.write(f"  reference  {visible(lines[i])}\n")
        sys.stdout.write(f"  output     {visible(outputs[i])}\n")

"""`regard translate`: stdin to stdout, or files to files; line i of the output is line i of the input."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.evaluate import Beam, Engine, LengthPenalty, Target
from regard.errors import UserError


def translate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run, or a model directory.")],
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILES]", help="Default: standard input.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="A file, or for several FILES a directory.")
    ] = None,
    form: Annotated[
        Literal["text", "tsv", "jsonl"],
        typer.Option("--format", help="tsv: score, text. jsonl: scores, tokens, alignments, alternatives."),
    ] = "text",
    beam: Beam = 4,
    nbest: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="How many translations (tsv, jsonl).")] = 1,
    sample: Annotated[
        float | None, typer.Option(metavar="T", min=0.01, help="Draw at this temperature instead of searching.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**32 - 2, help="For --sample.")] = 1,
    length_penalty: LengthPenalty = None,
    prefix: Annotated[str | None, typer.Option(metavar="TEXT", help="What every translation begins with.")] = None,
    target: Target = None,
    engine: Engine = "auto",
    precision: Annotated[Literal["int8", "float32"], typer.Option(help="Of CTranslate2.")] = "int8",
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Default: one a core.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted --out.")] = False,
    warnings: Annotated[
        bool, typer.Option("--warnings", help="List lines that loop, copy, or are far too short or long.")
    ] = False,
) -> None:
    """Translate lines. A blank line stays blank; a long one is split at its sentence ends and joined again."""
    if nbest > 1 and form == "text":
        raise UserError("--nbest needs --format tsv or jsonl", hint="text has one line for each line")
    if nbest > beam and sample is None:
        raise UserError(f"--nbest {nbest} needs a beam of at least {nbest}", hint=f"add --beam {nbest}")
    if resume and out is None:
        raise UserError("--resume needs --out FILE", hint="what went to standard output can not be taken up again")
    from regard.cli.translate.output import Audit, Form
    from regard.cli.translate.stream import DETAILED_CHARACTERS, WINDOW_CHARACTERS, Job, Stream, jobs_of
    from regard.decoding.options import Sampling
    from regard.translator import Translator

    jobs: list[Job] = jobs_of(files or [], out)
    sampling = Sampling(temperature=sample, seed=seed) if sample is not None else None
    audit = Audit(list_warnings=warnings)
    with Translator.load(run, engine=engine, precision=precision, threads=threads) as translator:
        usual = translator.options
        options = replace(
            usual,
            beam=1 if sampling is not None else beam,
            length_penalty=usual.length_penalty if length_penalty is None else length_penalty,
            n_best=nbest,
            sampling=sampling,
        )
        shape = Form(form, options, prefix, target)
        bound = DETAILED_CHARACTERS if form == "jsonl" else WINDOW_CHARACTERS
        identity, keep = shape.identity(translator), len(jobs) > 1
        streams = [Stream(job, resume=resume, identity=identity, max_characters=bound, keep=keep) for job in jobs]
        for stream in streams:
            if not stream.done:
                stream.run(lambda lines: shape.begin(translator, lines, audit), audit)
        for stream in streams:
            stream.forget()
    for line in audit.lines():
        sys.stderr.write(line + "\n")

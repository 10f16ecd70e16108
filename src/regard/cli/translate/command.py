"""`regard translate`: stdin to stdout, or files to files; line i of the output is line i of the input."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.evaluate import Beam, Engine, LengthPenalty, Target
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.cli.translate.output import Audit, OutputFormat
    from regard.cli.translate.stream import LineStream
    from regard.translator import Translator


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
        raise UserError("--nbest needs --format tsv or jsonl", hint="text has one translation per line")
    if nbest > beam and sample is None:
        raise UserError(f"--nbest {nbest} needs a beam of at least {nbest}", hint=f"add --beam {nbest}")
    if resume and out is None:
        raise UserError("--resume needs --out FILE", hint="output to a pipe cannot be resumed")
    from regard.cli.translate.output import Audit, OutputFormat
    from regard.cli.translate.stream import LineStream, file_pairs
    from regard.decoding.options import Sampling
    from regard.translator import Translator
    from regard.translator.translator import BATCH_CHARACTERS, DETAILED_BATCH_CHARACTERS

    pairs = file_pairs(files or [], out)
    sampling = Sampling(temperature=sample, seed=seed) if sample is not None else None
    audit = Audit(list_warnings=warnings)
    with Translator.load(run, engine=engine, precision=precision, threads=threads) as translator:
        defaults = translator.options
        options = replace(
            defaults,
            beam=1 if sampling is not None else beam,
            length_penalty=defaults.length_penalty if length_penalty is None else length_penalty,
            n_best=nbest,
            sampling=sampling,
        )
        output = OutputFormat(form, options, prefix, target)
        limit = DETAILED_BATCH_CHARACTERS if output.needs_details else BATCH_CHARACTERS
        identity, several = output.identity(translator), len(pairs) > 1
        streams = [
            LineStream(pair, resume=resume, identity=identity, max_characters=limit, keep_state=several)
            for pair in pairs
        ]
        for stream in streams:
            if not stream.finished:
                _translate_stream(translator, stream, output, audit)
        for stream in streams:
            stream.remove_state()
    for line in audit.lines():
        sys.stderr.write(line + "\n")


def _translate_stream(translator: "Translator", stream: "LineStream", output: "OutputFormat", audit: "Audit") -> None:
    """Translate one input; the engine translates the next batch while this one is written."""
    audit.start_file(stream.name, stream.n_written)
    results = translator.translate_batches(
        stream.batches(),
        options=output.options,
        prefix=output.prefix,
        target=output.target,
        details=output.needs_details,
    )
    with stream.writer() as write:
        for lines, translations in results:
            for translation in translations:
                audit.record(translation)
            write("".join(map(output.format, lines, translations)), len(lines))
    audit.end_file(stream.read_notes)

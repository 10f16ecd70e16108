"""`regard translate`: line i of the output is the translation of line i of the input."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.evaluate import Beam, Engine, LengthPenalty, Target
from regard.cli.parts import Part, Ray, parse_part
from regard.errors import DataError, UserError

if TYPE_CHECKING:
    from regard.cli.translate.stream import FilePair


def translate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory or model directory.")],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILES]", help="Files to translate (default: standard input).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Output file; with several FILES, a directory.")
    ] = None,
    form: Annotated[
        Literal["text", "tsv", "jsonl"],
        typer.Option("--format", help="text; tsv: score, tab, text; jsonl: also tokens, alignment, alternatives."),
    ] = "text",
    beam: Beam = 4,
    nbest: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Translations per line (tsv, jsonl).")] = 1,
    sample: Annotated[
        float | None, typer.Option(metavar="T", min=0.01, help="Sample at this temperature instead of beam search.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**32 - 2, help="Random seed for --sample.")] = 1,
    length_penalty: LengthPenalty = None,
    prefix: Annotated[str | None, typer.Option(metavar="TEXT", help="Text that every translation starts with.")] = None,
    target: Target = None,
    engine: Engine = "auto",
    precision: Annotated[
        Literal["int8", "float32"] | None,
        typer.Option(help="Precision of ctranslate2 (default: int8, or float32 if int8 loses quality)."),
    ] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Threads (default: one per core).")] = None,
    no_split: Annotated[
        bool, typer.Option("--no-split", help="Translate a line as a whole, not sentence by sentence.")
    ] = False,
    protect: Annotated[
        list[str] | None,
        typer.Option(metavar="REGEX", help="Keep what this matches, like numbers and placeholders. Repeatable."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted command; needs --out.")] = False,
    part: Part = None,
    join: Annotated[
        bool, typer.Option("--join", help="Join the parts of --out, when all have been translated.")
    ] = False,
    ray: Ray = None,
    parts: Annotated[int, typer.Option(metavar="N", min=1, help="With --ray: the number of parts.")] = 16,
    warnings: Annotated[
        bool, typer.Option("--warnings", help="List the doubtful translations, with line numbers and reasons.")
    ] = False,
) -> None:
    """Translate text line by line. Blank lines stay blank; the sentences of a line are translated one by one."""
    given = dict(locals())
    if nbest > 1 and form == "text":
        raise UserError("--nbest needs --format tsv or jsonl", hint="text has one translation per line")
    if nbest > beam and sample is None:
        raise UserError(f"--nbest {nbest} needs a beam of at least {nbest}", hint=f"add --beam {nbest}")
    if resume and out is None:
        raise UserError("--resume needs --out FILE", hint="output to a pipe cannot be resumed")
    if (part is not None or join or ray is not None) and _is_joined(given, files or [], out):
        return
    from regard.cli.model_path import model_path
    from regard.cli.translate.output import Audit, OutputFormat, translate_stream
    from regard.cli.translate.stream import LineStream, file_pairs
    from regard.decoding.options import Sampling
    from regard.translator import Translator
    from regard.translator.translator import BATCH_CHARACTERS, DETAILED_BATCH_CHARACTERS

    pairs = file_pairs(files or [], out, run)
    lines = None
    if part is not None:
        lines, pairs = _part(pairs[0], parse_part(part))
    sampling = Sampling(temperature=sample, seed=seed) if sample is not None else None
    audit = Audit(list_warnings=warnings)
    with Translator.load(
        model_path(run), engine=engine, precision=precision, threads=threads, protect=protect or ()
    ) as translator:
        defaults = translator.options
        options = replace(
            defaults,
            beam=1 if sampling is not None else beam,
            length_penalty=defaults.length_penalty if length_penalty is None else length_penalty,
            n_best=nbest,
            sampling=sampling,
        )
        output = OutputFormat(form, options, prefix, target, not no_split)
        limit = DETAILED_BATCH_CHARACTERS if output.needs_details else BATCH_CHARACTERS
        identity, keep = output.identity(translator), len(pairs) > 1 or part is not None
        streams = [
            LineStream(pair, resume=resume, identity=identity, max_characters=limit, keep_state=keep, lines=lines)
            for pair in pairs
        ]
        for stream in streams:
            if not stream.sink.finished:
                translate_stream(translator, stream, output, audit)
        for stream in streams if part is None else ():  # --join needs it
            stream.sink.remove_state()
    sys.stderr.writelines(f"{line}\n" for line in audit.lines())


def _is_joined(given: dict[str, Any], files: list[Path], out: Path | None) -> bool:
    """Translate parts on a cluster and join them, or only join them; False if there is a part to translate here."""
    from regard.cli.translate.parts import join_parts
    from regard.cli.translate.stream import line_progress
    from regard.ray_tasks import ray_map

    if len(files) != 1 or out is None or out.is_dir():
        raise UserError("--part, --join and --ray need one FILE and --out FILE", hint="name both files")
    if not files[0].is_file():
        raise DataError(f"{files[0]}: no such file", hint="check the path")
    if given["part"] is not None:
        return False
    if given["ray"] is not None:
        places = {"run": given["run"].absolute(), "files": [files[0].absolute()], "out": out.absolute()}
        n = given["parts"]
        tasks = [given | places | {"ray": None, "resume": True, "part": f"{i}/{n}"} for i in range(1, n + 1)]
        with line_progress(n, noun="parts") as advance:
            for _ in ray_map(translate_part, tasks, given["ray"], whole_machines=True):
                advance(1)
    sys.stderr.write(f"{join_parts(files[0], out):,} lines in {out}\n")
    return True


def _part(pair: "FilePair", part: tuple[int, int]) -> tuple[range, list["FilePair"]]:
    """The lines of a part, and where they are written."""
    from regard.cli.translate.parts import part_lines, part_path

    assert pair.source is not None and pair.out is not None
    return part_lines(pair.source, part), [replace(pair, out=part_path(pair.out, part))]


def translate_part(arguments: dict[str, Any]) -> None:
    """Translate one part of a file, in a task on a cluster."""
    translate(**arguments)

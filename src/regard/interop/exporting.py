"""From one of our model directories to the format of other software."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from regard import __version__
from regard.artifact import describe, load_described
from regard.durable import commit_directory
from regard.engines.ctranslate2.convert import Quantization
from regard.errors import ArtifactError, RecipeError, RunError
from regard.interop.argos.package import export_argos
from regard.interop.ctranslate2 import export_ctranslate2
from regard.interop.marian.write import export_huggingface
from regard.interop.onnx.export import export_onnx
from regard.interop.original import Exported, OnProgress, Original, Target, read_card
from regard.interop.probe import make_probe
from regard.models import Transformer

Exporter = Callable[[Original, Target], Exported]

# To write another format, add a line.
EXPORTERS: dict[str, Exporter] = {
    "huggingface": export_huggingface,
    "ctranslate2": export_ctranslate2,
    "argos": export_argos,
    "onnx": export_onnx,
}


def export_model(
    path: Path, kind: str, out: Path, quantization: Quantization | None = None, on_progress: OnProgress | None = None
) -> Exported:
    """Writes the directory `out` completely or not at all; raises ArtifactError if the model cannot be represented.

    The files are compared with the model, by the code of the other software where it is installed, before `out` is
    made. `quantization` is that of the formats that store it; by default each has its own.
    """
    if kind not in EXPORTERS:
        raise RecipeError(f"there is no format {kind!r}", hint=f"use one of {', '.join(EXPORTERS)}")
    if os.path.lexists(out):
        raise RunError(f"{out} exists already", hint="choose another directory, or remove it first")
    if kind == "huggingface" and quantization is not None:
        raise RecipeError("--quantization is not for huggingface, whose weights are float32", hint="drop it")
    report = on_progress or (lambda stage, done, total: None)
    report("reading the model", 0, None)
    described = describe(path)
    loaded = load_described(described)
    if not isinstance(loaded.model, Transformer):
        raise ArtifactError(
            f"{path}: only translators of the architecture 'transformer' can be exported, not {loaded.architecture!r} "
            f"for {loaded.task}"
        )
    original = Original(described, loaded, make_probe(described, loaded), report)
    results: list[Exported] = []

    def write(directory: Path) -> None:
        exported = EXPORTERS[kind](original, Target(directory, quantization))
        (directory / "README.md").write_text(_card(original, exported, directory), encoding="utf-8")
        results.append(exported)

    commit_directory(out, write)
    return results[0]


def _card(original: Original, exported: Exported, directory: Path) -> str:
    """The README.md: how to use the files, what was verified, and the card of the model itself."""
    files = sorted(path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    listed = "".join(f"- `{name}`: {(directory / name).stat().st_size:,} bytes\n" for name in files)
    notes = "".join(f"- {note}\n" for note in exported.notes)
    checks = "".join(f"- {check}\n" for check in exported.verified)
    missing = "".join(f"- not verified: {check}\n" for check in exported.not_verified)
    return f"""{exported.front_matter}# {original.title}

Exported by regard {__version__}.

{exported.usage}

## What to know

{notes}
## Verified

{checks}{missing}
## Files

{listed}
## The model

{read_card(original.described)}"""

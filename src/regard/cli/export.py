"""`regard export`: one of our models in the format of other software."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory or model directory of a translator.")],
    to: Annotated[
        Literal["huggingface", "ctranslate2", "argos", "onnx"],
        typer.Option(
            help="huggingface: for transformers. ctranslate2: with SentencePiece models. argos: a package for Argos "
            "Translate and LibreTranslate. onnx: for onnxruntime."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The directory to write; it must not exist.")],
    quantization: Annotated[
        Literal["int8", "float32"] | None,
        typer.Option(
            help="Weights of ctranslate2, argos and onnx (default: int8, unless the training measured that it loses "
            "quality; onnx: both)."
        ),
    ] = None,
) -> None:
    """Export a translator to other software, and compare the result with the model before anything is written."""
    from regard.cli.display import TrainingDisplay
    from regard.cli.model_path import model_path
    from regard.interop.exporting import export_model

    with TrainingDisplay(sys.stderr) as display:
        exported = export_model(model_path(run), to, out, quantization, display.on_progress)
        for label, sentences in (
            ("verified", exported.verified),
            ("not verified", exported.not_verified),
            ("note", exported.notes),
        ):
            for sentence in sentences:
                display.print(f"{label}: {sentence}")
        display.print(f"{out} is written; {out / 'README.md'} has an example")

"""`regard import`: a model of other software as a model directory."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def import_model(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A model directory of Hugging Face transformers.")],
    out: Annotated[Path, typer.Option(metavar="RUN", help="The model directory to write; it must not exist.")],
) -> None:
    """Import a model that was trained with other software, such as OPUS-MT. Nothing in its files is executed."""
    from regard.interop.importing import import_model

    sys.stderr.write(f"reading {directory}\n")
    imported = import_model(directory, out)
    sys.stderr.writelines(f"note: {note}\n" for note in imported.notes)
    sys.stderr.write(f"{out}: {imported.spec.task}, {imported.spec.config.describe()}\n")

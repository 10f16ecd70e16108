"""From a model directory of other software to one of ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from regard import __version__
from regard.artifact import LoadedModel, save_model
from regard.errors import ArtifactError, RunError
from regard.interop.encoders.read import import_bert, import_electra, import_xlnet
from regard.interop.encoders.vit import import_vit
from regard.interop.foreign import ForeignModel, Imported
from regard.interop.marian.read import import_marian, import_pegasus
from regard.models import load_weights, named_weights
from regard.tasks import TASKS

Importer = Callable[[ForeignModel], Imported]

# By the model_type of config.json. To read another kind of model, add a line.
IMPORTERS: dict[str, Importer] = {
    "marian": import_marian,
    "pegasus": import_pegasus,
    "bert": import_bert,
    "electra": import_electra,
    "xlnet": import_xlnet,
    "vit": import_vit,
}


def import_model(directory: Path, out: Path) -> Imported:
    """Writes the model directory `out`; raises ArtifactError with the reason if the model cannot be represented."""
    if os.path.lexists(out):
        raise RunError(f"{out} exists already", hint="choose another directory, or remove it first")
    foreign = ForeignModel(directory)
    kind = foreign.value("model_type", "")
    if kind not in IMPORTERS:
        raise ArtifactError(
            f"{directory / 'config.json'}: models of the type {kind!r} cannot be imported",
            hint=f"these can: {', '.join(IMPORTERS)}",
        )
    imported = IMPORTERS[kind](foreign)
    spec, task = imported.spec, TASKS[imported.spec.task]
    model = spec.build()
    load_weights(model, imported.weights)
    facts = {"imported_from": kind, "n_parameters": model.n_parameters, **imported.facts}
    loaded = LoadedModel(spec.architecture, spec.config, model.eval(), imported.tokenizers, facts, spec.task)
    save_model(
        out,
        spec=spec,
        weights=named_weights(model),
        assets=imported.assets,
        facts=facts,
        card=_card(foreign, imported, model.n_parameters),
        write_more=lambda path: task.export(loaded, path),
    )
    return imported


def _card(foreign: ForeignModel, imported: Imported, n_parameters: int) -> str:
    """The README.md of the model directory."""
    spec, task = imported.spec, TASKS[imported.spec.task]
    notes = "".join(f"- {note}\n" for note in imported.notes)
    return f"""# {task.title}, imported

Imported by regard {__version__} from {foreign.directory.resolve().name}, a model of the type
"{foreign.value("model_type", "")}" of Hugging Face transformers. The licence is that of the original.

- size: {spec.config.describe()}, {n_parameters / 1e6:.1f}M parameters
{notes}
`config.json` has the architecture and its sizes, `model.safetensors` the weights, and `manifest.json` a checksum of
every file. Nothing here is executable.

    {task.usage}
"""

"""Imports directories of ViTForImageClassification, with the labels and the statistics of its images."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from pydantic import ValidationError
from torch import Tensor

from regard.interop.encoders.names import renamed
from regard.interop.encoders.read import read_weights
from regard.interop.foreign import ForeignModel, Imported
from regard.models import ARCHITECTURES, ModelSpec
from regard.tasks.classes import LABELS_FILE

_PREPROCESSOR = "preprocessor_config.json"
_LAYER = r"vit\.encoder\.layer\.(\d+)\."
_NAMES = (
    (r"vit\.embeddings\.patch_embeddings\.projection", "patches.project"),
    (_LAYER + r"attention\.attention\.(query|key|value)", r"encoder.\1.self_attention.\2"),
    (_LAYER + r"attention\.output\.dense", r"encoder.\1.self_attention.out"),
    (_LAYER + r"layernorm_before", r"encoder.\1.residuals.0.norm"),
    (_LAYER + r"layernorm_after", r"encoder.\1.residuals.1.norm"),
    (_LAYER + r"intermediate\.dense", r"encoder.\1.feed_forward.inner"),
    (_LAYER + r"output\.dense", r"encoder.\1.feed_forward.outer"),
    (r"vit\.layernorm", "encoder_norm"),
    (r"classifier", "output"),
)
_CLASS_TOKEN, _POSITIONS = "vit.embeddings.cls_token", "vit.embeddings.position_embeddings"
_WHOLE = {_CLASS_TOKEN: "patches.class_token", _POSITIONS: "patches.positions.table"}
_DEFAULT_STATISTICS = 0.5  # mean and standard deviation of the original's preprocessing


def vit_weights(theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a ViTForImageClassification under our names; a patch is a row, not a square."""
    ours = renamed(theirs, _NAMES, _WHOLE)
    changes: dict[str, Callable[[Tensor], Tensor]] = {
        "patches.project.weight": lambda kernels: kernels.flatten(1),
        "patches.class_token": lambda token: token.flatten(),
        "patches.positions.table": lambda table: table.flatten(0, 1),
    }
    return {name: changes[name](tensor) if name in changes else tensor for name, tensor in ours.items()}


def import_vit(foreign: ForeignModel) -> Imported:
    """The pooler, which this model does not use, is left out."""
    names = frozenset(foreign.weights.shapes)
    if "classifier.weight" not in names:
        raise foreign.refused("the model has no classifier: only ViTForImageClassification can be imported")
    foreign.require("qkv_bias", True, True)
    values = {
        "patch": foreign.value("patch_size", 16),
        "n_layers": foreign.value("num_hidden_layers", 12),
        "d_model": foreign.value("hidden_size", 768),
        "d_ff": foreign.value("intermediate_size", 3072),
        "n_heads": foreign.value("num_attention_heads", 12),
        "dropout": foreign.value("hidden_dropout_prob", 0.0),
        "norm_epsilon": foreign.value("layer_norm_eps", 1e-12),
    }
    foreign.require("hidden_act", "gelu", "gelu")
    try:
        config = ARCHITECTURES["vit"].config.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise foreign.refused(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    side, n_channels = foreign.value("image_size", 224), foreign.value("num_channels", 3)
    n_classes = foreign.weights.shapes["classifier.weight"][0]
    if n_channels not in (1, 3) or side < 1:
        raise foreign.refused(f"images of {side} pixels and {n_channels} channels have no counterpart in regard")
    sizes = {"n_classes": n_classes, "height": side, "width": side, "n_channels": n_channels}
    spec = ModelSpec("images", "vit", config, sizes)
    unused = tuple(name for name in names if name.startswith("vit.pooler."))
    weights = read_weights(foreign, spec, vit_weights, unused)
    labels = _labels(foreign, n_classes)
    return Imported(
        spec=spec,
        weights=weights,
        assets={LABELS_FILE: json.dumps(labels, ensure_ascii=False).encode()},
        facts={"images": _statistics(foreign, n_channels)},
        notes=("images of other sizes are stretched, with bilinear interpolation, as by its own preprocessing",),
    )


def _labels(foreign: ForeignModel, n_classes: int) -> list[str]:
    """Names that several classes have get the number of the class."""
    given = foreign.value("id2label", dict[str, Any]())
    names = [str(given.get(str(i), i)) for i in range(n_classes)]
    counts = Counter(names)
    return [f"{name} ({i})" if counts[name] > 1 else name for i, name in enumerate(names)]


def _statistics(foreign: ForeignModel, n_channels: int) -> dict[str, list[float]]:
    """From the configuration of its preprocessing, if there is one."""
    stored = foreign.json(_PREPROCESSOR) if foreign.has(_PREPROCESSOR) else {}
    statistics = {}
    for name, key in (("mean", "image_mean"), ("std", "image_std")):
        values = stored.get(key, [_DEFAULT_STATISTICS] * n_channels)
        is_list = isinstance(values, list) and len(values) == n_channels
        if not is_list or not all(
            isinstance(v, int | float) and isfinite(v) and (v > 0 or name == "mean") for v in values
        ):
            raise foreign.refused(f"{_PREPROCESSOR}: {key} is not a number for each of {n_channels} channels")
        statistics[name] = [float(v) for v in values]
    return statistics

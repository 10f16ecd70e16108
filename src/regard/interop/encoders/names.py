"""The names of the weights of BERT, ELECTRA and XLNet in transformers, and here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from regard.errors import ArtifactError

Renames = Iterable[tuple[str, str]]  # patterns of whole names without ".weight" and ".bias", and replacements

_EMBEDDINGS = (
    (r"embeddings\.word_embeddings", "embedding.words.embedding"),
    (r"embeddings\.token_type_embeddings", "embedding.segments"),
    (r"embeddings\.LayerNorm", "embedding.norm"),
)
_LAYERS = (
    (r"encoder\.layer\.(\d+)\.attention\.self\.(query|key|value)", r"encoder.layers.\1.self_attention.\2"),
    (r"encoder\.layer\.(\d+)\.attention\.output\.dense", r"encoder.layers.\1.self_attention.out"),
    (r"encoder\.layer\.(\d+)\.attention\.output\.LayerNorm", r"encoder.layers.\1.residuals.0.norm"),
    (r"encoder\.layer\.(\d+)\.intermediate\.dense", r"encoder.layers.\1.feed_forward.inner"),
    (r"encoder\.layer\.(\d+)\.output\.dense", r"encoder.layers.\1.feed_forward.outer"),
    (r"encoder\.layer\.(\d+)\.output\.LayerNorm", r"encoder.layers.\1.residuals.1.norm"),
)
_POSITIONS = "embeddings.position_embeddings.weight"
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}  # of the first releases


def bert_weights(theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a BertForPreTraining under our names; raises ArtifactError for a name that is not known."""
    heads = (
        (r"bert\.pooler\.dense", "bert.pooler"),
        (r"cls\.predictions\.transform\.dense", "words.dense"),
        (r"cls\.predictions\.transform\.LayerNorm", "words.norm"),
        (r"cls\.predictions", "words"),
        (r"cls\.seq_relationship", "next"),
    )
    body = ((rf"bert\.{old}", f"bert.{new}") for old, new in (*_EMBEDDINGS, *_LAYERS))
    given = {name: t for name, t in _current(theirs).items() if not name.startswith("cls.predictions.decoder")}
    positions = {f"bert.{_POSITIONS}": "bert.embedding.words.positions.table"}
    return renamed(given, (*body, *heads), positions)


def electra_weights(theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of an ElectraForPreTraining, the encoder without its generator."""
    heads = (
        (r"discriminator_predictions\.dense_prediction", "replaced"),
        (r"discriminator_predictions\.dense", "dense"),
    )
    return _electra_renamed(theirs, "electra", heads)


def generator_weights(theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of an ElectraForMaskedLM, as those of a BERT with narrow embeddings."""
    heads = (
        (r"generator_predictions\.dense", "words.dense"),
        (r"generator_predictions\.LayerNorm", "words.norm"),
        (r"generator_lm_head", "words"),
    )
    given = {name: tensor for name, tensor in theirs.items() if name != "generator_lm_head.weight"}
    return _electra_renamed(given, "bert", heads)


def xlnet_weights(theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of an XLNetLMHeadModel. In attention it has (D, H, K) where a linear layer has (H · K, D)."""
    attention = {"q": "query", "k": "key", "v": "value", "r": "distance"}
    biases = {"r_w_bias": "self_attention.biases.u", "r_r_bias": "self_attention.biases.v", "r_s_bias": "segment_bias"}
    whole = {"transformer.mask_emb": "query", "transformer.word_embedding.weight": "xlnet.words.embedding.weight"}
    given: dict[str, Tensor] = {}
    for name, tensor in theirs.items():
        prefix, _, part = name.rpartition(".rel_attn.")
        if name in whole:
            given[name] = tensor.flatten() if name.endswith("mask_emb") else tensor
        elif part in attention:
            given[f"{prefix}.{attention[part]}.weight"] = tensor.flatten(1).T
        elif part == "o":
            given[f"{prefix}.out.weight"] = tensor.flatten(1)
        elif part in biases or part == "seg_embed":
            number = prefix.removeprefix("transformer.layer.")
            whole[name] = f"xlnet.layers.{number}.{biases.get(part, 'segments')}"
            given[name] = tensor
        elif name != "lm_loss.weight":
            given[name] = tensor
    layer = r"transformer\.layer\.(\d+)"
    patterns = (
        (rf"{layer}\.(query|key|value|distance|out)", r"xlnet.layers.\1.self_attention.\2"),
        (rf"{layer}\.rel_attn\.layer_norm", r"xlnet.layers.\1.residuals.0.norm"),
        (rf"{layer}\.ff\.layer_norm", r"xlnet.layers.\1.residuals.1.norm"),
        (rf"{layer}\.ff\.layer_1", r"xlnet.layers.\1.feed_forward.inner"),
        (rf"{layer}\.ff\.layer_2", r"xlnet.layers.\1.feed_forward.outer"),
    )
    return renamed(given, patterns, whole | {"lm_loss.bias": "bias"})


def _electra_renamed(theirs: Mapping[str, Tensor], body: str, heads: Renames) -> dict[str, Tensor]:
    project = (r"embeddings_project", "encoder.project")
    layers = ((rf"electra\.{old}", f"{body}.{new}") for old, new in (*_EMBEDDINGS, *_LAYERS, project))
    positions = {f"electra.{_POSITIONS}": f"{body}.embedding.words.positions.table"}
    return renamed(_current(theirs), (*layers, *heads), positions)


def renamed(theirs: Mapping[str, Tensor], patterns: Renames, whole: Mapping[str, str]) -> dict[str, Tensor]:
    """Tensors under our names; `whole` has names that are not a pattern and ".weight" or ".bias"."""
    table = tuple((re.compile(pattern), name) for pattern, name in patterns)
    ours: dict[str, Tensor] = {}
    for name, tensor in theirs.items():
        ours[whole[name] if name in whole else _renamed(name, table)] = tensor
    for name in [name for name in ours if ".self_attention.query." in name]:
        kinds = (name.replace(".query.", f".{kind}.") for kind in ("query", "key", "value"))
        ours[name.replace(".query.", ".qkv.")] = torch.cat([ours.pop(kind) for kind in kinds])
    return ours


def _renamed(name: str, table: Iterable[tuple[re.Pattern[str], str]]) -> str:
    stem, _, kind = name.rpartition(".")
    for pattern, ours in table:
        if kind in ("weight", "bias") and (match := pattern.fullmatch(stem)):
            return f"{match.expand(ours)}.{kind}"
    raise ArtifactError(f"{name!r} is no weight of this architecture")


def _current(theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Without buffers, and under the names of today."""
    given = {name: tensor for name, tensor in theirs.items() if not name.endswith("position_ids")}
    for old, new in _OLD_NAMES.items():
        given = {name.replace(old, new): tensor for name, tensor in given.items()}
    return given

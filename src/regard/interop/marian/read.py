"""Imports a directory of MarianMTModel, such as OPUS-MT, and what `regard export --to huggingface` wrote."""

from __future__ import annotations

import re
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from regard.interop.foreign import ForeignModel, Imported
from regard.interop.marian.tensors import (
    EMBEDDING,
    FINAL_BIAS,
    LM_HEAD,
    OUTPUT_BIAS,
    POSITIONS,
    SHARED,
    SIDES,
    alternating,
    entries,
)
from regard.interop.marian.vocabulary import Vocabulary, read_tokenizers
from regard.models import ModelSpec, TransformerConfig, named_weights
from regard.nn import sinusoid
from regard.text import TokenizerPair
from regard.text.languages import Languages
from regard.text.vocabulary import BOS_ID, PAD_ID

NEVER = -1e4  # the bias of a token that is never produced; an infinite one would not be a valid weight
MAX_LENGTH = 512  # tokens of a text, if the original does not say less

_EMBEDDINGS = (SHARED, *SIDES, LM_HEAD)  # names that a file may have for the shared matrix
_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
_OPUS_NAME = re.compile(r"opus-mt-(?:tc-\w+-)?([\w]+)-([\w]+)")


def import_marian(foreign: ForeignModel) -> Imported:
    """Post-norm, with one matrix for all embeddings."""
    return _import_layers(foreign, _config(foreign, "post"))


def import_pegasus(foreign: ForeignModel) -> Imported:
    """Pre-norm: what regard exports in this layout has the tokenizer of Marian; Google's models do not."""
    if not foreign.has("source.spm"):
        raise foreign.refused("of the models of the type 'pegasus', only those that regard exported can be imported")
    return _import_layers(foreign, _config(foreign, "pre"))


def _import_layers(foreign: ForeignModel, config: TransformerConfig) -> Imported:
    """The weights and vocabulary, in our order."""
    tokenizers, vocabulary = read_tokenizers(foreign)
    spec = ModelSpec("translation", "transformer", config, tokenizers.sizes)
    weights = _read_weights(foreign, spec, vocabulary)
    if OUTPUT_BIAS not in weights:
        spec = ModelSpec(spec.task, spec.architecture, config.model_copy(update={"output_bias": False}), spec.sizes)
    return Imported(
        spec=spec,
        weights=weights,
        assets=tokenizers.files(),
        facts={"max_length": _max_length(foreign), "languages": _languages(foreign, tokenizers).to_facts()},
        tokenizers=tokenizers,
        notes=_notes(foreign),
    )


def _config(foreign: ForeignModel, norm: str) -> TransformerConfig:
    for key, allowed in (
        ("scale_embedding", True),
        ("tie_word_embeddings", True),
        ("share_encoder_decoder_embeddings", True),
        ("static_position_embeddings", True),
        ("normalize_embedding", False),
    ):
        foreign.require(key, False if key == "scale_embedding" else allowed, allowed)
    foreign.require("normalize_before", norm == "pre", norm == "pre")
    foreign.require("add_final_layer_norm", norm == "pre", norm == "pre")
    for key in ("ffn_dim", "attention_heads"):
        default = 4096 if key == "ffn_dim" else 16
        foreign.require(f"decoder_{key}", default, foreign.value(f"encoder_{key}", default))
    activation = foreign.value("activation_function", "gelu")
    if activation not in _ACTIVATIONS:
        raise foreign.refused(f"activation_function = {activation!r} has no counterpart in regard")
    try:
        return TransformerConfig.model_validate(
            {
                "n_encoder_layers": foreign.value("encoder_layers", 12),
                "n_decoder_layers": foreign.value("decoder_layers", 12),
                "d_model": foreign.value("d_model", 1024),
                "d_ff": foreign.value("encoder_ffn_dim", 4096),
                "n_heads": foreign.value("encoder_attention_heads", 16),
                "dropout": foreign.value("dropout", 0.1),
                "norm": norm,
                "activation": _ACTIVATIONS[activation],
                "output_bias": True,
            }
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise foreign.refused(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _read_weights(foreign: ForeignModel, spec: ModelSpec, vocabulary: Vocabulary) -> dict[str, Tensor]:
    """All tensors by our names. Their shapes are checked before one is read."""
    file, config = foreign.weights, spec.config
    assert isinstance(config, TransformerConfig)
    if config.depth > len(file.shapes):
        raise foreign.refused(f"{file.path.name} has fewer layers")
    own = {name: tensor.shape for name, tensor in named_weights(spec.outline()).items()}
    n_symbols, d_model = foreign.value("vocab_size", 58_101), config.d_model
    expected = {
        name: (own[entry.ours][0] // len(entry.theirs), *own[entry.ours][1:])
        for entry in entries(config)
        for name in entry.theirs
    }
    embeddings = [name for name in _EMBEDDINGS if name in file.shapes] or [SHARED]
    expected |= dict.fromkeys(embeddings, (n_symbols, d_model)) | {FINAL_BIAS: (1, n_symbols)}
    file.require(expected, optional=POSITIONS)
    for name in POSITIONS:
        if name in file.shapes:
            _require_sinusoids(foreign, name, d_model)
    weights = {entry.ours: entry.to_ours([file.read(name) for name in entry.theirs]) for entry in entries(config)}
    embedding = file.read(embeddings[0])
    for name in embeddings[1:]:
        if not torch.equal(embedding, file.read(name)):
            raise foreign.refused(f"{name} is not equal to {embeddings[0]}")
    order = torch.tensor(vocabulary.original_ids)
    weights[EMBEDDING] = embedding[order][:, alternating(d_model)]
    bias = file.read(FINAL_BIAS)[0, order]
    if vocabulary.original_ids[BOS_ID] == vocabulary.original_ids[PAD_ID]:  # never produced by Marian
        bias[[PAD_ID, BOS_ID]] = NEVER
    return weights | ({OUTPUT_BIAS: bias} if bias.any() else {})


def _require_sinusoids(foreign: ForeignModel, name: str, d_model: int) -> None:
    """Positions that were learned, or computed in another way, are refused."""
    shape = foreign.weights.shapes[name]
    if len(shape) != 2 or shape[1] != d_model:
        raise foreign.refused(f"{name} has the shape {shape}")
    table = foreign.weights.read(name)[:, alternating(d_model)]
    if not torch.allclose(table, sinusoid(len(table), d_model), atol=2e-3):  # of files in half precision
        raise foreign.refused(f"{name} is not the table of sines and cosines")


def _max_length(foreign: ForeignModel) -> int:
    """Of a text, without the end token, which is included in theirs."""
    stated = _tokenizer_config(foreign).get("model_max_length")
    limits = [MAX_LENGTH, foreign.value("max_position_embeddings", 1024)]
    return min([*limits, stated] if isinstance(stated, int) and stated > 1 else limits) - 1


def _tokenizer_config(foreign: ForeignModel) -> dict[str, Any]:
    return foreign.json("tokenizer_config.json") if foreign.has("tokenizer_config.json") else {}


def _languages(foreign: ForeignModel, tokenizers: TokenizerPair) -> Languages:
    """From the tokenizer's configuration, else from the name of the directory, as far as these are single languages."""
    known = _tokenizer_config(foreign)
    source, target = known.get("source_lang"), known.get("target_lang")
    if not source and (match := _OPUS_NAME.search(foreign.directory.resolve().name)):
        source, target = match.groups()
    targets = list(tokenizers.source.tags or [target])
    return Languages.from_facts({"languages": {"source": source, "targets": targets}})


def _notes(foreign: ForeignModel) -> tuple[str, ...]:
    return ("beam search and length penalty are those of regard; generation_config.json is not used",)

"""Imports directories of BERT, ELECTRA and XLNet: BertForPreTraining, BertForMaskedLM, ElectraForPreTraining,
ElectraForMaskedLM and XLNetLMHeadModel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from regard.errors import ArtifactError
from regard.interop.encoders.names import bert_weights, electra_weights, generator_weights, xlnet_weights
from regard.interop.encoders.vocabulary import read_unigram, read_wordpiece
from regard.interop.foreign import ForeignModel, Imported
from regard.models import ARCHITECTURES, ModelSpec, named_weights, require_matching_tensors
from regard.text import Tokenizer, TokenizerPair

_N_OTHERS = 3  # [CLS] and two [SEP]
# the matrix before the softmax, which is the embedding, and a second name of its bias
_TIED = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
    "generator_lm_head.weight": "electra.embeddings.word_embeddings.weight",
    "lm_loss.weight": "transformer.word_embedding.weight",
}

Rename = Callable[[Mapping[str, Tensor]], dict[str, Tensor]]


def import_bert(foreign: ForeignModel) -> Imported:
    """Without the weights of the next sentence, as in BertForMaskedLM, the pooler is left out."""
    names = _names(foreign)
    asks_next = "cls.seq_relationship.weight" in names
    values = _sizes(foreign) | {"next_sentence": asks_next}
    unused = () if asks_next else tuple(name for name in names if name.startswith("bert.pooler."))
    return _imported(foreign, "bert", values, bert_weights, unused)


def import_electra(foreign: ForeignModel) -> Imported:
    """The discriminator as an ELECTRA without generator; the generator as a BERT with narrow embeddings."""
    values = _sizes(foreign) | {"d_embedding": foreign.value("embedding_size", 128)}
    if any(name.startswith("generator_") for name in _names(foreign)):
        return _imported(foreign, "bert", values | {"next_sentence": False}, generator_weights)
    return _imported(foreign, "electra", values | {"generator": 0.0}, electra_weights)


def import_xlnet(foreign: ForeignModel) -> Imported:
    """In both directions. The memory plays no part in reading a text that stands alone."""
    foreign.require("ff_activation", "gelu", "gelu")
    foreign.require("attn_type", "bi", "bi")
    foreign.require("clamp_len", -1, -1)
    for key, allowed in (("bi_data", False), ("same_length", False), ("tie_word_embeddings", True)):
        foreign.require(key, allowed, allowed)
    values = {
        "n_layers": foreign.value("n_layer", 24),
        "d_model": foreign.value("d_model", 1024),
        "d_ff": foreign.value("d_inner", 4096),
        "n_heads": foreign.value("n_head", 16),
        "dropout": foreign.value("dropout", 0.1),
        "norm_epsilon": foreign.value("layer_norm_eps", 1e-12),
    }
    width = values["d_model"] // max(1, values["n_heads"])
    foreign.require("d_head", width, width)
    return _imported(foreign, "xlnet", values, xlnet_weights, read_tokenizer=read_unigram)


def _names(foreign: ForeignModel) -> frozenset[str]:
    return frozenset(foreign.weights.shapes)


def _sizes(foreign: ForeignModel) -> dict[str, Any]:
    """The configuration, as far as both types of model have it. What has no counterpart is refused."""
    foreign.require("hidden_act", "gelu", "gelu")
    foreign.require("position_embedding_type", "absolute", "absolute")
    for key, allowed in (("is_decoder", False), ("add_cross_attention", False), ("tie_word_embeddings", True)):
        foreign.require(key, allowed, allowed)
    is_electra = foreign.value("model_type", "") == "electra"
    return {
        "n_layers": foreign.value("num_hidden_layers", 12),
        "d_model": foreign.value("hidden_size", 256 if is_electra else 768),
        "d_ff": foreign.value("intermediate_size", 1024 if is_electra else 3072),
        "n_heads": foreign.value("num_attention_heads", 4 if is_electra else 12),
        "dropout": foreign.value("hidden_dropout_prob", 0.1),
        "max_positions": foreign.value("max_position_embeddings", 512),
        "norm_epsilon": foreign.value("layer_norm_eps", 1e-12),
    }


def _imported(
    foreign: ForeignModel,
    architecture: str,
    values: Mapping[str, Any],
    rename: Rename,
    unused: tuple[str, ...] = (),
    read_tokenizer: Callable[[ForeignModel], Tokenizer] = read_wordpiece,
) -> Imported:
    try:
        config = ARCHITECTURES[architecture].config.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise foreign.refused(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    tokenizer = read_tokenizer(foreign)
    sizes = {
        "n_symbols": tokenizer.size,
        "n_segments": foreign.value("type_vocab_size", 2),
        "pad_id": tokenizer.pad_id,
    }
    spec = ModelSpec("pretraining", architecture, config, sizes)
    weights = read_weights(foreign, spec, rename, unused)
    return pretrained(spec, weights, tokenizer, config.max_length)


def pretrained(spec: ModelSpec, weights: dict[str, Tensor], tokenizer: Tokenizer, limit: int | None) -> Imported:
    """A pre-trained encoder as a model directory."""
    tokenizers = TokenizerPair(tokenizer, tokenizer)
    notes = ("attention dropout of the original is not used in fine-tuning",)
    facts = {"max_length": max(1, (limit or 515) - _N_OTHERS)}
    return Imported(
        spec=spec, weights=weights, assets=tokenizers.files(), facts=facts, tokenizers=tokenizers, notes=notes
    )


def read_weights(
    foreign: ForeignModel, spec: ModelSpec, rename: Rename, unused: tuple[str, ...] = ()
) -> dict[str, Tensor]:
    """All tensors by our names. Names and shapes are checked before one is read."""
    file = foreign.weights
    if spec.config.depth > len(file.shapes):
        raise foreign.refused(f"{file.path.name} has fewer layers")
    names = [name for name in file.shapes if name not in (*unused, *_TIED)]
    own = named_weights(spec.outline())
    with torch.device("meta"):
        given = rename({name: torch.empty(file.shapes[name]) for name in names})
    try:
        require_matching_tensors(own, given)
    except ArtifactError as error:
        raise ArtifactError(f"{file.path}: {error.message}") from error
    for name in _TIED.keys() & file.shapes.keys():
        if not torch.equal(file.read(name), file.read(_TIED[name])):
            raise foreign.refused(f"{name} is not equal to {_TIED[name]}")
    return rename({name: file.read(name) for name in names})

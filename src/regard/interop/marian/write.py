"""Exports a translator to Hugging Face: MarianMTModel if it is post-norm, Pegasus if it is pre-norm.

Pegasus is the same Transformer with the norms before the sub-layers, and one more behind each stack. Both use
MarianTokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor

from regard.artifact import max_length, search_options
from regard.interop.marian.check import check_huggingface
from regard.interop.marian.read import NEVER
from regard.interop.marian.tensors import (
    EMBEDDING,
    FINAL_BIAS,
    LM_HEAD,
    OUTPUT,
    OUTPUT_BIAS,
    POSITIONS,
    SHARED,
    SIDES,
    TARGET_EMBEDDING,
    alternating,
    entries,
)
from regard.interop.original import Exported, Original, Target
from regard.models import TransformerConfig, named_weights
from regard.nn import sinusoid
from regard.text.standalone import standalone_model
from regard.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

N_POSITIONS = 1024  # of the table that transformers computes when it loads the model
MAX_LENGTH = 512  # of a translation, in tokens

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}


class Ids(NamedTuple):
    """The vocabularies in the order of the export: which of our ids each of theirs is."""

    source: list[int]
    target: list[int]
    starts_with_padding: bool  # as in Marian: one symbol is both padding and the start of the decoder

    def of(self, our_id: int) -> int:
        return self.target.index(our_id)

    @property
    def start(self) -> int:
        return self.of(PAD_ID if self.starts_with_padding else BOS_ID)


def export_huggingface(original: Original, target: Target) -> Exported:
    """config.json, generation_config.json, model.safetensors, and the files of MarianTokenizer."""
    require_representable(original)
    ids = order_ids(original)
    write_tokenizer(original, target, ids)
    original.report("writing the weights", 0, None)
    save_file(_weights(original, ids), target.directory / "model.safetensors", metadata={"format": "pt"})
    write_json(target, "config.json", config_of(original, ids))
    write_json(target, "generation_config.json", generation_config(original, ids))
    verified, not_verified = check_huggingface(original, target.directory, ids.target)
    class_name = config_of(original, ids)["architectures"][0]
    return Exported(
        usage=_USAGE.format(class_name=class_name),
        verified=verified,
        not_verified=not_verified,
        notes=(
            *tokenizer_notes(original),
            f"a text has at most {N_POSITIONS} tokens; in training it was {max_length(original.loaded.facts, None)}",
            "beam search divides by length^penalty here, and by ((5 + length) / 6)^penalty in regard",
            "do not convert this directory with ct2-transformers-converter, which takes padding for the start of the "
            "decoder: `regard export --to ctranslate2` writes that format",
        ),
        front_matter=_front_matter(original),
    )


def require_representable(original: Original) -> None:
    """Raises ArtifactError with the reason if transformers has no such model."""
    config = original.config
    if config.activation not in _ACTIVATIONS:
        raise original.refused(f"neither Marian nor Pegasus has model.activation = {config.activation!r}", _ONNX)
    if config.attention == "additive":
        raise original.refused("neither Marian nor Pegasus has model.attention = 'additive'")
    if config.positions == "learned":
        raise original.refused("neither Marian nor Pegasus has model.positions = 'learned'", _ONNX)
    if config.norm == "pre" and config.tie != "all":
        raise original.refused(
            f"Pegasus, which is pre-norm, has one matrix for all embeddings, not model.tie = {config.tie!r}", _ONNX
        )


_ONNX = "export it --to onnx or ctranslate2"


def order_ids(original: Original) -> Ids:
    """Ours, but an imported model gets back its original order: end, unknown, all others, padding."""
    sizes = original.loaded.tokenizers.sizes
    identity = Ids(list(range(sizes["n_src_symbols"])), list(range(sizes["n_tgt_symbols"])), False)
    weights = named_weights(original.model)
    embedding, bias = weights[EMBEDDING], weights.get(OUTPUT_BIAS)
    if original.config.tie != "all" or bias is None or not bool((bias[[PAD_ID, BOS_ID]] == NEVER).all()):
        return identity
    if not torch.equal(embedding[PAD_ID], embedding[BOS_ID]):
        return identity  # it was fine-tuned
    order = [EOS_ID, UNK_ID, *range(EOS_ID + 1, len(embedding)), PAD_ID]
    return Ids(order, order, True)


def _weights(original: Original, ids: Ids) -> dict[str, Tensor]:
    """All tensors by their names."""
    config, ours = original.config, named_weights(original.model)
    columns = alternating(config.d_model).argsort()
    theirs: dict[str, Tensor] = {}
    for entry in entries(config):
        theirs |= entry.to_theirs(_unscaled(entry.ours, ours[entry.ours], config))

    def matrix(name: str, order: list[int]) -> Tensor:
        return ours[name][torch.tensor(order)][:, columns]

    if config.tie == "all":
        theirs[SHARED] = matrix(EMBEDDING, ids.source)
    else:
        theirs[SIDES[0]], theirs[SIDES[1]] = matrix(EMBEDDING, ids.source), matrix(TARGET_EMBEDDING, ids.target)
    if config.tie == "none":
        theirs[LM_HEAD] = matrix(OUTPUT, ids.target)
    bias = ours.get(OUTPUT_BIAS, torch.zeros(len(original.model.output_weight))).clone()
    if ids.starts_with_padding:
        bias[PAD_ID] = 0  # there, generation_config.json forbids padding
    theirs[FINAL_BIAS] = bias[torch.tensor(ids.target)][None]
    if config.norm == "pre":  # Pegasus computes these tables, but warns if a file lacks them
        theirs |= {name: sinusoid(N_POSITIONS, config.d_model)[:, columns] for name in POSITIONS}
    return {name: tensor.contiguous() for name, tensor in theirs.items()}


def _unscaled(name: str, tensor: Tensor, config: TransformerConfig) -> Tensor:
    """Scores are always divided by √d_k there; queries that are not scaled are multiplied by it."""
    if config.attention != "dot_product" or ".qkv." not in name:
        return tensor
    scaled = tensor.clone()
    scaled[: config.d_model] *= config.d_k**0.5
    return scaled


def write_tokenizer(original: Original, target: Target, ids: Ids) -> None:
    """source.spm, target.spm, vocab.json (and target_vocab.json), tokenizer_config.json."""
    tokenizers = original.loaded.tokenizers
    for name, tokenizer in (("source.spm", tokenizers.source), ("target.spm", tokenizers.target)):
        (target.directory / name).write_bytes(standalone_model(tokenizer))
    source, target_symbols = tokenizers.source.symbols, tokenizers.target.symbols
    write_json(target, "vocab.json", {source[our_id]: i for i, our_id in enumerate(ids.source)})
    if not tokenizers.joint:
        pieces = {target_symbols[our_id]: i for i, our_id in enumerate(ids.target)}
        write_json(target, "target_vocab.json", pieces)
    values: dict[str, Any] = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": original.languages.source,
        "target_lang": next(iter(original.languages.targets), None),
        "unk_token": source[UNK_ID],
        "eos_token": source[EOS_ID],
        "pad_token": source[PAD_ID],
        "model_max_length": max_length(original.loaded.facts, None) + 1,  # with the end token
        "separate_vocabs": not tokenizers.joint,
        "clean_up_tokenization_spaces": False,
    }
    if not ids.starts_with_padding:
        values["bos_token"] = source[BOS_ID]  # known as special, so that it is never part of a text
    write_json(target, "tokenizer_config.json", values)


def config_of(original: Original, ids: Ids) -> dict[str, Any]:
    """The content of config.json."""
    config = original.config
    post = config.norm == "post"
    values: dict[str, Any] = {
        "model_type": "marian" if post else "pegasus",
        "architectures": ["MarianMTModel" if post else "PegasusForConditionalGeneration"],
        "vocab_size": len(ids.source),
        "decoder_vocab_size": len(ids.target),
        "d_model": config.d_model,
        "activation_function": _ACTIVATIONS.get(config.activation, config.activation),
        "scale_embedding": True,
        "static_position_embeddings": True,
        "normalize_before": not post,
        "normalize_embedding": False,
        "add_final_layer_norm": not post,
        "max_position_embeddings": config.max_length or N_POSITIONS,
        "share_encoder_decoder_embeddings": config.tie == "all",
        "tie_word_embeddings": config.tie != "none",
        "is_encoder_decoder": True,
        "dropout": config.dropout,
        "dtype": "float32",
    }
    for side, n_layers in (("encoder", config.n_encoder_layers), ("decoder", config.n_decoder_layers)):
        values |= {
            f"{side}_layers": n_layers,
            f"{side}_attention_heads": config.n_heads,
            f"{side}_ffn_dim": config.d_ff,
        }
    return values | _token_ids(ids)


def generation_config(original: Original, ids: Ids) -> dict[str, Any]:
    """The content of generation_config.json: the search of regard, as far as `generate` has it."""
    forbidden = [PAD_ID] if ids.starts_with_padding else [PAD_ID, BOS_ID]
    return {
        "num_beams": search_options(original.loaded.facts).beam,
        "length_penalty": search_options(original.loaded.facts).length_penalty,
        "max_length": min(MAX_LENGTH, original.config.max_length or MAX_LENGTH),
        "bad_words_ids": [[ids.of(our_id)] for our_id in forbidden],
        "renormalize_logits": True,
    } | _token_ids(ids)


def _token_ids(ids: Ids) -> dict[str, Any]:
    return {
        "pad_token_id": ids.of(PAD_ID),
        "bos_token_id": None if ids.starts_with_padding else ids.of(BOS_ID),
        "eos_token_id": ids.of(EOS_ID),
        "decoder_start_token_id": ids.start,
        "forced_eos_token_id": None,
    }


def tokenizer_notes(original: Original) -> tuple[str, ...]:
    """What is different from our tokenizer."""
    tokenizers = original.loaded.tokenizers
    notes = []
    if tokenizers.source.has_bytes:
        notes.append("texts are normalised as in regard (NFC), except for U+2581 and rare orders of several accents")
    if tokenizers.source.tags:
        first = tokenizers.source.tags[0]
        notes.append(f"the target language is the first word of the text: `>>{first}<< …`")
    return tuple(notes)


def write_json(target: Target, name: str, values: Mapping[str, Any]) -> None:
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    (target.directory / name).write_text(text, encoding="utf-8")


def _front_matter(original: Original) -> str:
    """What the Hugging Face hub reads; the licence is for the owner of the model to add."""
    codes = "".join(f"- {code}\n" for code in original.languages.all)
    languages = f"language:\n{codes}" if codes else ""
    return f"---\nlibrary_name: transformers\npipeline_tag: translation\n{languages}---\n\n"


_USAGE = """```python
from transformers import AutoTokenizer, {class_name}

tokenizer = AutoTokenizer.from_pretrained(".")
model = {class_name}.from_pretrained(".")
batch = tokenizer(["A sentence."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```"""

"""Converts a post-norm Transformer to a Hugging Face Marian model: the same weights under other names."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from regard.artifact import LoadedModel
from regard.models import Transformer
from regard.nn import MultiHeadAttention, sinusoid

N_POSITIONS = 512


def write_marian(loaded: LoadedModel, folder: Path) -> None:
    """Write config.json and marian.safetensors, which `transformers` can load."""
    config = loaded.config
    assert (config.norm, config.positions, config.activation, config.tie) == ("post", "sinusoidal", "relu", "all")
    described = {
        "vocab_size": loaded.tokenizers.target.size,
        "d_model": config.d_model,
        "encoder_layers": config.n_encoder_layers,
        "decoder_layers": config.n_decoder_layers,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "activation_function": "relu",
        "scale_embedding": True,
        "max_position_embeddings": N_POSITIONS,
        "pad_token_id": 0,
        "eos_token_id": 3,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": None,
        "dropout": config.dropout,
    }
    (folder / "config.json").write_text(json.dumps(described))
    tensors = {name: tensor.detach().contiguous().clone() for name, tensor in _tensors(loaded.model).items()}
    save_file(tensors, folder / "marian.safetensors")


def _tensors(model: Transformer) -> dict[str, torch.Tensor]:
    shared = model.output_weight
    waves = sinusoid(N_POSITIONS, model.config.d_model)
    named = {"model.shared.weight": shared, "final_logits_bias": torch.zeros(1, len(shared))}
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        named[f"model.{side}.embed_positions.weight"] = waves
        for number, layer in enumerate(layers):
            place = f"model.{side}.layers.{number}"
            named |= _attention(f"{place}.self_attn", layer.self_attention)
            named |= _pair(f"{place}.self_attn_layer_norm", layer.residuals[0].norm)
            if side == "decoder":
                named |= _attention(f"{place}.encoder_attn", layer.cross_attention)
                named |= _pair(f"{place}.encoder_attn_layer_norm", layer.residuals[1].norm)
            named |= _pair(f"{place}.fc1", layer.feed_forward.inner) | _pair(f"{place}.fc2", layer.feed_forward.outer)
            named |= _pair(f"{place}.final_layer_norm", layer.residuals[-1].norm)
    return named


def _attention(place: str, module: MultiHeadAttention) -> dict[str, torch.Tensor]:
    named = {}
    for number, name in enumerate(("q_proj", "k_proj", "v_proj")):
        rows = slice(number * module.d_model, (number + 1) * module.d_model)
        named[f"{place}.{name}.weight"] = module.qkv.weight[rows]
        named[f"{place}.{name}.bias"] = module.qkv.bias[rows]
    return named | _pair(f"{place}.out_proj", module.out)


def _pair(place: str, module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {f"{place}.weight": module.weight, f"{place}.bias": module.bias}

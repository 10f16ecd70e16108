"""The JSON of a look, "regard-look/1": the values of the trace, unsmoothed.

T rows, S columns, D d_model, H heads, K d_k
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from torch import Tensor

from regard.errors import UserError
from regard.lens.interventions import Attention
from regard.lens.look import Look, ModelDescription, trace_path

FORMAT = "regard-look/1"

ArrayFormat = Literal["list", "base64"]  # nested lists are readable; base64 is compact and fast to parse
Encode = Callable[[Tensor], Any]

_SIGNIFICANT_DIGITS = 6  # in a list; float32 has about seven
_MAX_EXACT_POWER = 22  # the largest power of ten that float64 represents exactly


def look_dict(look: Look, arrays: ArrayFormat) -> dict[str, Any]:
    """Plain values, in the order in which the model computes them."""
    if arrays not in get_args(ArrayFormat):
        raise UserError(f"arrays cannot be {arrays!r}", hint=f"use one of {', '.join(get_args(ArrayFormat))}")
    encode = as_list if arrays == "list" else as_base64
    return {
        "format": FORMAT,
        "model": _model(look.model),
        "source": {"text": look.source.text} | look.source.to_dict(),
        "target": {
            "text": look.target.text,
            "given": look.target.given,
            "inputs": look.target.inputs.to_dict(),
            "outputs": look.target.outputs.to_dict(),
        },
        "embedding": {side: _embedding(look, side, encode) for side in ("source", "target")},
        "attentions": [_attention(look, attention, layer, encode) for attention, layer in _attentions(look)],
        "sublayers": _sublayers(look, encode),
        "feed_forward": _feed_forward(look, encode),
        "steps": [
            {"chosen": vars(step.chosen), "top": [vars(prediction) for prediction in step.top], "entropy": step.entropy}
            for step in look.steps
        ],
        "log_probability": look.log_probability,
        "beam": None if look.beam is None else look.beam.to_dict(),
        "interventions": look.interventions.to_dict(),
        "change": None if look.change is None else look.change.to_dict(),
    }


def as_list(array: Tensor) -> Any:
    """Nested lists, rounded to six significant digits."""
    values = array.detach().double().numpy()
    with np.errstate(divide="ignore"):  # log10 of zero
        decimals = _SIGNIFICANT_DIGITS - 1 - np.floor(np.log10(np.abs(values)))
    # an integer divided by an exact power of ten is the float that prints shortest
    power = 10.0 ** np.clip(decimals, 0, _MAX_EXACT_POWER)
    return (np.round(values * power) / power).tolist()


def as_base64(array: Tensor) -> dict[str, Any]:
    """The exact float32 values, little endian."""
    raw = np.ascontiguousarray(array.detach().numpy(), dtype="<f4")
    return {"shape": list(raw.shape), "float32": b64encode(raw.data).decode("ascii")}


def _model(model: ModelDescription) -> dict[str, Any]:
    config, head = model.config, model.alignment_head
    sizes = ("n_encoder_layers", "n_decoder_layers", "d_model", "d_ff", "n_heads", "d_k", "norm", "activation")
    return {
        "name": model.name,
        **{name: getattr(config, name) for name in (*sizes, "attention", "positions", "tie")},
        "n_parameters": model.n_parameters,
        "n_src_symbols": model.n_src_symbols,
        "n_tgt_symbols": model.n_tgt_symbols,
        "alignment_head": None if head is None else {"layer": head[0], "head": head[1]},
        "label_smoothing": model.label_smoothing,
    }


def _embedding(look: Look, side: str, encode: Encode) -> dict[str, Any]:
    trace = look.trace.at(side)
    return {
        "embedded": encode(trace["embedding"][0]),
        "position": encode(trace["position"]),  # no batch dimension: the same for every sentence
        "sum": encode(trace["sum"][0]),
    }


def _attentions(look: Look) -> list[tuple[Attention, int]]:
    """The encoder's layers, then each decoder layer's self-attention and encoder–decoder attention."""
    config = look.model.config
    attentions: list[tuple[Attention, int]] = [("encoder", layer) for layer in range(config.n_encoder_layers)]
    for layer in range(config.n_decoder_layers):
        attentions += [("decoder", layer), ("cross", layer)]
    return attentions


def _attention(look: Look, attention: Attention, layer: int, encode: Encode) -> dict[str, Any]:
    trace = look.trace.at(trace_path(attention, layer))
    visible = trace["visible"][0, 0].float() if "visible" in trace else None
    return {
        "attention": attention,
        "layer": layer,
        **{name: encode(trace[name][0]) for name in ("q", "k", "v", "scores", "scaled")},
        "visible": None if visible is None else encode(visible),
        **{name: encode(trace[name][0]) for name in ("weights", "heads")},
    }


def _sublayers(look: Look, encode: Encode) -> list[dict[str, Any]]:
    sublayers = []
    for stack, names in (("encoder", ("self", "feed_forward")), ("decoder", ("self", "cross", "feed_forward"))):
        for layer in range(getattr(look.model.config, f"n_{stack}_layers")):
            for name in names:
                trace = look.trace.at(f"{stack}.{layer}.{name}")
                values = {part: trace[part][0] for part in ("before", "added", "after")}
                sublayers.append(
                    {
                        "stack": stack,
                        "layer": layer,
                        "name": name,
                        **{f"norm_{part}": encode(value.norm(dim=-1)) for part, value in values.items()},
                        **{part: encode(values[part]) for part in ("added", "after")},
                    }
                )
    return sublayers


def _feed_forward(look: Look, encode: Encode) -> list[dict[str, Any]]:
    return [
        {"stack": stack, "layer": layer, "hidden": encode(look.trace[f"{stack}.{layer}.feed_forward.hidden"][0])}
        for stack in ("encoder", "decoder")
        for layer in range(getattr(look.model.config, f"n_{stack}_layers"))
    ]

"""The JSON of a look, "regard-look/1". Numbers are what was computed; nothing is smoothed.

T rows, S columns, D d_model, H heads, K d_k
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from regard.lens.arrays import Form, writer
from regard.lens.interventions import Attention
from regard.lens.look import Look, Model, place

FORMAT = "regard-look/1"

Write = Callable[[Tensor], Any]


def look_dict(look: Look, arrays: Form) -> dict[str, Any]:
    """Plain values, in the order in which the data goes through the model."""
    write = writer(arrays)
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
        "embedding": {side: _embedding(look, side, write) for side in ("source", "target")},
        "attentions": [_attention(look, attention, layer, write) for attention, layer in _attentions(look)],
        "sublayers": _sublayers(look, write),
        "feed_forward": _feed_forward(look, write),
        "steps": [
            {"chosen": vars(step.chosen), "top": [vars(guess) for guess in step.top], "entropy": step.entropy}
            for step in look.steps
        ],
        "log_probability": look.log_probability,
        "beam": None if look.beam is None else look.beam.to_dict(),
        "interventions": look.interventions.to_dict(),
        "change": None if look.change is None else look.change.to_dict(),
    }


def _model(model: Model) -> dict[str, Any]:
    config, head = model.config, model.alignment_head
    same = ("n_encoder_layers", "n_decoder_layers", "d_model", "d_ff", "n_heads", "d_k", "norm", "activation")
    return {
        "name": model.name,
        **{name: getattr(config, name) for name in (*same, "attention", "positions", "tie")},
        "n_parameters": model.n_parameters,
        "n_src_symbols": model.n_src_symbols,
        "n_tgt_symbols": model.n_tgt_symbols,
        "alignment_head": None if head is None else {"layer": head[0], "head": head[1]},
        "label_smoothing": model.label_smoothing,
    }


def _embedding(look: Look, side: str, write: Write) -> dict[str, Any]:
    seen = look.trace.at(side)
    return {
        "embedded": write(seen["embedding"][0]),
        "position": write(seen["position"]),  # no batch: the same for every sentence
        "sum": write(seen["sum"][0]),
    }


def _attentions(look: Look) -> list[tuple[Attention, int]]:
    """The encoder's layers, then for each layer of the decoder its own attention and the one over the source."""
    config = look.model.config
    found: list[tuple[Attention, int]] = [("encoder", layer) for layer in range(config.n_encoder_layers)]
    for layer in range(config.n_decoder_layers):
        found += [("decoder", layer), ("cross", layer)]
    return found


def _attention(look: Look, attention: Attention, layer: int, write: Write) -> dict[str, Any]:
    seen = look.trace.at(place(attention, layer))
    visible = seen["visible"][0, 0].float() if "visible" in seen else None
    return {
        "attention": attention,
        "layer": layer,
        **{name: write(seen[name][0]) for name in ("q", "k", "v", "scores", "scaled")},
        "visible": None if visible is None else write(visible),
        **{name: write(seen[name][0]) for name in ("weights", "heads")},
    }


def _sublayers(look: Look, write: Write) -> list[dict[str, Any]]:
    found = []
    for stack, names in (("encoder", ("self", "feed_forward")), ("decoder", ("self", "cross", "feed_forward"))):
        for layer in range(getattr(look.model.config, f"n_{stack}_layers")):
            for name in names:
                seen = look.trace.at(f"{stack}.{layer}.{name}")
                values = {part: seen[part][0] for part in ("before", "added", "after")}
                found.append(
                    {
                        "stack": stack,
                        "layer": layer,
                        "name": name,
                        **{f"norm_{part}": write(value.norm(dim=-1)) for part, value in values.items()},
                        **{part: write(values[part]) for part in ("added", "after")},
                    }
                )
    return found


def _feed_forward(look: Look, write: Write) -> list[dict[str, Any]]:
    return [
        {"stack": stack, "layer": layer, "hidden": write(look.trace[f"{stack}.{layer}.feed_forward.hidden"][0])}
        for stack in ("encoder", "decoder")
        for layer in range(getattr(look.model.config, f"n_{stack}_layers"))
    ]

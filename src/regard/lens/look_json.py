"""The JSON of a look, "regard-look/1": the values of the trace, unsmoothed.

T rows, S columns, D d_model, H heads, K d_k
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Literal, get_args

import numpy as np
from torch import Tensor

from regard.errors import UserError
from regard.lens.anatomy import all_attentions, blocks
from regard.lens.interventions import Attention
from regard.lens.look import Look
from regard.nn import Site, Trace

FORMAT = "regard-look/1"

ArrayFormat = Literal["list", "base64"]  # nested lists are readable; base64 is compact and fast to parse
Encode = Callable[[Tensor], Any]

_STACKS = {"source": "encoder", "target": "decoder"}  # what the positions of a site are → the name of its layers
_SIGNIFICANT_DIGITS = 6  # in a list; float32 has about seven
_MAX_EXACT_POWER = 22  # the largest power of ten that float64 represents exactly


def look_dict(look: Look, arrays: ArrayFormat) -> dict[str, Any]:
    """Plain values, in the order in which the model computes them."""
    values = _Values(look.trace, encoder(arrays))
    sections = {
        "embedding": {side: values.embedding(side) for side in _STACKS},
        "attentions": [values.attention(*entry) for entry in all_attentions(values.sites)],
        "sublayers": values.sublayers(),
        "feed_forward": values.feed_forward(),
    }
    return {
        "format": FORMAT,
        "model": dict(look.model),
        "source": {"text": look.source.text} | look.source.to_dict(),
        "target": {
            "text": look.target.text,
            "given": look.target.given,
            "inputs": look.target.inputs.to_dict(),
            "outputs": look.target.outputs.to_dict(),
        },
        **sections,
        **sites_dict(look.trace),
        "arrays": values.others(),
        "dependence": _dependence_dict(look, values.encode),
        "reach": None if look.reach is None else [reach.to_dict() for reach in look.reach],
        "steps": [
            {"chosen": vars(step.chosen), "top": [vars(prediction) for prediction in step.top], "entropy": step.entropy}
            for step in look.steps
        ],
        "log_probability": look.log_probability,
        "beam": None if look.beam is None else look.beam.to_dict(),
        "interventions": look.interventions.to_dict(),
        "change": None if look.change is None else look.change.to_dict(),
    }


def _dependence_dict(look: Look, encode: Encode) -> dict[str, Any] | None:
    if look.dependence is None:
        return None
    agreement = [
        {"between": pair, "by_word": [None if np.isnan(value) else float(value) for value in values], "mean": mean}
        for pair, (values, mean) in look.agreement().items()
    ]
    return {**{name: encode(value) for name, value in look.dependence._asdict().items()}, "agreement": agreement}


def encoder(arrays: ArrayFormat) -> Encode:
    if arrays not in get_args(ArrayFormat):
        raise UserError(f"arrays cannot be {arrays!r}", hint=f"use one of {', '.join(get_args(ArrayFormat))}")
    return as_list if arrays == "list" else as_base64


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


def sites_dict(trace: Trace) -> dict[str, Any]:
    """What was recorded, and the modules that did."""
    sites = trace.sites()
    return {"sites": [site._asdict() for site in sites], "blocks": blocks(sites)}


def count_numbers(sites: tuple[Site, ...], n_source: int, n_target: int) -> int:
    """The numbers in the arrays of a look at sentences of these lengths."""
    # a memory has about as many columns and steps as a sentence has symbols
    longest = max(n_source, n_target) + 1
    lengths = {"source": n_source, "target": n_target, "step": n_source + 1, "column": 3 * longest // 2}

    def count(site: Site) -> int:
        sizes = [lengths.get(axis, size) for axis, size in zip(site.axes, site.shape, strict=True)]
        return 3 * sizes[0] if site.name == "before" else prod(sizes)  # of the input of a sub-layer, only norms

    return sum(count(site) for site in sites if site.kind != "logits")


class _Values:
    """The values of a trace of one example, and the paths that were asked for."""

    def __init__(self, trace: Trace, encode: Encode) -> None:
        self.trace, self.sites, self.encode = trace, trace.sites(), encode
        self.used: set[str] = set()

    def get(self, module: str, name: str) -> Any:
        """The value as JSON; None if the module did not record it."""
        path = f"{module}.{name}" if module else name
        self.used.add(path)
        return self.encode(self.trace[path][0]) if path in self.trace else None

    def embedding(self, side: str) -> dict[str, Any]:
        found = [site for site in self.sites if site.kind == "embedding" and site.axes[:1] == (side,)]
        if not found:
            return {"embedded": None, "position": None, "sum": None}
        module, name = found[0].module, found[0].name
        return {"embedded": self.get(module, name), **{part: self.get(module, part) for part in ("position", "sum")}}

    def attention(self, attention: Attention, layer: int, site: Site) -> dict[str, Any]:
        values = {name: self.get(site.module, name) for name in ("q", "k", "v", "scores", "scaled")}
        visible = f"{site.module}.visible"
        self.used.add(visible)
        return {
            "attention": attention,
            "layer": layer,
            "path": site.module,
            **values,
            "visible": self.encode(self.trace[visible][0, 0].float()) if visible in self.trace else None,
            "weights": self.get(site.module, site.name),
            "heads": self.get(site.module, "heads"),
        }

    def sublayers(self) -> list[dict[str, Any]]:
        """Every module with a residual connection around it."""
        return [self._sublayer(*entry) for entry in self._numbered("added")]

    def _sublayer(self, stack: str, layer: int, site: Site) -> dict[str, Any]:
        parts = {part: self.trace[f"{site.module}.{part}"][0] for part in ("before", "added", "after")}
        self.used.update(f"{site.module}.{part}" for part in parts)
        return {
            "stack": stack,
            "layer": layer,
            "path": site.module,
            "name": site.module.rpartition(".")[2].removesuffix("_attention"),
            **{f"norm_{part}": self.encode(value.norm(dim=-1)) for part, value in parts.items()},
            **{part: self.encode(parts[part]) for part in ("added", "after")},
        }

    def feed_forward(self) -> list[dict[str, Any]]:
        return [
            {"stack": stack, "layer": layer, "path": site.module, "hidden": self.get(site.module, site.name)}
            for stack, layer, site in self._numbered("hidden")
        ]

    def _numbered(self, name: str) -> Iterator[tuple[str, int, Site]]:
        """The sites of this name, with their stack, and their number among modules of the same name in it."""
        counts: Counter[tuple[str, str]] = Counter()
        for site in self.sites:
            if site.name == name and site.kind == "vector" and site.axes[0] in _STACKS:
                key = _STACKS[site.axes[0]], site.module.rpartition(".")[2]
                yield key[0], counts[key], site
                counts[key] += 1

    def others(self) -> dict[str, Any]:
        """What no other section shows, by path, except the logits, which are large."""
        rest = [site.path for site in self.sites if site.path not in self.used and site.kind != "logits"]
        return {path: self.encode(self.trace[path][0].float()) for path in rest}

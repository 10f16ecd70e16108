"""The parts of a model, derived from the sites of a trace: attention by what attends to what, heads, and blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from regard.lens.interventions import ATTENTIONS, Attention, Head
from regard.models import attention_sites
from regard.nn import Site

_AXES: dict[Attention, tuple[str, str]] = {
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}


def attention_layers(sites: tuple[Site, ...], attention: Attention) -> list[Site]:
    """The attention weights of one kind, one site per layer."""
    return attention_sites(sites, *_AXES[attention])


def all_attentions(sites: tuple[Site, ...]) -> list[tuple[Attention, int, Site]]:
    """Every attention with its layer, in the order of computation."""
    found = [(a, layer, site) for a in ATTENTIONS for layer, site in enumerate(attention_layers(sites, a))]
    return sorted(found, key=lambda entry: sites.index(entry[2]))


def all_heads(sites: tuple[Site, ...]) -> list[Head]:
    """Every head of a model: encoder, decoder, encoder–decoder."""
    return [
        Head(attention, layer, head)
        for attention in ATTENTIONS
        for layer, site in enumerate(attention_layers(sites, attention))
        for head in range(site.shape[0])
    ]


def head_ranges(heads: Iterable[Head], first: int = 0) -> str:
    """The heads of a model in a few words, counted from `first`: "encoder.0.0 to encoder.3.7, …"."""
    names = {head.attention: f"{head.attention}.{head.layer + first}.{head.head + first}" for head in heads}
    return ", ".join(f"{attention}.{first}.{first} to {last}" for attention, last in names.items())


def blocks(sites: tuple[Site, ...]) -> list[dict[str, Any]]:
    """The modules that recorded something, in the order of computation, each with its kinds of sites."""
    found: dict[str, list[Site]] = {}
    for site in sites:
        found.setdefault(site.module, []).append(site)
    return [{"path": path, "kinds": list(dict.fromkeys(s.kind for s in group))} for path, group in found.items()]

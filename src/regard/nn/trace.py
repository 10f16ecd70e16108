"""Looking inside a model: a collector of intermediate tensors. It is optional, and never changes a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from torch import Tensor

Kind = Literal[
    "attention",  # weights over positions: (head, rows, columns); attention without heads has one
    "scores",  # the same before the softmax
    "mask",  # what attention may see
    "embedding",  # the vectors of the input symbols
    "vector",  # a vector per position
    "state",  # a vector per position that depends on the one before: recurrence
    "gates",  # between 0 and 1: what a recurrence keeps, or how far something opens
    "memory",  # what is read and written
    "hops",  # one step after the other over the same memory
    "logits",
]


class Site(NamedTuple):
    """A recorded tensor: where it was computed, and what its dimensions run over, without the batch."""

    path: str  # of the module, then the name: "decoder.2.cross_attention.weights"
    kind: Kind
    axes: tuple[str, ...]  # "source", "target", "head", "unit" …
    shape: tuple[int, ...]

    @property
    def module(self) -> str:
        """Path of the module; empty for the model itself."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


class Trace(Mapping[str, Tensor]):
    """Intermediate tensors by name: `trace["decoder.2.cross_attention.weights"]`.

    A module records its tensors with `trace.record("weights", w, kind="attention", axes=…)`. The name is completed by
    its parent modules, which pass on a view of the same collector: `trace.at("decoder.2").at("cross_attention")`. Paths
    are those of the modules. A block like attention does not know what its rows and columns are, so its parent says it
    with the view, `at("cross_attention", ("target", "source"))`, and the block reads `trace.axes`.

    With `gradient`, tensors stay attached to the graph of autograd.
    """

    def __init__(self, gradient: bool = False) -> None:
        self.gradient = gradient
        self.axes: tuple[str, ...] = ("position",)
        self._prefix = ""
        self._tensors: dict[str, Tensor] = {}
        self._sites: dict[str, Site] = {}

    def at(self, name: str, axes: tuple[str, ...] | None = None) -> Trace:
        """A view of the same collector, under the prefix `name`; `axes` are its rows and columns, else the parent's."""
        view = Trace(self.gradient)
        view._tensors, view._sites = self._tensors, self._sites
        view._prefix = f"{self._prefix}{name}."
        view.axes = self.axes if axes is None else axes
        return view

    def record(self, name: str, value: Tensor, *, kind: Kind, axes: tuple[str, ...]) -> Tensor:
        """Keep a tensor, and return it. Its first dimension is the batch; `axes` name the others."""
        if value.dim() != len(axes) + 1:
            raise ValueError(f"{self._prefix}{name} has the shape {tuple(value.shape)}: batch, then {axes}?")
        if self.gradient and kind == "embedding" and not value.requires_grad:
            value = value.requires_grad_()  # the weights are frozen
        path = self._prefix + name
        self._tensors[path] = value if self.gradient else value.detach()
        self._sites[path] = Site(path, kind, axes, tuple(value.shape[1:]))
        return value

    def sites(self, kind: Kind | None = None) -> tuple[Site, ...]:
        """What was recorded below this view, in the order of computation."""
        sites = (site for path, site in self._sites.items() if path.startswith(self._prefix))
        return tuple(site for site in sites if kind is None or site.kind == kind)

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name[len(self._prefix) :] for name in self._tensors if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def at(trace: Trace | None, name: str, axes: tuple[str, ...] | None = None) -> Trace | None:
    """`trace.at(name, axes)`, or None without a trace."""
    return None if trace is None else trace.at(name, axes)

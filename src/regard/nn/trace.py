"""Looking inside a model: a collector of intermediate tensors. It is optional, and never changes a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor


class Trace(Mapping[str, Tensor]):
    """Intermediate tensors by name: `trace["decoder.2.cross.weights"]`.

    A module records its tensors with `trace.record("weights", w)`. The name is completed by its parent modules, which
    pass on a view of the same collector with a longer prefix: `trace.at("decoder.2").at("cross")`.
    """

    def __init__(self) -> None:
        self._tensors: dict[str, Tensor] = {}
        self._prefix = ""

    def at(self, name: str) -> Trace:
        """A view of the same collector, under the prefix `name`."""
        view = Trace()
        view._tensors = self._tensors
        view._prefix = f"{self._prefix}{name}."
        return view

    def record(self, name: str, value: Tensor) -> None:
        self._tensors[self._prefix + name] = value.detach()

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name[len(self._prefix) :] for name in self._tensors if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def at(trace: Trace | None, name: str) -> Trace | None:
    """`trace.at(name)`, or None without a trace."""
    return None if trace is None else trace.at(name)

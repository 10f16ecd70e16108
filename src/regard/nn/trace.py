"""Looking inside: a collector that is passed in, costs nothing when absent, and never changes a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor


class Trace(Mapping[str, Tensor]):
    """What a model computed, by name: `trace["decoder.2.cross.weights"]`.

    A module hands over its intermediates with `trace.record("weights", w)`; its parent gave it a
    view of the same collector under a longer prefix (`trace.at("decoder.2").at("cross")`).
    """

    def __init__(self) -> None:
        self._found: dict[str, Tensor] = {}
        self._prefix = ""

    def at(self, place: str) -> Trace:
        """The same collector, seen from one level further inside."""
        inner = Trace()
        inner._found = self._found
        inner._prefix = f"{self._prefix}{place}."
        return inner

    def record(self, name: str, value: Tensor) -> None:
        self._found[self._prefix + name] = value.detach()

    def __getitem__(self, name: str) -> Tensor:
        return self._found[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name[len(self._prefix) :] for name in self._found if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def at(trace: Trace | None, place: str) -> Trace | None:
    """`trace.at(place)`, or nothing where nobody is looking."""
    return None if trace is None else trace.at(place)

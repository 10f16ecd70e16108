"""The beam's tree: every continuation that the search looked at, what it kept, and the path that won."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from regard.decoding import DecodingOptions, Hypothesis, gnmt
from regard.decoding.beam import BeamStep
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Node:
    """One symbol behind a beginning."""

    id: int
    parent: int | None
    step: int
    text: str
    log_prob: float  # of this symbol alone
    total: float  # of the whole beginning
    score: float | None  # what finished ones are ranked by
    kept: bool  # among the beam's beginnings, or finished
    finished: bool
    best: bool  # part of the translation that won


@dataclass(frozen=True)
class BeamTree:
    """A search, as it grew. A parent stands before its children."""

    width: int
    nodes: tuple[Node, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"width": self.width, "nodes": [vars(node) for node in self.nodes]}


def tree_of(
    beam_steps: Sequence[BeamStep], best: Hypothesis, tokenizer: Tokenizer, options: DecodingOptions
) -> BeamTree:
    """The tree of a search for one sentence."""
    nodes = [Node(0, None, 0, tokenizer.piece(tokenizer.bos_id), 0.0, 0.0, None, True, False, False)]
    children: dict[tuple[int, int], int] = {}  # (node, symbol) → node
    hypotheses = [0]  # the nodes that a step continues
    for step, grown in enumerate(beam_steps, start=1):
        new, over, live = grown.candidates, grown.finished[0].tolist(), grown.live[0].tolist()
        columns = (column[0].tolist() for column in (new.totals, new.log_probs, new.origins, new.tokens))
        node_of: dict[int, int] = {}
        for place, (total, log_prob, origin, symbol) in enumerate(zip(*columns, strict=True)):
            if not isfinite(total):
                continue  # fewer continuations than the beam has room for
            parent, finished = hypotheses[origin], place < len(over) and over[place]
            node_of[place] = children[parent, symbol] = len(nodes)
            nodes.append(
                Node(
                    id=len(nodes),
                    parent=parent,
                    step=step,
                    text=tokenizer.piece(symbol),
                    log_prob=log_prob,
                    total=total,
                    score=total / gnmt(step, options.length_penalty) if finished else None,
                    kept=finished or (place in live and symbol != tokenizer.eos_id),
                    finished=finished,
                    best=False,
                )
            )
        hypotheses = [node_of.get(place, 0) for place in live]  # one without a node is −∞, and has no children
    for node in _path(best, children, tokenizer.eos_id):
        nodes[node] = replace(nodes[node], best=True)
    return BeamTree(options.beam, tuple(nodes))


def _path(best: Hypothesis, children: Mapping[tuple[int, int], int], end_id: int) -> Iterator[int]:
    """The nodes of a translation, from its first symbol to its last."""
    node = 0
    for symbol in output_ids(best, end_id):
        node = children[node, symbol]
        yield node


def output_ids(found: Hypothesis, end_id: int) -> list[int]:
    """The symbols of a translation, the end among them where it was reached."""
    ended = len(found.log_probs) > len(found.ids)
    return [*found.ids, end_id] if ended else list(found.ids)

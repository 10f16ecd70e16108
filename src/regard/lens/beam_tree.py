"""The tree of a beam search: every continuation considered, those kept, and the best path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from regard.decoding import DecodingOptions, Hypothesis, gnmt
from regard.decoding.beam import BeamStep
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class BeamNode:
    """One token after a prefix."""

    id: int
    parent: int | None
    step: int
    text: str
    log_prob: float  # of this token alone
    total: float  # of the prefix and this token
    score: float | None  # by which finished hypotheses are ranked
    kept: bool  # in the beam, or finished
    finished: bool
    best: bool  # part of the best hypothesis


@dataclass(frozen=True)
class BeamTree:
    """The tree of one search. Parents come before their children."""

    width: int
    nodes: tuple[BeamNode, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"width": self.width, "nodes": [vars(node) for node in self.nodes]}


def build_tree(
    beam_steps: Sequence[BeamStep], best: Hypothesis, tokenizer: Tokenizer, options: DecodingOptions
) -> BeamTree:
    nodes = [BeamNode(0, None, 0, tokenizer.piece(tokenizer.bos_id), 0.0, 0.0, None, True, False, False)]
    children: dict[tuple[int, int], int] = {}  # (node, token) → node
    hypotheses = [0]  # the nodes that the next step continues
    for step, beam in enumerate(beam_steps, start=1):
        new, is_finished, live = beam.candidates, beam.finished[0].tolist(), beam.live[0].tolist()
        columns = (column[0].tolist() for column in (new.totals, new.log_probs, new.origins, new.tokens))
        node_of: dict[int, int] = {}
        for rank, (total, log_prob, origin, token) in enumerate(zip(*columns, strict=True)):
            if not isfinite(total):
                continue  # fewer continuations than the width of the beam
            parent, finished = hypotheses[origin], rank < len(is_finished) and is_finished[rank]
            node_of[rank] = children[parent, token] = len(nodes)
            nodes.append(
                BeamNode(
                    id=len(nodes),
                    parent=parent,
                    step=step,
                    text=tokenizer.piece(token),
                    log_prob=log_prob,
                    total=total,
                    score=total / gnmt(step, options.length_penalty) if finished else None,
                    kept=finished or (rank in live and token != tokenizer.eos_id),
                    finished=finished,
                    best=False,
                )
            )
        hypotheses = [node_of.get(rank, 0) for rank in live]  # without a node: a total of −∞, so no children
    for node in _path(best, children, tokenizer.eos_id):
        nodes[node] = replace(nodes[node], best=True)
    return BeamTree(options.beam, tuple(nodes))


def _path(best: Hypothesis, children: Mapping[tuple[int, int], int], end_id: int) -> Iterator[int]:
    """The nodes of a hypothesis, from its first token to its last."""
    node = 0
    for token in output_ids(best, end_id):
        node = children[node, token]
        yield node


def output_ids(hypothesis: Hypothesis, end_id: int) -> list[int]:
    """The tokens of a hypothesis, with the end token if it was reached."""
    ended = len(hypothesis.log_probs) > len(hypothesis.ids)
    return [*hypothesis.ids, end_id] if ended else list(hypothesis.ids)

"""A look at a memory network: how much each hop used each sentence of a story."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.lens.inspect import SiteLook, inspect
from regard.tasks.answering.predictor import Answer, Answerer, read_question

_BAR = 8  # characters
SUPPORTING = "●"


@dataclass(frozen=True, eq=False)
class AnsweringLook(SiteLook):
    """The hops of an answer; its sentences and weights are in `prediction`."""

    answer: Answer

    def table(self) -> list[tuple[str, ...]]:
        """The hops table of the paper: sentence × hop, with the supporting facts marked if they are known."""
        rows = [("", *(f"hop {i}".rjust(_BAR + 5) for i in range(1, len(self.answer.weights) + 1)), "sentence")]
        for label, *weights in self._rows():
            rows.append(("", *map(_bar, weights), label))
        if shares := self.answer.support_shares():
            rows.append(("", *map(_bar, shares), f"    {SUPPORTING} supporting facts together"))
        return rows

    def picture(self) -> Any:
        from regard.lens.plots.heatmaps import AttentionMap, draw_single

        weights = np.array([row[1:] for row in self._rows()], dtype=np.float64)
        hops = [f"hop {i}" for i in range(1, weights.shape[1] + 1)]
        answer, shares = self.answer, self.answer.support_shares()
        expected = answer.question.answer
        right = f"; right: {expected}" if expected not in ("", answer.answer) else ""
        asked = f"{answer.question.text} → {answer.answer} ({answer.probability:.1%}){right}"
        lines = (asked,) if not shares else (asked, "On supporting facts: " + " · ".join(f"{s:.0%}" for s in shares))
        note = f"Darker: the hop used the sentence more. {SUPPORTING} is a supporting fact."
        labels = [str(row[0]) for row in self._rows()]
        return draw_single(AttentionMap("Hops", weights), labels, hops, lines, note, label_columns=60)

    def _rows(self) -> list[tuple[Any, ...]]:
        """A label and the weight in every hop, for each sentence; what is left was on no sentence."""
        answer = self.answer
        rows: list[tuple[Any, ...]] = []
        for place in range(answer.first, len(answer.question.story)):
            mark = SUPPORTING if place in answer.question.supporting else " "
            label = f"{place + 1:>3} {mark} {answer.question.story[place]}"
            rows.append((label, *(row[place - answer.first] for row in answer.weights)))
        return [*rows, ("      no sentence", *(max(0.0, 1 - sum(row)) for row in answer.weights))]


def look_at_question(answerer: Answerer, value: Any) -> AnsweringLook:
    """Runs one question with a trace."""
    question = read_question(value)
    [answer] = answerer.answer([question])
    trace = inspect(answerer.model, answerer.batch([question]), {}).trace
    return AnsweringLook(trace=trace, prediction=answer.to_dict(), answer=answer)


def _bar(weight: float) -> str:
    return f"{weight:4.0%} " + ("█" * round(weight * _BAR)).ljust(_BAR)

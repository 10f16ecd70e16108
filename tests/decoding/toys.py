"""Step functions small enough to know everything about: the next symbol depends on the sentence and on the history.

B batch, V vocabulary
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import torch
from torch import Tensor

from regard.decoding import DecodingOptions, Hypothesis, decode, gnmt

BEGIN, END = 1, 0


@dataclass
class Toy:
    """Log-probabilities by hashing the sentence and all symbols so far; counts the rows that it is asked for."""

    n_symbols: int = 8
    end_bonus: float = 0.0
    sharpness: float = 1.5
    rows: list[int] = field(default_factory=list)

    def start(self, sources: list[list[int]]) -> ToyState:
        return ToyState(torch.tensor([hash(tuple(source)) % 1009 for source in sources]))

    def step(self, last: Tensor, state: ToyState) -> tuple[Tensor, ToyState]:
        self.rows.append(len(last))
        mixed = (state.code * 31 + last * 7 + 3) % 1_000_003  # (B,)
        symbols = torch.arange(self.n_symbols)
        logits = self.sharpness * torch.sin((mixed[:, None] * (symbols + 1) * 12.9898) % 6.2831 + symbols)
        logits[:, END] += self.end_bonus
        return logits.log_softmax(-1), ToyState(mixed)

    def decode(self, sources: list[list[int]], prefixes: list[list[int]] | None = None, **options: object):
        asked = DecodingOptions(**options)  # type: ignore[arg-type]
        return decode(self.step, self.start(sources), sources, asked, begin_id=BEGIN, end_id=END, prefixes=prefixes)

    def exhaustive(self, source: list[int], limit: int, length_penalty: float) -> list[Hypothesis]:
        """Every translation of at most `limit` symbols, best first."""
        found = []
        for length in range(1, limit + 1):
            for body in product(range(1, self.n_symbols), repeat=length - 1):
                ends = [END] if length < limit else range(self.n_symbols)
                for last in ends:
                    found.append(self._walk(source, [*body, last], length_penalty))
        return sorted(found, key=lambda one: -one.score)

    def _walk(self, source: list[int], symbols: list[int], length_penalty: float) -> Hypothesis:
        state, last, log_probs = self.start([source]), BEGIN, []
        for symbol in symbols:
            answer, state = self.step(torch.tensor([last]), state)
            log_probs.append(float(answer[0, symbol]))
            last = symbol
        ids = symbols[:-1] if symbols[-1] == END else symbols
        return Hypothesis(tuple(ids), tuple(log_probs), sum(log_probs) / gnmt(len(symbols), length_penalty))


@dataclass(frozen=True)
class ToyState:
    code: Tensor  # (B,)

    def select(self, rows: Tensor) -> ToyState:
        return ToyState(self.code[rows])


def sources(n: int, seed: int = 1, longest: int = 9) -> list[list[int]]:
    """Random sentences."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (n,), generator=generator).tolist()
    return [torch.randint(2, 1000, (length,), generator=generator).tolist() for length in lengths]

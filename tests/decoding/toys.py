"""A small step function whose best translations can be found by trying all of them.

Shapes: B batch, V vocabulary
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
    """Computes log-probabilities by hashing the source and all tokens so far. Records the batch size of each step."""

    vocab_size: int = 8
    end_bonus: float = 0.0
    sharpness: float = 1.5
    batch_sizes: list[int] = field(default_factory=list)

    def start(self, sources: list[list[int]]) -> ToyState:
        return ToyState(torch.tensor([hash(tuple(source)) % 1009 for source in sources]))

    def step(self, last: Tensor, state: ToyState) -> tuple[Tensor, ToyState]:
        self.batch_sizes.append(len(last))
        code = (state.code * 31 + last * 7 + 3) % 1_000_003  # (B,)
        tokens = torch.arange(self.vocab_size)
        logits = self.sharpness * torch.sin((code[:, None] * (tokens + 1) * 12.9898) % 6.2831 + tokens)  # (B, V)
        logits[:, END] += self.end_bonus
        return logits.log_softmax(-1), ToyState(code)

    def decode(
        self, sources: list[list[int]], prefixes: list[list[int]] | None = None, **options: object
    ) -> list[list[Hypothesis]]:
        decoding = DecodingOptions(**options)  # type: ignore[arg-type]
        return decode(self.step, self.start(sources), sources, decoding, begin_id=BEGIN, end_id=END, prefixes=prefixes)

    def exhaustive(self, source: list[int], limit: int, length_penalty: float) -> list[Hypothesis]:
        """Every translation of at most `limit` tokens, best first."""
        hypotheses = []
        for length in range(1, limit + 1):
            for body in product(range(1, self.vocab_size), repeat=length - 1):
                for last in [END] if length < limit else range(self.vocab_size):
                    hypotheses.append(self._score(source, [*body, last], length_penalty))
        return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)

    def _score(self, source: list[int], tokens: list[int], length_penalty: float) -> Hypothesis:
        state, last, log_probs = self.start([source]), BEGIN, []
        for token in tokens:
            step_log_probs, state = self.step(torch.tensor([last]), state)
            log_probs.append(float(step_log_probs[0, token]))
            last = token
        ids = tokens[:-1] if tokens[-1] == END else tokens
        return Hypothesis(tuple(ids), tuple(log_probs), sum(log_probs) / gnmt(len(tokens), length_penalty))


@dataclass(frozen=True)
class ToyState:
    code: Tensor  # (B,)

    def select(self, rows: Tensor) -> ToyState:
        return ToyState(self.code[rows])


def make_sources(n: int, seed: int = 1, longest: int = 9) -> list[list[int]]:
    """Random sentences."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (n,), generator=generator).tolist()
    return [torch.randint(2, 1000, (length,), generator=generator).tolist() for length in lengths]

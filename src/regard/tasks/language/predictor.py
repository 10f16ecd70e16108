"""The beginning of a line in, its continuation out.

T tokens of a text, V vocabulary
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.artifact import Description, load_described
from regard.decoding import DecodingOptions, Hypothesis, Sampling, decode
from regard.errors import UserError
from regard.models import LanguageModel
from regard.nn import PackedWeights
from regard.tasks.task import OnProgress
from regard.text import Tokenizer, normalise

MAX_LENGTH, MAX_BEAM = 1_000, 16
# name → type, lowest and highest value, default
_OPTIONS: dict[str, tuple[type, float, float, float]] = {
    "length": (int, 1, MAX_LENGTH, 40),  # tokens at most; the end of the line comes earlier
    "temperature": (float, 0, 100, 0.8),
    "top_k": (int, 0, 1_000_000, 0),
    "top_p": (float, 1e-6, 1, 0.95),
    "beam": (int, 0, MAX_BEAM, 0),  # 0: draw at random
    "seed": (int, 0, 2**62, 1),
}
_HINT = f"""an input is a text, or {{"text": "The animal", "length": 40}}, with any of {", ".join(_OPTIONS)}"""


@dataclass(frozen=True)
class Continuation:
    """A text, and what the model writes after it, up to the end of the line."""

    prompt: str
    continuation: str
    log_probability: float  # of the continuation
    n_tokens: int
    is_complete: bool  # whether the line ended before the limit

    @property
    def text(self) -> str:
        return self.prompt + self.continuation

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text} | vars(self)


@dataclass(frozen=True)
class _ReadState:
    """The state after a text, until the first step asks for what comes next."""

    log_probs: Tensor  # (1, V)
    after: Any

    def select(self, rows: Tensor) -> _ReadState:
        return _ReadState(self.log_probs.index_select(0, rows), self.after.select(rows))


class Continuer:
    """A loaded language model."""

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.memory: int | None = None  # that `evaluate` reads with; None: what the model is made for
        self.on_progress: OnProgress = lambda stage, done, total: None
        self._packed = PackedWeights()

    @classmethod
    def load(cls, described: Description) -> Continuer:
        loaded = load_described(described)
        return cls(loaded.model, loaded.tokenizers.source)

    def predict(self, inputs: Sequence[Any]) -> list[Continuation]:
        """One continuation per input. It depends on the input alone, not on the others."""
        prepared = [self.options_of(value) for value in inputs]  # errors come before any work
        return [self._continue(text, options, length) for text, options, length in prepared]

    def options_of(self, value: Any) -> tuple[str, DecodingOptions, int]:
        """The text, how to search, and the maximum number of tokens."""
        given: Mapping[str, Any] = {"text": value} if isinstance(value, str) else value
        if not isinstance(given, dict) or not isinstance(given.get("text"), str):
            raise UserError("an input must be a text", hint=_HINT)
        if unknown := [name for name in given if name not in {"text", *_OPTIONS}]:
            raise UserError(f"there is no option {unknown[0]!r}", hint=_HINT)
        chosen = {name: _option(name, given.get(name)) for name in _OPTIONS}
        t = self.tokenizer
        is_random = not chosen["beam"] and chosen["temperature"] > 0
        sampling = Sampling(
            temperature=chosen["temperature"],
            top_k=int(chosen["top_k"]),
            top_p=chosen["top_p"],
            seed=int(chosen["seed"]),
        )
        options = DecodingOptions(
            beam=max(1, int(chosen["beam"])),
            extra_length=int(chosen["length"]),
            min_length=1,
            banned=(t.pad_id, t.unk_id, t.bos_id),
            sampling=sampling if is_random else None,
        )
        return given["text"], options, int(chosen["length"])

    def read(self, ids: Sequence[int]) -> tuple[Tensor, Any]:
        """Log-probabilities (1, V) of what follows these tokens, and the state after them."""
        state, step = self.model.start(1), self.model.evaluation_segment
        tokens = torch.tensor([[self.tokenizer.eos_id, *ids]])  # (1, T + 1): a line begins after the end of another
        for segment in tokens.split(step, 1):
            features, state = self.model.read(segment, state)
        return self.model.logits(features[:, -1]).log_softmax(-1), state

    def _continue(self, text: str, options: DecodingOptions, length: int) -> Continuation:
        prompt = normalise(text)
        ids = self.tokenizer.encode(prompt)
        with torch.inference_mode(), self._packed.in_use():
            first = _ReadState(*self.read(ids))
            [[best]] = decode(
                self._step, first, [ids], options, begin_id=0, end_id=self.tokenizer.eos_id, max_length=length
            )
        return self._continuation(prompt, ids, best, length)

    def _step(self, last: Tensor, state: Any) -> tuple[Tensor, Any]:
        return (state.log_probs, state.after) if isinstance(state, _ReadState) else self.model.step(last, state)

    def _continuation(self, prompt: str, ids: Sequence[int], best: Hypothesis, length: int) -> Continuation:
        before, whole = self.tokenizer.decode(ids), self.tokenizer.decode([*ids, *best.ids])
        log_probability, n_tokens = sum(best.log_probs), len(best.ids)
        return Continuation(prompt, whole[len(before) :], log_probability, n_tokens, n_tokens < len(best.log_probs))

    def close(self) -> None:
        """Nothing is open."""


def _option(name: str, value: Any) -> float:
    kind, low, high, default = _OPTIONS[name]
    if value is None:
        return default
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or (kind is int and value != int(value)):
        limits = f"a whole number from {low:,} to {high:,}" if kind is int else f"a number from {low:g} to {high:g}"
        raise UserError(f"{name} must be {limits}")
    return float(value) if kind is float else int(value)

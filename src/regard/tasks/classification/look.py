"""A look at a classifier: everything it computes for a text, and what the label depends on.

T sub-words, with bos and eos
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data import Batch
from regard.errors import UserError
from regard.lens.inspect import SiteLook, as_read, inspect
from regard.lens.look_json import ArrayFormat, encoder
from regard.nn import Trace
from regard.tasks.classification.predictor import Classifier
from regard.text import normalise

_MAX_WORDS = 100  # that are left out one by one
_BAR = 12  # characters


@dataclass(frozen=True)
class Word:
    """A word, and the probability of the predicted label without it."""

    text: str
    without: float | None  # None for words of a very long text
    gradient: float  # its share of the gradient


@dataclass(frozen=True, eq=False)
class ClassificationLook(SiteLook):
    """What a classifier computed for a text."""

    text: str
    pieces: tuple[str, ...]  # (T,), as the model reads them
    special: frozenset[str]  # bos and eos
    words: tuple[Word, ...]
    gradients: Tensor  # (T,) ‖∂ log p(label) / ∂ e_i‖ of every sub-word

    def to_dict(self, arrays: ArrayFormat = "list") -> dict[str, Any]:
        pieces = [{"text": piece, "special": piece in self.special} for piece in self.pieces]
        return super().to_dict(arrays) | {
            "source": {"text": self.text, "pieces": pieces},
            "words": [vars(word) for word in self.words],
            "dependence": encoder(arrays)(self.gradients[None]),
        }

    def table(self) -> list[tuple[str, ...]]:
        """Every word, the probability of the label without it, and its share of the gradient."""
        rows: list[tuple[str, ...]] = [("word", "without it", "", "gradient")]
        for word in self.words:
            without = "" if word.without is None else f"{word.without:.1%}"
            change = 0.0 if word.without is None else self.prediction["probability"] - word.without
            bar = ("+" if change > 0 else "−") * min(_BAR, round(abs(change) * 2 * _BAR))
            rows.append((word.text, without, bar, f"{word.gradient:.0%}"))
        return rows

    def picture(self) -> Any:
        """All attention heads: one row of maps per layer."""
        title = f"predicted: {self.prediction['label']} ({self.prediction['probability']:.1%})"
        return self.draw(self.pieces, title, self.text)


def look_at_text(classifier: Classifier, value: Any) -> ClassificationLook:
    """Runs one input with a trace, and again without each of its words."""
    example, texts = classifier.read(value), classifier.texts_of(value)
    batch, [prediction] = classifier.batch([example]), classifier.predict([value])
    gradients = _gradients(classifier, batch, classifier.labels.index(prediction.label))
    tokenizer = classifier.tokenizer
    row = as_read(classifier.model.config, batch.inputs[0][0].tolist())
    pieces, special = tuple(map(tokenizer.piece, row)), frozenset(map(tokenizer.piece, tokenizer.ends))
    words = [(number, word) for number, text in enumerate(texts) for word in normalise(text).split()]
    spread = _by_word(pieces, special, gradients, len(words))
    changed = [_without(texts, words, i) for i in range(min(len(words), _MAX_WORDS))]
    without = [p.probabilities[prediction.label] for p in classifier.predict(changed)]
    return ClassificationLook(
        trace=inspect(classifier.model, batch, {}).trace,
        prediction=prediction.to_dict(),
        text=" ⇥ ".join(texts),
        pieces=pieces,
        special=special,
        words=tuple(
            Word(word, without[i] if i < len(without) else None, spread[i]) for i, (_, word) in enumerate(words)
        ),
        gradients=gradients,
    )


def _gradients(classifier: Classifier, batch: Batch, label: int) -> Tensor:
    """(T,): ‖∂ log p(label) / ∂ e_i‖ at every sub-word."""
    trace = Trace(gradient=True)
    with torch.inference_mode(False), torch.enable_grad():
        logits = classifier.model(*batch.inputs, trace=trace)  # (1, C)
        embeddings = [trace[site.path] for site in trace.sites("embedding")]
        if not embeddings:
            raise UserError("this model does not show its embeddings, so there are no gradients of them")
        log_p = (logits / classifier.temperature).log_softmax(-1)[0, label]
        [gradient] = torch.autograd.grad(log_p, embeddings[:1])
    norms: Tensor = gradient[0].norm(dim=-1)
    return norms


def _by_word(pieces: tuple[str, ...], special: frozenset[str], gradients: Tensor, n_words: int) -> list[float]:
    """The share of each word; a word that was cut off has none."""
    sums, word = [0.0] * n_words, -1
    for piece, gradient in zip(pieces, gradients.tolist(), strict=True):
        if piece in special:
            continue
        word += piece.startswith("▁")
        if 0 <= word < n_words:
            sums[word] += gradient
    total = sum(sums) or 1.0
    return [value / total for value in sums]


def _without(texts: list[str], words: list[tuple[int, str]], left_out: int) -> Any:
    """The input without one of its words."""
    kept: list[list[str]] = [[] for _ in texts]
    for i, (number, word) in enumerate(words):
        if i != left_out:
            kept[number].append(word)
    joined = [" ".join(part) for part in kept]
    return joined[0] if len(joined) == 1 else joined

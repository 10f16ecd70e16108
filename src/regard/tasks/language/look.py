"""A look at a language model: how it expected every token of a text, and everything it computed for the last segment.

T tokens of the last segment, the first of which is eos if there is only one segment; V vocabulary
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import UserError
from regard.lens.inspect import SiteLook
from regard.lens.look_json import ArrayFormat, encoder
from regard.nn import Trace
from regard.tasks.language.predictor import Continuer
from regard.text import normalise

_N_EXPECTED = 5
_N_SHOWN = 3


class Expected(NamedTuple):
    """A token, and its probability."""

    text: str
    probability: float


@dataclass(frozen=True)
class ReadToken:
    """A token of the text, its probability, its rank (1: the most probable), and the most probable ones."""

    text: str
    probability: float
    rank: int
    expected: tuple[Expected, ...]


@dataclass(frozen=True, eq=False)
class LanguageLook(SiteLook):
    """What a language model computed for a text."""

    text: str
    context: tuple[str, ...]  # all tokens that it read, with eos in front
    pieces: tuple[str, ...]  # (T,) the last of them
    tokens: tuple[ReadToken, ...]  # without eos
    following: tuple[Expected, ...]  # what it expects after the text
    gradients: Tensor  # (T,) ‖∂ log p(most probable next token) / ∂ e_i‖

    def to_dict(self, arrays: ArrayFormat = "list") -> dict[str, Any]:
        pieces = [{"text": piece, "special": piece == "</s>"} for piece in self.pieces]
        tokens = [vars(token) | {"expected": [each._asdict() for each in token.expected]} for token in self.tokens]
        return super().to_dict(arrays) | {
            "source": {"text": self.text, "pieces": pieces},
            "context": list(self.context),
            "tokens": tokens,
            "next": [each._asdict() for each in self.following],
            "dependence": encoder(arrays)(self.gradients[None]),
        }

    def table(self) -> list[tuple[str, ...]]:
        """Every token, its probability, and what was more probable."""
        rows: list[tuple[str, ...]] = [("token", "probability", "more probable")]
        for token in self.tokens:
            others = token.expected[: min(_N_SHOWN, token.rank - 1)]
            rows.append((token.text, f"{token.probability:.2%}", _named(others)))
        return [*rows, ("next", "", _named(self.following[:_N_SHOWN]))]

    def picture(self) -> Any:
        """All attention heads, one row of maps per layer; without attention, the states."""
        from regard.lens.plots.heatmaps import AttentionMap, draw_grid, draw_units

        sites = [site for site in self.trace.sites("attention") if site.axes[1] == "source"]
        masks = self.trace.sites("mask")  # with the pattern of sparse attention; none for a single token
        hidden = ~self.trace[masks[0].path][0, 0].numpy() if masks else None
        sentences = (self.text, f"What it expects next: {_named(self.following[:_N_SHOWN])}")
        if sites:
            maps = [
                [
                    AttentionMap(f"layer {layer + 1} · head {head + 1}", weights.float().numpy(), hidden=hidden)
                    for head, weights in enumerate(self.trace[site.path][0])
                ]
                for layer, site in enumerate(sites)
            ]
            columns = self.context[-sites[0].shape[-1] :]
            return draw_grid(maps, self.pieces, columns, "Attention · each token attends to earlier ones", sentences)
        states = [site for site in self.trace.sites("state") if site.axes == ("source", "unit")]
        if not states:
            raise UserError("this model recorded nothing that can be drawn", hint="--json FILE has everything")
        vectors = [AttentionMap(site.path, self.trace[site.path][0].float().numpy(), is_signed=True) for site in states]
        return draw_units([(units, self.pieces) for units in vectors], "States · after each token", sentences)


def look_at_text(continuer: Continuer, value: Any) -> LanguageLook:
    """Reads a text with a trace: of its last segment, if it is longer than one."""
    text = continuer.options_of(value)[0]
    tokenizer, model = continuer.tokenizer, continuer.model
    ids = [tokenizer.eos_id, *tokenizer.encode(normalise(text))]
    trace, log_probs, state = Trace(gradient=True), [], model.start(1)
    with torch.inference_mode(False), torch.enable_grad():
        for segment in torch.tensor([ids]).split(model.segment, 1):
            features, state = model.read(segment, state, trace)
            log_probs.append(model.logits(features)[0].log_softmax(-1))
        [gradient] = torch.autograd.grad(log_probs[-1][-1].max(), [trace[trace.sites("embedding")[0].path]])
    scores = torch.cat(log_probs).detach()  # (all tokens, V)
    pieces = tuple(tokenizer.piece(i) for i in ids)
    following = _most_probable(scores[-1], tokenizer.piece)
    tokens = [_read_token(row, token, tokenizer.piece) for row, token in zip(scores, ids[1:], strict=False)]
    loss = -sum(float(row[token]) for row, token in zip(scores, ids[1:], strict=False)) / max(1, len(ids) - 1)
    most, n_last = following[0], gradient.shape[1]
    return LanguageLook(
        trace=_detached(trace),
        prediction={"next": most.text, "probability": most.probability, "perplexity": exp(min(loss, 700))},
        text=text,
        context=pieces,
        pieces=pieces[-n_last:],
        tokens=tuple(tokens),
        following=following,
        gradients=gradient[0].norm(dim=-1),
    )


def _read_token(log_probs: Tensor, token: int, piece: Any) -> ReadToken:
    """(V,) log-probabilities of all tokens, and the one that came."""
    rank = 1 + int((log_probs > log_probs[token]).sum())
    return ReadToken(piece(token), float(log_probs[token].exp()), rank, _most_probable(log_probs, piece))


def _most_probable(log_probs: Tensor, piece: Any) -> tuple[Expected, ...]:
    top = log_probs.topk(min(_N_EXPECTED, len(log_probs)))
    return tuple(Expected(piece(i), exp(p)) for p, i in zip(top.values.tolist(), top.indices.tolist(), strict=True))


def _named(expected: Sequence[Expected]) -> str:
    return ", ".join(f"{each.text} {each.probability:.1%}" for each in expected)


def _detached(trace: Trace) -> Trace:
    """The same tensors without their graph."""
    copy = Trace()
    for site in trace.sites():
        copy.record(site.path, trace[site.path], kind=site.kind, axes=site.axes)
    return copy

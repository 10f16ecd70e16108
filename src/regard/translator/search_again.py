"""Searches again for translations that lost a number or a placeholder, with it required.

The lost words are forced after every beginning of the translation, and the model completes each, first those after
which it finds the lost words most probable: the best that loses nothing is taken. So any engine can do it, and a number
that was garbled is replaced where it stood.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from regard.decoding.options import DecodingOptions, Hypothesis
from regard.engines.engine import Engine, Ids
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary import SPACE
from regard.translator.details import has_loop
from regard.translator.protected import Lost, Protection, localised

_LATIN = re.compile("[A-Za-zÀ-ɏ]")  # in Korean, particles follow a number without a space
MAX_ROUNDS = 4  # each requires one span more
MAX_POSITIONS = 24  # of a span in a translation
MAX_SPANS = 3  # that are tried in a round
N_FIRST = 4  # beginnings of a translation that are completed first; the others only if that does not help
MAX_EXTRA_LENGTH = 20  # tokens more than the source has; a forced word can make the model repeat itself
MAX_CANDIDATES = 2_000  # searched together


class Faulty(NamedTuple):
    """A translation that lost something."""

    text: str
    ids: Ids  # of the source
    n_forced: int  # the first ids of the translation, which have to stay
    hypothesis: Hypothesis
    lost: Lost
    n_glued: int = 0  # spans that the translation continues as a word: "37er"


class _Beginning(NamedTuple):
    """The first ids of a translation, followed by a lost span."""

    number: int  # of the translation
    ids: list[int]
    n_span: int  # ids of the span


class Search:
    """Searches again on an engine; `languages` are those of source and target, for the separators of numbers."""

    def __init__(
        self, engine: Engine, target: Tokenizer, protection: Protection, languages: tuple[str | None, str | None]
    ) -> None:
        self._engine, self._target, self._protection, self._languages = engine, target, protection, languages

    def repair(self, faulty: Sequence[Faulty], options: DecodingOptions, with_attention: bool) -> list[Hypothesis]:
        """A hypothesis for each, which lost less if one was found, else the old one."""
        current = list(faulty)
        remaining = [i for i, item in enumerate(current) if item.lost.spans]
        extra = min(options.extra_length, MAX_EXTRA_LENGTH)
        greedy = replace(options, beam=1, n_best=1, extra_length=extra)
        for _ in range(MAX_ROUNDS):
            improved = []
            for batch in _batches(remaining, current):
                better = self._round(batch, current, greedy, with_attention)
                for i, item in better.items():
                    current[i] = item
                    improved += [i] if item.lost.spans else []
            remaining = improved
        return [item.hypothesis for item in current]

    def _round(
        self, batch: Sequence[int], items: Sequence[Faulty], options: DecodingOptions, with_attention: bool
    ) -> dict[int, Faulty]:
        """The translations of the batch that lose less: after the most probable beginnings, else after all others."""
        ranked = self._ranked([beginning for i in batch for beginning in self._beginnings(i, items[i])], items)
        first = [beginning for group in ranked.values() for beginning in group[:N_FIRST]]
        better = self._complete(first, items, options, with_attention)
        others = [beginning for i, group in ranked.items() if i not in better for beginning in group[N_FIRST:]]
        return better | self._complete(others, items, options, with_attention)

    def _complete(
        self, beginnings: Sequence[_Beginning], items: Sequence[Faulty], options: DecodingOptions, with_attention: bool
    ) -> dict[int, Faulty]:
        """The best completion of each translation, where it loses less than before."""
        sources = [items[beginning.number].ids for beginning in beginnings]
        results = self._engine.translate(sources, options, [beginning.ids for beginning in beginnings], with_attention)
        best: dict[int, Faulty] = {}
        for (i, _, _), (hypothesis,) in zip(beginnings, results, strict=True):
            new = self._checked(items[i], hypothesis)
            is_better = new.lost.n_problems < items[i].lost.n_problems and not has_loop(hypothesis.ids)
            if is_better and (i not in best or _rank(new) < _rank(best[i])):
                best[i] = new
        return best

    def _checked(self, item: Faulty, hypothesis: Hypothesis) -> Faulty:
        text = self._target.decode(hypothesis.ids)
        spans = (localised(span, *self._languages) for span in item.lost.spans)
        n_glued = sum(_LATIN.match(text, text.find(span) + len(span)) is not None for span in spans if span in text)
        return item._replace(hypothesis=hypothesis, lost=self._protection.lost(item.text, text), n_glued=n_glued)

    def _ranked(self, beginnings: Sequence[_Beginning], items: Sequence[Faulty]) -> dict[int, list[_Beginning]]:
        """The beginnings of each translation, by the probability that the model gives the span after them."""
        scored = self._engine.score([items[b.number].ids for b in beginnings], [b.ids for b in beginnings])
        groups: dict[int, list[tuple[float, _Beginning]]] = {}
        for beginning, hypothesis in zip(beginnings, scored, strict=True):
            n = len(beginning.ids)
            span = hypothesis.log_probs[n - beginning.n_span : n]
            groups.setdefault(beginning.number, []).append((sum(span) / len(span), beginning))
        return {i: [b for _, b in sorted(group, key=lambda pair: -pair[0])] for i, group in groups.items()}

    def _beginnings(self, number: int, item: Faulty) -> list[_Beginning]:
        """Every beginning of the translation that ends with a word, followed by one of the lost spans."""
        ids = item.hypothesis.ids
        starts = [i for i in range(item.n_forced, len(ids)) if self._target.piece(ids[i]).startswith(SPACE)]
        positions = sorted({item.n_forced, *starts, len(ids)})
        step = -(-len(positions) // MAX_POSITIONS)
        spans = [self._target.encode(localised(span, *self._languages)) for span in item.lost.spans[:MAX_SPANS]]
        return [
            _Beginning(number, [*ids[:position], *span], len(span)) for span in spans for position in positions[::step]
        ]


def _rank(item: Faulty) -> tuple[int, int, float]:
    return item.lost.n_problems, item.n_glued, -item.hypothesis.score


def _batches(indices: Sequence[int], items: Sequence[Faulty]) -> list[list[int]]:
    """So that a batch has a bounded number of candidates."""
    batches: list[list[int]] = []
    n_candidates = MAX_CANDIDATES
    for i in indices:
        n = min(MAX_POSITIONS, len(items[i].hypothesis.ids) + 1) * min(MAX_SPANS, len(items[i].lost.spans))
        if n_candidates + n > MAX_CANDIDATES:
            batches.append([])
            n_candidates = 0
        batches[-1].append(i)
        n_candidates += n
    return batches

"""Searches again for translations that lost a number or a placeholder, with it required.

The lost words are forced after a beginning of the translation, and the model completes it; the best completion that
loses nothing is taken. So any engine can do it. A number that was garbled is first replaced where it stood, and other
words are forced near their place in the source. Where that does not help, they are forced after every beginning of the
translation, first after those where the model finds them most probable.
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
MAX_BEGINNINGS = 24  # of a translation
MAX_SPANS = 3  # that are tried in a round
N_NEAR = 3  # beginnings that are completed first
N_PROBABLE = 4  # beginnings that are completed next; the others only if that does not help
N_COMPARED = 2  # completions whose scores are compared
MAX_EXTRA_LENGTH = 20  # tokens more than the source has; a forced word can make the model repeat itself
MAX_CANDIDATES = 2_000  # searched together


class Faulty(NamedTuple):
    """A translation that lost something."""

    text: str
    ids: Ids  # of the source
    n_forced: int  # the first ids of the translation, which have to stay
    hypothesis: Hypothesis
    lost: Lost
    n_absent: int = 1_000  # lost spans that are not even a part of a longer word
    n_glued: int = 0  # spans that the translation continues as a word: "37er"


class _Beginning(NamedTuple):
    """The first ids of a translation, with a lost span at the end."""

    number: int  # of the translation
    ids: list[int]
    n_span: int = 0  # ids of the span


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
        """The translations of the batch that lose less."""
        better: dict[int, Faulty] = {}

        def complete(beginnings: Sequence[_Beginning]) -> None:
            for i, new in self._complete(beginnings, items, options, with_attention).items():
                if i not in better or _rank(new) < _rank(better[i]):
                    better[i] = new

        complete([beginning for i in batch for beginning in self._likely(i, items[i])])
        wrong = [i for i in batch if i not in better or better[i].lost.added]
        ranked = self._ranked([beginning for i in wrong for beginning in self._beginnings(i, items[i])], items)
        complete([beginning for group in ranked.values() for beginning in group[:N_PROBABLE]])
        complete([beginning for i in wrong if i not in better for beginning in ranked[i][N_PROBABLE:]])
        return better

    def _complete(
        self, beginnings: Sequence[_Beginning], items: Sequence[Faulty], options: DecodingOptions, with_attention: bool
    ) -> dict[int, Faulty]:
        """The best completion of each translation, where it loses less than before."""
        sources, prefixes = [items[b.number].ids for b in beginnings], [b.ids for b in beginnings]
        completed = self._engine.translate(sources, options, prefixes, rescore=False)
        good: dict[int, list[Faulty]] = {}
        for beginning, (hypothesis,) in zip(beginnings, completed, strict=True):
            old = items[beginning.number]
            new = self._checked(old, hypothesis)
            is_better = (new.lost.n_problems, new.n_absent) < (
                old.lost.n_problems,
                min(old.n_absent, len(old.lost.spans)),
            )
            if is_better and not has_loop(hypothesis.ids):
                good.setdefault(beginning.number, []).append(new)
        compared = [(i, new) for i, group in good.items() for new in sorted(group, key=_n_faults)[:N_COMPARED]]
        scored = self._engine.translate(
            [new.ids for _, new in compared], options, [new.hypothesis.ids for _, new in compared], with_attention
        )
        best: dict[int, Faulty] = {}
        for (i, _), (hypothesis,) in zip(compared, scored, strict=True):
            new = self._checked(items[i], hypothesis)
            if i not in best or _rank(new) < _rank(best[i]):
                best[i] = new
        return best

    def _checked(self, item: Faulty, hypothesis: Hypothesis) -> Faulty:
        text = self._target.decode(hypothesis.ids)
        spans = [localised(span, *self._languages) for span in item.lost.spans]
        n_absent = sum(span not in text for span in spans)
        n_glued = sum(_LATIN.match(text, text.find(span) + len(span)) is not None for span in spans if span in text)
        return item._replace(
            hypothesis=hypothesis, lost=self._protection.lost(item.text, text), n_absent=n_absent, n_glued=n_glued
        )

    def _likely(self, number: int, item: Faulty) -> list[_Beginning]:
        """The beginnings that are tried first."""
        return self._replaced(number, item) or self._near(number, item)

    def _replaced(self, number: int, item: Faulty) -> list[_Beginning]:
        """The translation with lost numbers in place of the added ones: as a whole, and up to the first of them."""
        text = self._target.decode(item.hypothesis.ids)
        places = _places(item.lost, text)
        if not places or item.n_forced:
            return []
        first, new = places[0]
        texts = [text[: first.start()] + localised(new, *self._languages)]
        if len(places) == len(item.lost.spans) == len(item.lost.added):
            for place, new in sorted(places, key=lambda pair: -pair[0].start()):
                text = text[: place.start()] + localised(new, *self._languages) + text[place.end() :]
            texts.insert(0, text)
        return [_Beginning(number, self._target.encode(text)) for text in texts]

    def _near(self, number: int, item: Faulty) -> list[_Beginning]:
        """Beginnings that end about where the first lost span is in the source."""
        place = max(0, item.text.find(item.lost.spans[0])) / len(item.text) * len(item.hypothesis.ids)
        beginnings = self._beginnings(number, item, n_spans=1)
        return sorted(beginnings, key=lambda b: abs(len(b.ids) - b.n_span - place))[:N_NEAR]

    def _ranked(self, beginnings: Sequence[_Beginning], items: Sequence[Faulty]) -> dict[int, list[_Beginning]]:
        """The beginnings of each translation, by the probability that the model gives the span after them."""
        scored = self._engine.score([items[b.number].ids for b in beginnings], [b.ids for b in beginnings])
        groups: dict[int, list[tuple[float, _Beginning]]] = {}
        for beginning, hypothesis in zip(beginnings, scored, strict=True):
            n = len(beginning.ids)
            span = hypothesis.log_probs[n - beginning.n_span : n]
            groups.setdefault(beginning.number, []).append((sum(span) / len(span), beginning))
        return {i: [b for _, b in sorted(group, key=lambda pair: -pair[0])] for i, group in groups.items()}

    def _beginnings(self, number: int, item: Faulty, n_spans: int = MAX_SPANS) -> list[_Beginning]:
        """Every beginning of the translation that ends with a word, followed by one of the lost spans."""
        ids = _before_loop(item.hypothesis.ids)
        starts = [i for i in range(item.n_forced, len(ids)) if self._target.piece(ids[i]).startswith(SPACE)]
        positions = sorted({item.n_forced, *starts, max(item.n_forced, len(ids))})
        spans = [self._target.encode(localised(span, *self._languages)) for span in item.lost.spans[:n_spans]]
        step = -(-len(positions) * len(spans) // MAX_BEGINNINGS)
        return [
            _Beginning(number, [*item.hypothesis.ids[:position], *span], len(span))
            for span in spans
            for position in positions[::step]
        ]


def _places(lost: Lost, text: str) -> list[tuple[re.Match[str], str]]:
    """Where the translation has what it added, and what was lost instead: a number for a number, in order."""
    numbers = [span for span in lost.added if span[:1].isdigit()]
    others = [span for span in lost.added if not span[:1].isdigit()]
    places = []
    ends: dict[str, int] = {}
    for new, old in [*zip(lost.placeholders, others, strict=False), *zip(lost.numbers, numbers, strict=False)]:
        place = re.compile(rf"(?<!\d){re.escape(old)}(?!\d)").search(text, ends.get(old, 0))
        if place is not None:
            places.append((place, new))
            ends[old] = place.end()
    return places


def _before_loop(ids: Ids) -> Ids:
    """The ids without what a loop repeats."""
    while has_loop(ids):
        ids = ids[: len(ids) * 3 // 4]
    return ids


def _n_faults(item: Faulty) -> tuple[int, int, int]:
    return item.lost.n_problems, item.n_absent, item.n_glued


def _rank(item: Faulty) -> tuple[int, int, int, float]:
    return *_n_faults(item), -item.hypothesis.score


def _batches(indices: Sequence[int], items: Sequence[Faulty]) -> list[list[int]]:
    """So that a batch has a bounded number of candidates."""
    batches: list[list[int]] = []
    n_candidates = MAX_CANDIDATES
    for i in indices:
        n = min(MAX_BEGINNINGS, (len(items[i].hypothesis.ids) + 1) * len(items[i].lost.spans))
        if n_candidates + n > MAX_CANDIDATES:
            batches.append([])
            n_candidates = 0
        batches[-1].append(i)
        n_candidates += n
    return batches

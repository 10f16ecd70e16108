"""Splits text into what a model translates at once, and joins the translations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regard.text.languages import Languages
from regard.text.sentences import Part, join_gap, sentences, split_lines

MULTI_SENTENCE_LINES = "multi_sentence_lines"  # fact about a model: their share of its training text
_MAX_MULTI_SENTENCE_LINES = 0.2  # a model with more of them has learned to translate several sentences at once


def sentence_facts(lines: Iterable[str], facts: Mapping[str, Any]) -> dict[str, float]:
    """How many of these lines of training text have more than one sentence, for a Splitter of the model."""
    splitter = Splitter(facts)
    n_sentences = [len(splitter.split(line)) for line in lines]
    return {MULTI_SENTENCE_LINES: round(sum(n > 1 for n in n_sentences) / max(1, len(n_sentences)), 4)}


class Splitter:
    """Splits texts into sentences if the model was trained on single sentences, otherwise into lines.

    A model of 0.1.0 does not say what it was trained on; nearly all parallel text has one sentence per line.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        source = Languages.from_facts(facts).source
        self._language = None if source is None else re.split("[-_]", source)[0]
        share = facts.get(MULTI_SENTENCE_LINES)
        self.by_sentence = not (isinstance(share, int | float) and share > _MAX_MULTI_SENTENCE_LINES)

    def split(self, text: str, by_sentence: bool = True) -> list[Part]:
        """The parts of a text, in order; at least one. White space around the text is dropped."""
        return sentences(text, self._language) if by_sentence and self.by_sentence else split_lines(text)


def join(parts: Sequence[Part], translations: Sequence[str]) -> str:
    """The translated parts, with the spacing and the line breaks of the text."""
    *before, last = zip(parts, translations, strict=True)
    return "".join(translation + join_gap(part, translation) for part, translation in before) + last[1]

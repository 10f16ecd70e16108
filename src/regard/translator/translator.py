"""Text → text, over an engine. Raw lines in, raw lines out; line i of the output is line i of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from regard.artifact import Description, describe, max_length, search_options
from regard.decoding.options import DecodingOptions, Hypothesis
from regard.engines.engine import Engine, EngineName, Precision, load_engine
from regard.text import normalise
from regard.text.sentences import Part, split_long
from regard.text.tokenizer import Tokenizer
from regard.translator.details import Token, align_words, tokens_of, warnings_of


@dataclass(frozen=True)
class Translation:
    """One line, translated. `tokens` and `alignment` are there when details were asked for."""

    text: str
    score: float = 0.0  # length-normalised log-probability: what hypotheses are ranked by
    tokens: tuple[Token, ...] = ()  # the translation's sub-words, each with its probability
    alignment: tuple[tuple[int, int], ...] = ()  # (source word, target word), both counted from 0
    alternatives: tuple[Translation, ...] = ()  # the next best ones
    n_parts: int = 1  # into how many the line was split; 0 for a blank line
    warnings: tuple[str, ...] = ()  # signs of a hallucination: "loops", "copies", "short", "long"


@dataclass(frozen=True)
class _Line:
    """A line on its way through the engine: its parts, and where they stand among all parts."""

    source: str
    parts: tuple[Part, ...]
    first: int


class Translator:
    """A loaded model. Thread-safe; usable as a context manager."""

    def __init__(self, described: Description, engine: Engine, precision: Precision = "float32") -> None:
        self.described = described
        self.engine = engine
        self.precision = precision  # that the engine computes in
        self.options = search_options(described.facts)  # unless others are asked for
        self._max_length = max_length(described.facts, described.model)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        engine: EngineName = "auto",
        precision: Precision = "int8",
        threads: int | None = None,
    ) -> Self:
        """The model of a run, or of a model directory. `auto` takes CTranslate2 where the model allows it.

        `precision` is CTranslate2's; torch always computes in float32.
        """
        described = describe(path)
        computes = load_engine(described, engine, precision, threads)
        return cls(described, computes, "float32" if computes.name == "torch" else precision)

    def translate(
        self,
        lines: Sequence[str],
        *,
        options: DecodingOptions | None = None,
        prefixes: Sequence[str] | None = None,
        target: str | None = None,
        details: bool = False,
    ) -> list[Translation]:
        """One translation a line; a blank line stays blank, and the model never sees it.

        `prefixes` are what the translations must begin with; `target` is the language, where the model has several.
        """
        return self.begin(lines, options=options, prefixes=prefixes, target=target, details=details)()

    def begin(
        self,
        lines: Sequence[str],
        *,
        options: DecodingOptions | None = None,
        prefixes: Sequence[str] | None = None,
        target: str | None = None,
        details: bool = False,
    ) -> Callable[[], list[Translation]]:
        """As `translate`, but gives the engine its work and returns; call what is returned for the translations.

        Whoever has many lines begins the next ones before asking for the last ones: the engine is never idle.
        """
        if prefixes is not None and len(prefixes) != len(lines):
            raise ValueError(f"{len(prefixes)} prefixes for {len(lines)} lines")
        waiting, sources, forced = self._parts(lines, prefixes, self._source.tag_for(target))
        found = self.engine.begin(
            sources, options or self.options, forced if prefixes is not None else None, with_attention=details
        )

        def joined() -> list[Translation]:
            hypotheses = found()
            return [self._joined(line, sources, hypotheses, details) for line in waiting]

        return joined

    def score(self, lines: Sequence[str], translations: Sequence[str], *, target: str | None = None) -> list[float]:
        """log p(translation | line) of given pairs, by forced decoding."""
        sources = self._source.encode_many(lines, tag=self._source.tag_for(target))
        found = self.engine.score(sources, self._target.encode_many(translations))
        return [sum(hypothesis.log_probs) for hypothesis in found]

    def close(self) -> None:
        """Give back threads and memory."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _source(self) -> Tokenizer:
        return self.described.tokenizers.source

    @property
    def _target(self) -> Tokenizer:
        return self.described.tokenizers.target

    def _parts(
        self, lines: Sequence[str], prefixes: Sequence[str] | None, target: str | None
    ) -> tuple[list[_Line], list[list[int]], list[list[int]]]:
        """Every line's parts as ids, all in one list for the engine, and what each must begin with."""
        clean = [normalise(line) for line in lines]
        encoded = self._source.encode_many(clean, tag=target)
        waiting: list[_Line] = []
        sources: list[list[int]] = []
        forced: list[list[int]] = []
        for number, (line, ids) in enumerate(zip(clean, encoded, strict=True)):
            parts: tuple[Part, ...] = (Part(line, ""),) if line else ()
            if len(ids) > self._max_length:
                parts = tuple(split_long(line, self._max_length - 1, lambda text: len(self._source.encode(text))))
            waiting.append(_Line(line, parts, len(sources)))
            if len(parts) == 1:
                sources.append(ids)
            else:
                sources += self._source.encode_many([part.text for part in parts], tag=target)
            first = self._target.encode(prefixes[number]) if prefixes is not None else []
            forced += [first if place == 0 else [] for place in range(len(parts))]
        return waiting, sources, forced

    def _joined(
        self, line: _Line, sources: list[list[int]], found: list[list[Hypothesis]], details: bool
    ) -> Translation:
        """The line's translation from those of its parts."""
        if not line.parts:
            return Translation("", n_parts=0)
        if len(line.parts) == 1:
            ranked = [self._one(line.source, sources[line.first], one, details) for one in found[line.first]]
            best = ranked[0]
            return Translation(best.text, best.score, best.tokens, best.alignment, tuple(ranked[1:]), 1, best.warnings)
        places = range(line.first, line.first + len(line.parts))
        done = [
            self._one(part.text, sources[place], found[place][0], details)
            for part, place in zip(line.parts, places, strict=True)
        ]
        text = "".join(one.text + _gap(part, one.text) for part, one in zip(line.parts, done, strict=True)).strip()
        return Translation(
            text,
            score=sum(one.score for one in done),
            tokens=tuple(token for one in done for token in one.tokens),
            alignment=_shifted(line.parts, done),
            n_parts=len(done),
            warnings=tuple(sorted({warning for one in done for warning in one.warnings})),
        )

    def _one(self, source: str, source_ids: list[int], found: Hypothesis, details: bool) -> Translation:
        text = self._target.decode(found.ids)
        tokens = tokens_of(self._target, found) if details else ()
        alignment = align_words(self._source, self._target, source_ids, found) if details else ()
        return Translation(
            text, found.score, tokens, alignment, warnings=warnings_of(source, text, source_ids, found.ids)
        )


def _gap(part: Part, translated: str) -> str:
    """What stands between two translated parts: a space, unless neither side of the translation uses them."""
    return "" if not part.gap and translated[-1:] in "。！？，；：、" else " "


def _shifted(parts: Sequence[Part], done: Sequence[Translation]) -> tuple[tuple[int, int], ...]:
    """Word numbers within the parts → within the line."""
    pairs: list[tuple[int, int]] = []
    n_source = n_target = 0
    for part, one in zip(parts, done, strict=True):
        pairs += [(n_source + source, n_target + target) for source, target in one.alignment]
        n_source += len(part.text.split())
        n_target += len(one.text.split())
    return tuple(pairs)

"""Text → text, over an engine. Line i of the output is the translation of line i of the input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from regard.artifact import Description, describe, max_length, search_options
from regard.decoding.options import DecodingOptions, Hypothesis
from regard.engines.engine import Engine, EngineName, PendingHypotheses, Precision, load_engine
from regard.errors import UserError
from regard.text import normalise
from regard.text.sentences import Part, split_long
from regard.translator.details import Token, align_words, tokens_of, warnings_of

BATCH_LINES = 5_000  # sorted by length and translated together
BATCH_CHARACTERS = 2_000_000
DETAILED_BATCH_CHARACTERS = 100_000  # attention is kept for every token: memory grows with the square of the length


@dataclass(frozen=True)
class Translation:
    """The translation of one line. `tokens` and `alignment` are filled in with `details=True`."""

    text: str
    score: float = 0.0  # log-probability, normalised by length: hypotheses are ranked by it
    tokens: tuple[Token, ...] = ()  # the sub-words of the translation, each with its probability
    alignment: tuple[tuple[int, int], ...] = ()  # (source word, target word), both counted from 0
    alternatives: tuple[Translation, ...] = ()  # the next best translations
    n_parts: int = 1  # how many parts the line was split into; 0 for a blank line
    warnings: tuple[str, ...] = ()  # signs of a hallucination: "loops", "copies", "short", "long"

    def to_dict(self) -> dict[str, Any]:
        """The text, its score and warnings, as JSON."""
        return {"text": self.text, "score": self.score, "warnings": list(self.warnings)}


@dataclass(frozen=True)
class _SourceLine:
    """A line split into parts; `first` is the index of its first part among the parts of its batch."""

    text: str
    parts: tuple[Part, ...]
    first: int


@dataclass(frozen=True)
class _SubmittedBatch:
    """Lines that the engine is translating."""

    lines: list[_SourceLine]
    sources: list[list[int]]  # the ids of every part
    hypotheses: PendingHypotheses
    details: bool


class Translator:
    """A loaded model. Thread-safe; usable as a context manager."""

    task: ClassVar = "translation"  # of the models that it can load

    def __init__(self, described: Description, engine: Engine, precision: Precision = "float32") -> None:
        self.described = described
        self.engine = engine
        self.precision = precision  # that the engine computes in
        self.options = search_options(described.facts)  # the default search options
        self._max_length = max_length(described.facts, described.max_length)
        self._source, self._target = described.tokenizers.source, described.tokenizers.target

    @classmethod
    def load(
        cls,
        path: str | Path | Description,
        *,
        engine: EngineName = "auto",
        precision: Precision = "int8",
        threads: int | None = None,
    ) -> Self:
        """Load the model from a run or a model directory. `auto` uses CTranslate2 if the model supports it, else torch.

        `precision` applies to CTranslate2; torch always computes in float32. A `Description` has been verified already.
        """
        described = path if isinstance(path, Description) else describe(path)
        if described.task != cls.task:
            raise UserError(
                f"{described.directory} is no translator: its task is {described.task}",
                hint="use regard predict, regard evaluate RUN FILES, or regard.load",
            )
        loaded_engine = load_engine(described, engine, precision, threads)
        return cls(described, loaded_engine, "float32" if loaded_engine.name == "torch" else precision)

    def translate(
        self,
        lines: Sequence[str],
        *,
        options: DecodingOptions | None = None,
        prefixes: Sequence[str] | None = None,
        target: str | None = None,
        details: bool = False,
    ) -> list[Translation]:
        """Translate lines, one translation per line. A blank line stays blank and is not passed to the model.

        The translation of line i starts with `prefixes[i]`. `target` is the target language, for a model with several.
        """
        return self._collect(self._submit(lines, options, prefixes, target, details))

    def predict(self, inputs: Sequence[Any]) -> list[Translation]:
        """`translate`, as models of every task can be called; into the first language, if the model has several."""
        if not all(isinstance(line, str) for line in inputs):
            raise UserError("a translator takes lines of text", hint='give strings, as in {"input": ["A sentence."]}')
        return self.translate(inputs, target=next(iter(self._source.tags), None))

    def translate_iter(
        self,
        lines: Iterable[str],
        *,
        options: DecodingOptions | None = None,
        prefix: str | None = None,
        target: str | None = None,
        details: bool = False,
        batch_size: int = BATCH_LINES,
    ) -> Iterator[Translation]:
        """Translate any number of lines in bounded memory; yields one translation per line, in order.

        Up to `batch_size` lines are translated together, and the next batch is computed while you use the last one.
        Every translation starts with `prefix`.
        """
        batches = _batches(lines, batch_size, DETAILED_BATCH_CHARACTERS if details else BATCH_CHARACTERS)
        results = self.translate_batches(batches, options=options, prefix=prefix, target=target, details=details)
        for _, translations in results:
            yield from translations

    def translate_batches(
        self,
        batches: Iterable[list[str]],
        *,
        options: DecodingOptions | None = None,
        prefix: str | None = None,
        target: str | None = None,
        details: bool = False,
    ) -> Iterator[tuple[list[str], list[Translation]]]:
        """Like `translate_iter`, but yields each batch of lines with its translations.

        The engine gets the next batch before the result of the last one is awaited. An empty batch yields nothing, but
        flushes: the results of all batches before it are yielded before another batch is requested.
        """
        pending: tuple[list[str], _SubmittedBatch] | None = None
        for lines in batches:
            prefixes = [prefix] * len(lines) if prefix is not None else None
            submitted = (lines, self._submit(lines, options, prefixes, target, details)) if lines else None
            if pending is not None:
                yield pending[0], self._collect(pending[1])
            pending = submitted
        if pending is not None:
            yield pending[0], self._collect(pending[1])

    def score(self, lines: Sequence[str], translations: Sequence[str], *, target: str | None = None) -> list[float]:
        """log p(translation | line) for each given pair, by forced decoding."""
        sources = self._source.encode_many(lines, tag=self._source.tag_for(target))
        hypotheses = self.engine.score(sources, self._target.encode_many(translations))
        return [sum(hypothesis.log_probs) for hypothesis in hypotheses]

    def close(self) -> None:
        """Release threads and memory."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _submit(
        self,
        lines: Sequence[str],
        options: DecodingOptions | None,
        prefixes: Sequence[str] | None,
        target: str | None,
        details: bool,
    ) -> _SubmittedBatch:
        if prefixes is not None and len(prefixes) != len(lines):
            raise ValueError(f"{len(prefixes)} prefixes for {len(lines)} lines")
        source_lines, sources, part_prefixes = self._encode(lines, prefixes, self._source.tag_for(target))
        hypotheses = self.engine.submit(
            sources, options or self.options, part_prefixes if prefixes is not None else None, with_attention=details
        )
        return _SubmittedBatch(source_lines, sources, hypotheses, details)

    def _collect(self, batch: _SubmittedBatch) -> list[Translation]:
        """Wait for the engine, and join the parts of each line."""
        hypotheses = batch.hypotheses()
        return [self._join_parts(line, batch.sources, hypotheses, batch.details) for line in batch.lines]

    def _encode(
        self, lines: Sequence[str], prefixes: Sequence[str] | None, tag: str | None
    ) -> tuple[list[_SourceLine], list[list[int]], list[list[int]]]:
        """Lines split into parts, the ids of all parts, and the ids that the translation of each part starts with."""
        texts = [normalise(line) for line in lines]
        encoded = self._source.encode_many(texts, tag=tag)
        source_lines: list[_SourceLine] = []
        sources: list[list[int]] = []
        part_prefixes: list[list[int]] = []
        for number, (text, ids) in enumerate(zip(texts, encoded, strict=True)):
            parts: tuple[Part, ...] = (Part(text, ""),) if text else ()
            if len(ids) > self._max_length:
                parts = tuple(split_long(text, self._max_length - 1, lambda part: len(self._source.encode(part))))
            source_lines.append(_SourceLine(text, parts, len(sources)))
            if len(parts) == 1:
                sources.append(ids)
            else:
                sources += self._source.encode_many([part.text for part in parts], tag=tag)
            prefix_ids = self._target.encode(prefixes[number]) if prefixes is not None else []
            part_prefixes += [prefix_ids if index == 0 else [] for index in range(len(parts))]
        return source_lines, sources, part_prefixes

    def _join_parts(
        self, line: _SourceLine, sources: list[list[int]], hypotheses: list[list[Hypothesis]], details: bool
    ) -> Translation:
        """The translation of a line from the hypotheses of its parts."""
        if not line.parts:
            return Translation("", n_parts=0)
        if len(line.parts) == 1:
            source = sources[line.first]
            best, *others = [self._decode(line.text, source, ranked, details) for ranked in hypotheses[line.first]]
            return replace(best, alternatives=tuple(others)) if others else best
        indices = range(line.first, line.first + len(line.parts))
        translations = [
            self._decode(part.text, sources[index], hypotheses[index][0], details)
            for part, index in zip(line.parts, indices, strict=True)
        ]
        pairs = list(zip(line.parts, translations, strict=True))
        return Translation(
            text="".join(translation.text + _gap(part, translation.text) for part, translation in pairs).strip(),
            score=sum(translation.score for translation in translations),
            tokens=tuple(token for translation in translations for token in translation.tokens),
            alignment=_line_alignment(pairs),
            n_parts=len(translations),
            warnings=tuple(sorted({warning for translation in translations for warning in translation.warnings})),
        )

    def _decode(self, source: str, source_ids: list[int], hypothesis: Hypothesis, details: bool) -> Translation:
        text = self._target.decode(hypothesis.ids)
        tokens = tokens_of(self._target, hypothesis) if details else ()
        alignment = align_words(self._source, self._target, source_ids, hypothesis) if details else ()
        warnings = warnings_of(source, text, source_ids, hypothesis.ids)
        return Translation(text, hypothesis.score, tokens, alignment, warnings=warnings)


def _batches(lines: Iterable[str], max_lines: int, max_characters: int) -> Iterator[list[str]]:
    """Consecutive lines, until there are `max_lines` or more than `max_characters` of text."""
    batch: list[str] = []
    n_characters = 0
    for line in lines:
        batch.append(line)
        n_characters += len(line)
        if len(batch) >= max_lines or n_characters > max_characters:
            yield batch
            batch, n_characters = [], 0
    if batch:
        yield batch


def _gap(part: Part, translation: str) -> str:
    """The text between two translated parts: a space, except in scripts that put none after a sentence."""
    return "" if not part.gap and translation[-1:] in "。！？，；：、" else " "


def _line_alignment(pairs: Sequence[tuple[Part, Translation]]) -> tuple[tuple[int, int], ...]:
    """The alignments of all parts, with word indices counted from the start of the line."""
    alignment: list[tuple[int, int]] = []
    n_source = n_target = 0
    for part, translation in pairs:
        alignment += [(n_source + source, n_target + target) for source, target in translation.alignment]
        n_source += len(part.text.split())
        n_target += len(translation.text.split())
    return tuple(alignment)

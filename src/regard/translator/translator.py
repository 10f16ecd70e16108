"""Text → text, over an engine. Line i of the output is the translation of line i of the input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from regard.artifact import Description, describe, max_length, search_options
from regard.decoding.options import DecodingOptions, Hypothesis
from regard.engines.engine import Engine, EngineName, PendingHypotheses, Precision, load_engine, shipped_precision
from regard.errors import UserError
from regard.text import normalise
from regard.text.languages import Languages
from regard.text.sentences import Part, join_gap, split_long
from regard.translator.details import Token, align_words, tokens_of
from regard.translator.protected import KEPT_NUMBERS, Lost, Protection
from regard.translator.search_again import Faulty, Search
from regard.translator.splitting import Splitter, join
from regard.translator.warning_signs import WarningSigns

BATCH_LINES = 2_000  # sorted by length and translated together
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
    n_parts: int = 1  # how many parts of the line were translated separately; 0 for a blank line
    warnings: tuple[str, ...] = ()  # what is wrong, or may be: docs/trust.md

    def to_dict(self) -> dict[str, Any]:
        """The text, its score and warnings, as JSON."""
        return {"text": self.text, "score": self.score, "warnings": list(self.warnings)}


@dataclass(frozen=True)
class _Sentence:
    """What the model translates at once: a sentence, or a part of one that is too long."""

    text: str
    ids: list[int]
    prefix: list[int]  # ids that its translation starts with


class _Output(NamedTuple):
    """A hypothesis as text, and what it lost."""

    hypothesis: Hypothesis
    text: str
    lost: Lost


@dataclass(frozen=True)
class _SourceLine:
    """The parts of a line; none if it is blank. A part without words has no sentence: it stays as it is."""

    parts: tuple[Part, ...] = ()
    sentences: tuple[_Sentence | None, ...] = ()


@dataclass(frozen=True)
class _SubmittedBatch:
    """Lines that the engine is translating."""

    lines: list[_SourceLine]
    hypotheses: PendingHypotheses  # of all their sentences
    options: DecodingOptions
    details: bool


class Translator:
    """A loaded model. Thread-safe; usable as a context manager."""

    task: ClassVar = "translation"  # of the models that it can load

    def __init__(
        self,
        described: Description,
        engine: Engine,
        precision: Precision = "float32",
        protect: Sequence[str] = (),
    ) -> None:
        self.described = described
        self.engine = engine
        self.precision = precision  # that the engine computes in
        self.options = search_options(described.facts)  # the default search options
        self._max_length = max_length(described.facts, described.max_length)
        self._splitter = Splitter(described.facts)
        self.protection = Protection(protect, described.facts.get(KEPT_NUMBERS))
        self._signs = WarningSigns(described.facts, described.tokenizers)
        self._source, self._target = described.tokenizers.source, described.tokenizers.target
        languages = Languages.from_facts(described.facts)
        target_language = languages.targets[0] if len(languages.targets) == 1 else None
        self._search = Search(engine, self._target, self.protection, (languages.source, target_language))

    @classmethod
    def load(
        cls,
        path: str | Path | Description,
        *,
        engine: EngineName = "auto",
        precision: Precision | None = None,
        threads: int | None = None,
        protect: Sequence[str] = (),
    ) -> Self:
        """Load the model from a run or a model directory. `auto` uses CTranslate2 if the model supports it, else torch.

        `precision` applies to CTranslate2, by default int8, or float32 if int8 was measured to lose quality; torch
        always computes in float32. `protect` are regular expressions: what
        they match has to be kept, like numbers and placeholders. A `Description` has been verified already.
        """
        described = path if isinstance(path, Description) else describe(path)
        if described.task != cls.task:
            raise UserError(
                f"{described.directory} is no translator: its task is {described.task}",
                hint="use regard predict, regard evaluate RUN FILES, or regard.load",
            )
        precision = precision or shipped_precision(described.facts)
        loaded_engine = load_engine(described, engine, precision, threads)
        return cls(described, loaded_engine, "float32" if loaded_engine.name == "torch" else precision, protect)

    def translate(
        self,
        lines: Sequence[str],
        *,
        options: DecodingOptions | None = None,
        prefixes: Sequence[str] | None = None,
        target: str | None = None,
        details: bool = False,
        split: bool = True,
    ) -> list[Translation]:
        """Translate lines, one translation per line. A blank line stays blank and is not passed to the model.

        The translation of line i starts with `prefixes[i]`. `target` is the target language, for a model with several.
        A model that was trained on single sentences gets a line sentence by sentence, unless `split` is False. A line
        may also be a text of several lines: its spacing and its line breaks are kept.
        """
        return self._collect(self._submit(lines, options, prefixes, target, details, split))

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
        split: bool = True,
        batch_size: int = BATCH_LINES,
    ) -> Iterator[Translation]:
        """Translate any number of lines in bounded memory; yields one translation per line, in order.

        Up to `batch_size` lines are translated together, and the next batch is computed while you use the last one.
        Every translation starts with `prefix`.
        """
        batches = _batches(lines, batch_size, DETAILED_BATCH_CHARACTERS if details else BATCH_CHARACTERS)
        results = self.translate_batches(
            batches, options=options, prefix=prefix, target=target, details=details, split=split
        )
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
        split: bool = True,
    ) -> Iterator[tuple[list[str], list[Translation]]]:
        """Like `translate_iter`, but yields each batch of lines with its translations.

        The engine gets the next batch before the result of the last one is awaited. An empty batch yields nothing, but
        flushes: the results of all batches before it are yielded before another batch is requested.
        """
        pending: tuple[list[str], _SubmittedBatch] | None = None
        for lines in batches:
            prefixes = [prefix] * len(lines) if prefix is not None else None
            submitted = (lines, self._submit(lines, options, prefixes, target, details, split)) if lines else None
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
        split: bool,
    ) -> _SubmittedBatch:
        if prefixes is not None and len(prefixes) != len(lines):
            raise ValueError(f"{len(prefixes)} prefixes for {len(lines)} lines")
        source_lines = self._encode(lines, prefixes or [""] * len(lines), self._source.tag_for(target), split)
        sentences = [sentence for line in source_lines for sentence in line.sentences if sentence is not None]
        options = options or self.options
        hypotheses = self.engine.submit(
            [sentence.ids for sentence in sentences],
            options,
            None if prefixes is None else [sentence.prefix for sentence in sentences],
            with_attention=details,
        )
        return _SubmittedBatch(source_lines, hypotheses, options, details)

    def _collect(self, batch: _SubmittedBatch) -> list[Translation]:
        """Wait for the engine, search again where something was lost, and join the parts of each line."""
        sentences = [sentence for line in batch.lines for sentence in line.sentences if sentence is not None]
        n_best_lists = [
            [self._decode(sentence, hypothesis) for hypothesis in hypotheses]
            for sentence, hypotheses in zip(sentences, batch.hypotheses(), strict=True)
        ]
        if batch.options.sampling is None:
            self._search_again(sentences, n_best_lists, batch)
        ranked = iter(
            [
                [self._describe(sentence, output, batch) for output in outputs]
                for sentence, outputs in zip(sentences, n_best_lists, strict=True)
            ]
        )

        def translate(part: Part, sentence: _Sentence | None) -> Translation:
            if sentence is None:
                return Translation(normalise(part.text))
            best, *others = next(ranked)
            return replace(best, alternatives=tuple(others)) if others else best

        return [
            _join_parts(line.parts, [translate(*pair) for pair in zip(line.parts, line.sentences, strict=True)])
            for line in batch.lines
        ]

    def _search_again(
        self, sentences: Sequence[_Sentence], n_best_lists: list[list[_Output]], batch: _SubmittedBatch
    ) -> None:
        """Replace the best translations that lost a number or a placeholder, where the search finds better ones."""
        lossy = [i for i, outputs in enumerate(n_best_lists) if outputs[0].lost.spans]
        if not lossy:
            return
        faulty = [
            Faulty(sentence.text, sentence.ids, len(sentence.prefix), best.hypothesis, best.lost)
            for sentence, best in ((sentences[i], n_best_lists[i][0]) for i in lossy)
        ]
        for i, hypothesis in zip(lossy, self._search.repair(faulty, batch.options, batch.details), strict=True):
            if hypothesis is not n_best_lists[i][0].hypothesis:
                n_best_lists[i] = [self._decode(sentences[i], hypothesis), *n_best_lists[i][:-1]]

    def _encode(self, lines: Sequence[str], prefixes: Sequence[str], tag: str | None, split: bool) -> list[_SourceLine]:
        """Lines split into parts, and the ids of all parts."""
        parts_of_lines = [self._splitter.split(line, split) for line in lines]
        texts = [normalise(part.text) for parts in parts_of_lines for part in parts]
        encoded = zip(texts, self._source.encode_many(texts, tag=tag), strict=True)
        source_lines = []
        for parts, prefix in zip(parts_of_lines, prefixes, strict=True):
            fitting: list[tuple[Part, _Sentence | None]] = []
            for part, (text, ids) in zip(parts, islice(encoded, len(parts)), strict=True):
                if len(ids) > self._max_length:
                    fitting += self._split_long(Part(text, part.gap), tag)
                else:
                    has_words = bool(text) and (not split or any(map(str.isalnum, text)))
                    fitting.append((part, _Sentence(text, ids, []) if has_words else None))
            if prefix and (first := fitting[0][1]) is not None:
                fitting[0] = (fitting[0][0], replace(first, prefix=self._target.encode(prefix)))
            is_blank = not any(normalise(part.text) for part, _ in fitting)
            source_lines.append(_SourceLine() if is_blank else _SourceLine(*zip(*fitting, strict=True)))
        return source_lines

    def _split_long(self, part: Part, tag: str | None) -> list[tuple[Part, _Sentence | None]]:
        """The parts of a sentence that is too long for the model."""
        parts = split_long(part, self._max_length - 1, lambda text: len(self._source.encode(text)))
        encoded = self._source.encode_many([part.text for part in parts], tag=tag)
        return [(part, _Sentence(part.text, ids, [])) for part, ids in zip(parts, encoded, strict=True)]

    def _decode(self, sentence: _Sentence, hypothesis: Hypothesis) -> _Output:
        text = self._target.decode(hypothesis.ids)
        return _Output(hypothesis, text, self.protection.lost(sentence.text, text))

    def _describe(self, sentence: _Sentence, output: _Output, batch: _SubmittedBatch) -> Translation:
        details, alpha = batch.details, batch.options.length_penalty
        hypothesis, text, lost = output
        tokens = tokens_of(self._target, hypothesis) if details else ()
        alignment = align_words(self._source, self._target, sentence.ids, hypothesis) if details else ()
        signs = self._signs.warnings(sentence.text, sentence.ids, text, hypothesis, alpha)
        return Translation(text, hypothesis.score, tokens, alignment, warnings=(*lost.warnings, *signs))


def _join_parts(parts: Sequence[Part], translations: Sequence[Translation]) -> Translation:
    """The translation of a line from those of its parts."""
    if len(translations) <= 1:
        return translations[0] if translations else Translation("", n_parts=0)
    n_alternatives = max(len(translation.alternatives) for translation in translations)
    ranked = [(translation, *translation.alternatives) for translation in translations]
    alternatives = [
        _concatenate(parts, [candidates[min(rank, len(candidates) - 1)] for candidates in ranked])
        for rank in range(1, n_alternatives + 1)
    ]
    return replace(_concatenate(parts, translations), alternatives=tuple(alternatives))


def _concatenate(parts: Sequence[Part], translations: Sequence[Translation]) -> Translation:
    return Translation(
        text=join(parts, [translation.text for translation in translations]),
        score=sum(translation.score for translation in translations),
        tokens=tuple(token for translation in translations for token in translation.tokens),
        alignment=_line_alignment(parts, translations),
        n_parts=len(translations),
        warnings=tuple(sorted({warning for translation in translations for warning in translation.warnings})),
    )


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


def _line_alignment(parts: Sequence[Part], translations: Sequence[Translation]) -> tuple[tuple[int, int], ...]:
    """The alignments of all parts, with word indices counted from the start of the line."""
    alignment: list[tuple[int, int]] = []
    n_source = n_target = 0
    for part, translation in zip(parts, translations, strict=True):
        alignment += [(n_source + source, n_target + target) for source, target in translation.alignment]
        n_source += len(part.text.split()) - (not part.gap)  # without a gap, the next part continues the last word
        n_target += len(translation.text.split()) - (not join_gap(part, translation.text))
    return tuple(alignment)

"""Translates a stream of lines: output formats, and the summary printed at the end."""

import json
from collections import Counter
from dataclasses import dataclass, field

from regard.cli.translate.stream import LineStream
from regard.decoding.options import DecodingOptions
from regard.translator import Translation, Translator

MIN_LINES_FOR_SUMMARY = 20
MAX_LISTED = 1_000
MAX_SHOWN = 3  # without --warnings
_LABELS = {
    "numbers": "numbers changed",
    "placeholder": "placeholders lost",
    "unsure": "unsure",
    "detached": "improbable as a whole",
    "unknown": "unknown words",
    "language": "another language",
    "capitals": "in capitals",
    "length": "unlikely length",
    "left-out": "words left out",
    "loops": "repetitive",
    "copied": "copied from the source",
}


@dataclass
class Audit:
    """Counts blank, split and doubtful lines, for the summary on stderr."""

    list_warnings: bool = False
    n_lines: int = 0
    n_blank: int = 0
    n_split: int = 0
    n_doubtful: int = 0
    remarks: list[str] = field(default_factory=list)  # on the encoding and line ends of files
    warnings: Counter[str] = field(default_factory=Counter)
    listed: list[str] = field(default_factory=list)
    _name: str = "standard input"
    _line_number: int = 0  # within that file

    def start_file(self, name: str, n_skipped: int) -> None:
        """Start another file; its first `n_skipped` lines are of another part, or of an earlier command."""
        self._name, self._line_number = name, n_skipped

    def record(self, translation: Translation) -> None:
        """Count the translation of the next line."""
        self.n_lines += 1
        self._line_number += 1
        self.n_blank += translation.n_parts == 0
        self.n_split += translation.n_parts > 1
        if not translation.warnings:
            return
        labels = [_LABELS[warning] for warning in translation.warnings]
        self.n_doubtful += 1
        self.warnings.update(labels)
        if len(self.listed) < (MAX_LISTED if self.list_warnings else MAX_SHOWN):
            text = translation.text[:100] if self.list_warnings else ""
            self.listed.append(f"{self._name}:{self._line_number}: {', '.join(labels)}" + (f": {text}" if text else ""))

    def lines(self) -> list[str]:
        """The summary; empty for a few lines without anything to report."""
        lines = list(self.remarks)
        counts = {"blank": self.n_blank, "split into sentences": self.n_split, "doubtful": self.n_doubtful}
        listing = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
        if listing or self.n_lines >= MIN_LINES_FOR_SUMMARY:
            total = "1 line" if self.n_lines == 1 else f"{self.n_lines:,} lines"
            lines.append(total + (f": {listing}" if listing else ""))
        if not self.warnings:
            return lines
        lines.append("doubtful: " + ", ".join(f"{count:,} {label}" for label, count in self.warnings.most_common()))
        n_unlisted = self.n_doubtful - len(self.listed)
        more = f"and {n_unlisted:,} more" + ("" if self.list_warnings else "; --warnings lists them")
        return lines + self.listed + ([more] if n_unlisted else [])


@dataclass(frozen=True)
class OutputFormat:
    """How lines are translated, and how the translations are written."""

    name: str
    options: DecodingOptions
    prefix: str | None
    target: str | None
    split: bool = True

    @property
    def needs_details(self) -> bool:
        return self.name == "jsonl"

    def identity(self, translator: Translator) -> str:
        """A string that changes whenever the output would."""
        model = (translator.described.digest, translator.engine.name, translator.precision)
        return json.dumps(
            [
                self.name,
                repr(self.options),
                self.prefix,
                self.target,
                self.split,
                translator.protection.patterns,
                *model,
            ]
        )

    def format(self, source: str, translation: Translation) -> str:
        """The output for one line, ending with LF."""
        if self.name == "jsonl":
            return _jsonl(source, translation)
        return (_tsv(translation) if self.name == "tsv" else translation.text) + "\n"


def translate_stream(translator: Translator, stream: LineStream, output: OutputFormat, audit: Audit) -> None:
    """Translate one input; the engine translates the next batch while this one is written."""
    audit.start_file(stream.name, stream.n_before)
    results = translator.translate_batches(
        stream.batches(),
        options=output.options,
        prefix=output.prefix,
        target=output.target,
        details=output.needs_details,
        split=output.split,
    )
    with stream.writer() as write:
        for lines, translations in results:
            for translation in translations:
                audit.record(translation)
            write("".join(map(output.format, lines, translations)), len(lines))
    audit.remarks += stream.read_notes.messages(stream.name)


def _tsv(translation: Translation) -> str:
    """Score, tab, text; the alternatives follow in the same row."""
    ranked = (translation, *translation.alternatives)
    cells = (cell for candidate in ranked for cell in (f"{candidate.score:.4f}", candidate.text.replace("\t", " ")))
    return "\t".join(cells)


def _jsonl(source: str, translation: Translation) -> str:
    alternatives = [{"text": best.text, "score": round(best.score, 4)} for best in translation.alternatives]
    record = {
        "source": source,
        "text": translation.text,
        "score": round(translation.score, 4),
        "tokens": [[token.piece, round(token.probability, 4)] for token in translation.tokens],
        "alignment": [list(pair) for pair in translation.alignment],
        "alternatives": alternatives,
        "n_parts": translation.n_parts,
        "warnings": list(translation.warnings),
    }
    return json.dumps(record, ensure_ascii=False) + "\n"

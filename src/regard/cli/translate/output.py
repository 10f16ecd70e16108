"""Lines → what is printed for them, and the audit at the end."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from regard.decoding.options import DecodingOptions
from regard.text import ReadNotes
from regard.translator import Translation, Translator

_MANY = 20
_MOST_LISTED = 1_000


@dataclass
class Audit:
    """What happened to the lines; said at the end, on stderr."""

    list_warnings: bool = False
    n_lines: int = 0
    n_blank: int = 0
    n_split: int = 0
    remarks: list[str] = field(default_factory=list)
    warnings: Counter[str] = field(default_factory=Counter)
    listed: list[str] = field(default_factory=list)
    n_unlisted: int = 0
    _name: str = "standard input"
    _line: int = 0  # within that file

    def start(self, name: str, n_lines: int) -> None:
        """A file begins; so many of its lines were done before."""
        self._name, self._line = name, n_lines

    def see(self, translation: Translation) -> None:
        """The next line of the file."""
        self.n_lines += 1
        self._line += 1
        self.n_blank += translation.n_parts == 0
        self.n_split += translation.n_parts > 1
        for warning in translation.warnings:
            self.warnings[warning] += 1
            if self.list_warnings and len(self.listed) < _MOST_LISTED:
                self.listed.append(f"{self._name}:{self._line}: {warning}: {translation.text[:100]}")
            elif self.list_warnings:
                self.n_unlisted += 1

    def note(self, name: str, notes: ReadNotes) -> None:
        """What reading showed, once a file."""
        self.remarks += notes.messages(name)

    def lines(self) -> list[str]:
        """Everything worth saying; nothing for a plain, faultless job of a few lines."""
        said = list(self.remarks)
        counts = {"blank": self.n_blank, "split": self.n_split, **self.warnings}
        found = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        if found or self.n_lines >= _MANY:
            said.append(f"{self.n_lines:,} lines" + (f": {found}" if found else ""))
        if self.warnings and not self.list_warnings:
            said.append("--warnings lists the doubtful ones")
        others = [f"and {self.n_unlisted:,} others"] if self.n_unlisted else []
        return said + self.listed + others


@dataclass(frozen=True)
class Form:
    """How translations are asked for and written down."""

    name: str
    options: DecodingOptions
    prefix: str | None
    target: str | None

    def identity(self, translator: Translator) -> str:
        """Changes when the output would."""
        computes = (translator.described.digest, translator.engine.name, translator.precision)
        return json.dumps([self.name, repr(self.options), self.prefix, self.target, *computes])

    def begin(self, translator: Translator, lines: list[str], audit: Audit) -> Callable[[], str]:
        """Give some lines to the engine; what is returned gives the output for them, each line ending with LF."""
        prefixes = [self.prefix] * len(lines) if self.prefix is not None else None
        translated = translator.begin(
            lines, options=self.options, prefixes=prefixes, target=self.target, details=self.name == "jsonl"
        )
        write = {"text": _text, "tsv": _tsv, "jsonl": _jsonl}[self.name]

        def written() -> str:
            done = translated()
            for translation in done:
                audit.see(translation)
            return "".join(write(source, translation) for source, translation in zip(lines, done, strict=True))

        return written


def _text(source: str, translation: Translation) -> str:
    return translation.text + "\n"


def _tsv(source: str, translation: Translation) -> str:
    """Score, tab, text; for n-best all of them, one tab more between each."""
    ranked = (translation, *translation.alternatives)
    return "\t".join(f"{one.score:.4f}\t{one.text}" for one in ranked) + "\n"


def _jsonl(source: str, translation: Translation) -> str:
    record = {
        "source": source,
        "text": translation.text,
        "score": round(translation.score, 4),
        "tokens": [[token.piece, round(token.probability, 4)] for token in translation.tokens],
        "alignment": [list(pair) for pair in translation.alignment],
        "alternatives": [{"text": one.text, "score": round(one.score, 4)} for one in translation.alternatives],
        "n_parts": translation.n_parts,
        "warnings": list(translation.warnings),
    }
    return json.dumps(record, ensure_ascii=False) + "\n"

"""What a translation has to keep: numbers, addresses, placeholders. Compares a text with its translation.

Numbers are compared by their digits, without separators; a number may also become a number word or a month.
Everything else has to be the same character by character.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from regard.errors import UserError
from regard.text.number_words import scale_of, word_values

_EXTENSIONS = (
    "txt|md|pdf|docx?|odt|xlsx?|pptx?|csv|tsv|json|jsonl|xml|html?|css|js|ts|py|ipynb|java|c|cc|cpp|h|hpp|rs|go|rb|php|sh|bat|"
    "ps1|sql|toml|ya?ml|ini|cfg|conf|log|png|jpe?g|gif|svg|bmp|webp|ico|mp3|mp4|wav|avi|mov|zip|gz|tar|tgz|7z|rar|exe|dll|so|"
    "bin|iso|apk|deb|rpm|po|pot|tmx|xliff?"
)
_PATTERNS = (
    r"`[^`\n]+`",  # code
    r"""(?:(?:https?|ftp)://|www\.)[^\s<>"'`«»„“”가-힣]*[^\s<>"'`«»„“”가-힣.,;:!?)\]}]""",
    r"(?<![\w.+-])[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",  # e-mail
    r"</?[A-Za-z][\w:-]*(?:\s[^<>\n]*)?/?>",  # tags
    r"\$?\{\{?[\w.:!-]*\}?\}",  # {name}, {0}, {}, {{name}}, ${NAME}
    r"%\(\w+\)[a-z]|%\d*\$?[sd](?![^\W\d_])|%\.\d+f",
    r"\$[A-Za-z_][A-Za-z0-9_]*",
    r"(?<![\w&@#])[@#](?:[A-Za-z_À-ɏ][A-Za-z0-9_À-ɏ-]*|[가-힣]\w*)",  # @user, #tag
    rf"(?<![\w.~/-])(?:[\w.~-]*/)*[\w-]+\.(?:{_EXTENSIONS})(?![\w.]*[A-Za-z0-9])",  # file names
)
_MAY_HAVE_PLACEHOLDER = re.compile(r"[`@#$%{}<]|://|www\.|\w\.[A-Za-z]")
_NUMBER = re.compile(r"(?<!\d)(?<!\d[.,])\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d+(?:[.,:'’\u00a0\u202f]\d+)*")
_DATE = re.compile(r"\d{1,2}\.\d{1,2}\.(?:\d{4}|\d{2})")
_WORD_AFTER = re.compile(r"\s?([^\W\d_]+)")
_SEPARATORS = re.compile(r"\D+")
_ZEROS = re.compile(r"(?<=\d)(?:[.,]00?|:00)\Z")  # 2.00 is 2, and 2:00 is 2 o'clock
_TIME = re.compile(r"(\d|1[01])(?:[:.](\d\d))?")
_AFTER_NOON = re.compile(r"[ \u00a0\u202f]?p\.?[ \u00a0]?m\b", re.IGNORECASE)
_DECIMALS = re.compile(r"[.,](\d{1,2})\Z")
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[^\W\d_]")
KEPT_NUMBERS = "kept_numbers"  # fact about a model
_MIN_KEPT_NUMBERS = 0.5
_MIN_PAIRS = 20
_MAX_SCALED_DIGITS = 15

# The languages that write 2,200.5, 2.200,5 and 2 200,5.
_COMMA_THOUSANDS = frozenset({"en", "ko", "ja", "zh", "th", "he"})
_POINT_THOUSANDS = frozenset({"de", "es", "it", "nl", "pt", "tr", "id", "da", "el", "hr", "sl", "ro", "vi"})
_SPACE_THOUSANDS = frozenset({"fr", "ru", "uk", "pl", "cs", "sk", "bg", "fi", "sv", "nb", "no", "hu"})


class Number(NamedTuple):
    """A number as it is written, and the digits that can stand for it."""

    text: str
    digits: frozenset[str]


class Lost(NamedTuple):
    """What a translation lost, as it is written in the source, and what it added."""

    placeholders: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    added: tuple[str, ...] = ()  # numbers and placeholders that the source does not have

    @property
    def spans(self) -> tuple[str, ...]:
        return self.placeholders + self.numbers

    @property
    def n_problems(self) -> int:
        return len(self.placeholders) + len(self.numbers) + len(self.added)

    @property
    def warnings(self) -> list[str]:
        numbers = self.numbers or any(span[:1].isdigit() for span in self.added)
        placeholders = self.placeholders or any(not span[:1].isdigit() for span in self.added)
        return ["numbers"] * bool(numbers) + ["placeholder"] * bool(placeholders)


NOTHING_LOST = Lost()


class Protection:
    """Finds what has to be kept; `patterns` are further regular expressions for placeholders.

    `kept_numbers` is the fact that a model stores about its training text. A model that learned to change numbers may
    do so. A model of 0.1.0 has no such fact: then lines of numbers alone may change.
    """

    def __init__(self, patterns: Iterable[str] = (), kept_numbers: Any = None) -> None:
        self.patterns = tuple(patterns)
        self._is_known = isinstance(kept_numbers, int | float)
        self._checks_numbers = not self._is_known or kept_numbers >= _MIN_KEPT_NUMBERS
        for pattern in self.patterns:
            try:
                if re.compile(pattern).match("") is not None:
                    raise UserError(f"the pattern {pattern!r} matches an empty text", hint="match what must be kept")
            except re.error as error:
                raise UserError(f"{pattern!r} is no regular expression: {error}", hint="check --protect") from error

    def lost(self, source: str, translation: str) -> Lost:
        """What is missing in a translation. Fast for a text without numbers and placeholders."""
        rest, other = source, translation
        missing: list[str] = []
        added: list[str] = []
        if self.patterns or _MAY_HAVE_PLACEHOLDER.search(source) or _MAY_HAVE_PLACEHOLDER.search(translation):
            spans = self.placeholders(source)
            missing = [span for span, n in Counter(spans).items() if _count(span, translation) < n]
            other = _without(translation, spans)
            added = self.placeholders(other)
            rest, other = _without(source, spans), _without(other, added)
        if not self._has_numbers(rest, other):
            return Lost(tuple(missing), (), tuple(added)) if missing or added else NOTHING_LOST
        lost_numbers, added_numbers = _compare_numbers(rest, other)
        return Lost(tuple(missing), tuple(lost_numbers), (*added, *added_numbers))

    def _has_numbers(self, source: str, translation: str) -> bool:
        """Whether there are numbers to compare."""
        if not self._checks_numbers or not (_DIGIT.search(source) or _DIGIT.search(translation)):
            return False
        return self._is_known or _LETTER.search(source) is not None

    def placeholders(self, text: str) -> list[str]:
        """All placeholders, addresses and so on, in order."""
        return [match[0] for match in self._pattern.finditer(text)]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{pattern})" for pattern in (*self.patterns, *_PATTERNS)))


def number_facts(pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    """In how many pairs of training text with numbers the translation has the same; no fact if there are few."""
    protection = Protection(kept_numbers=1.0)
    kept = [not protection.lost(*pair).numbers for pair in pairs if _DIGIT.search(pair[0])]
    return {KEPT_NUMBERS: round(sum(kept) / len(kept), 3)} if len(kept) >= _MIN_PAIRS else {}


def numbers(text: str) -> list[Number]:
    """All numbers in a text."""
    found = []
    for match in _NUMBER.finditer(text):
        if _DATE.fullmatch(match[0]):
            found += [Number(part, frozenset({_canonical(part)})) for part in match[0].split(".")]
            continue
        digits = _canonical(match[0])
        word = _WORD_AFTER.match(text, match.end())
        scale = 1 if word is None else scale_of(word[1])
        scaled = {_scaled(match[0], scale)} if scale > 1 and len(digits) < _MAX_SCALED_DIGITS else set()
        whole = {_canonical(match[0][: zeros.start()])} if (zeros := _ZEROS.search(match[0])) else set()
        found.append(Number(match[0], frozenset({digits, *scaled, *whole, *_in_24_hours(match[0], text, match.end())})))
    return found


def _in_24_hours(number: str, text: str, end: int) -> set[str]:
    """The digits of 8:30 p.m. as 20:30."""
    time = _TIME.fullmatch(number)
    if time is None or _AFTER_NOON.match(text, end) is None:
        return set()
    hour, minutes = str(int(time[1]) + 12), time[2] or ""
    return {hour + minutes} | ({hour} if minutes == "00" else set())


def _compare_numbers(source: str, translation: str) -> tuple[list[str], list[str]]:
    """The numbers that a translation lost, and those that it added."""
    remaining = numbers(translation)
    lost = []
    for number in numbers(source):
        same = next((other for other in remaining if other.digits & number.digits), None)
        if same is None:
            lost.append(number)
        else:
            remaining.remove(same)
    return _unexplained(lost, translation), _unexplained(remaining, source)


def _unexplained(numbers: Sequence[Number], text: str) -> list[str]:
    """The numbers that are not written as words in a text."""
    values = {str(value) for value in word_values(text)} if numbers else set()
    return [number.text for number in numbers if not number.digits & values]


def _canonical(number: str) -> str:
    """The digits without separators and leading zeros, as ASCII."""
    digits = "".join(str(int(character)) for character in number if character.isdigit() and character.isdecimal())
    return digits.lstrip("0") or "0"


def _scaled(number: str, scale: int) -> str:
    """The digits of "1.5 million" as 1500000."""
    decimals = _DECIMALS.search(number)
    whole = _SEPARATORS.sub("", number[: decimals.start()] if decimals else number)
    return str(int(Decimal(f"{whole}.{decimals[1] if decimals else 0}") * scale))


def _count(span: str, text: str) -> int:
    """How often a text has a span, but not as a part of a longer word: `%d` is not in `%digit`."""
    before = "(?<![A-Za-z0-9])" if span[:1].isalnum() else ""
    after = "(?![A-Za-z0-9])" if span[-1:].isalnum() else ""
    return len(re.findall(before + re.escape(span) + after, text))


def _without(text: str, spans: Iterable[str]) -> str:
    for span in spans:
        text = text.replace(span, " ", 1)
    return text


def localised(number: str, source: str | None, target: str | None) -> str:
    """A number with the separators of another language: 2,200.5 in English is 2.200,5 in German."""
    mine, other = (_separators(language) for language in (source, target))
    if mine is None or other is None or mine == other or not re.fullmatch(r"[\d.,]+", number):
        return number
    thousands, decimal = mine
    grouped = rf"\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+" if thousands.strip() else r"\d+"
    if re.fullmatch(rf"(?:{grouped}|\d+)(?:{re.escape(decimal)}\d+)?", number) is None:
        return number
    return number.translate(str.maketrans(thousands + decimal, "".join(other)))


def _separators(language: str | None) -> tuple[str, str] | None:
    """Between thousands, and before decimals."""
    primary = (language or "").split("-")[0]
    if primary in _COMMA_THOUSANDS:
        return ",", "."
    if primary in _POINT_THOUSANDS:
        return ".", ","
    return ("\u202f", ",") if primary in _SPACE_THOUSANDS else None

"""The values of number words and month names in English, German, French and Korean.

They explain why a number is written in one language only: "3 dogs", "drei Hunde"; "3.5.", "3 May". So a value too many
does less harm than one too few: the first part of a longer word counts ("zweijährig").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_WORD = re.compile(r"[^\W\d_]+")
_LINKS = frozenset({"and", "und", "et"})


def _numbered(words: str, first: int = 0, step: int = 1) -> dict[str, int]:
    return {
        word: first + step * index for index, group in enumerate(words.casefold().split()) for word in group.split("/")
    }


# Words of a language are values that add up ("twenty-one"), or that multiply what is before them ("two hundred").
_EN = (
    _numbered("zero/no one/a/an/once/first two/twice/both/pair/couple/second three/third four five/fif six seven "
              "eight/eigh nine/nin ten eleven twelve/twelf/dozen thirteen fourteen fifteen sixteen seventeen "
              "eighteen nineteen")
    | _numbered("twenty/twentie thirty/thirtie forty/fortie fifty/fiftie sixty/sixtie seventy/seventie eighty/eightie "
                "ninety/ninetie", 20, 10)
)  # fmt: skip
_DE = (
    _numbered("null/kein ein/erst/einmal zwei/beide/paar/zwo drei/dritt vier fünf sechs sieb/sieben acht neun zehn elf "
              "zwölf/dutzend dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn")
    | _numbered("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig", 20, 10)
)  # fmt: skip
_FR = (
    _numbered("zéro un/une/premier/première deux/second/seconde trois quatre/quatr cinq/cinqu six sept huit neuf/neuv "
              "dix onze/onz douze/douz/douzaine treize/treiz quatorze/quatorz quinze/quinz seize/seiz")
    | _numbered("vingt/vingts trente/trent quarante/quarant cinquante/cinquant soixante/soixant", 20, 10)
)  # fmt: skip
_KO = (
    _numbered("하나/한/첫 둘/두 셋/세 넷/네 다섯 여섯 일곱 여덟 아홉", 1)
    | _numbered("열 스물/스무 서른 마흔 쉰 예순 일흔 여든 아흔", 10, 10)
)  # fmt: skip
_SINO_KOREAN = _numbered("영/공 일 이 삼 사 오 육/륙 칠 팔 구")
_SCALES = {
    100: "hundred hundert cent cents 백", 1_000: "thousand tausend mille 천", 10_000: "만",
    1_000_000: "million millions millionen mio 백만", 10**9: "billion billions milliarde milliarden milliard mrd",
    10**8: "억", 10: "십",
}  # fmt: skip
_MONTHS = (
    "january/jan/januar/jänner/janvier february/feb/februar/février march/mar/märz/mars april/apr/avril may/mai "
    "june/jun/juni/juin july/jul/juli/juillet august/aug/août september/sep/sept/septembre "
    "october/oct/oktober/okt/octobre november/nov/novembre december/dec/dezember/dez/décembre"
)

_SCALE_OF = {word: scale for scale, words in _SCALES.items() for word in words.split()}
_VALUE_OF = _EN | _FR | _DE | _KO
_MONTH_OF = _numbered(_MONTHS, 1)
_ORDINAL = re.compile(r"(?:th|i[eè]mes?)\Z")
_COMPOUND = re.compile("|".join(sorted((*_DE, "hundert", "tausend", "und"), key=len, reverse=True)))
_NATIVE_KOREAN = re.compile(f"({'|'.join(word for word, value in _KO.items() if value >= 10)})?"
                            f"({'|'.join(word for word, value in _KO.items() if value < 10)})?")  # fmt: skip
_SINO = re.compile(f"[{''.join((*_SINO_KOREAN, *'십백천만억'))}]{{2,}}")
_HANGUL = re.compile("[가-힣]")

_Atom = tuple[int, bool]  # a value, and whether it multiplies


def word_values(text: str) -> set[int]:
    """The values of all number words and months in a text, alone and as whole numbers ("two hundred and five")."""
    values: set[int] = set()
    phrase: list[_Atom] = []
    end = 0
    for match in _WORD.finditer(text := text.casefold()):
        atoms = list(_atoms(match[0]))
        is_next = not text[end : match.start()].strip(" -") and (match[0] in _LINKS or _continues(phrase, atoms))
        if not is_next and phrase:
            values.add(_evaluate(phrase))
            phrase = []
        phrase += atoms
        values |= {value for value, _ in atoms} | ({_evaluate(atoms)} if atoms else set())
        if match[0] in _MONTH_OF:
            values.add(_MONTH_OF[match[0]])
        end = match.end()
    return values | ({_evaluate(phrase)} if phrase else set())


def scale_of(word: str) -> int:
    """By how much a word after a number multiplies it, as in "1.5 million" or "2만"; 1 for other words."""
    return _SCALE_OF.get(word.casefold(), 1)


def _continues(phrase: Sequence[_Atom], atoms: Sequence[_Atom]) -> bool:
    """Whether these make one number: "twenty" "five", "two" "hundred"; not "two" "one"."""
    if not phrase or not atoms:
        return False
    last, is_scale = phrase[-1]
    return is_scale or atoms[0][1] or (last >= 20 and last % 10 == 0) or (last, atoms[0][0]) == (4, 20)


def _atoms(word: str) -> Iterator[_Atom]:
    if _HANGUL.match(word):
        yield from _korean_atoms(word)
    elif word in _VALUE_OF or word in _SCALE_OF:
        yield _atom(word, _VALUE_OF)
    elif (stem := _ORDINAL.sub("", word)) != word and (stem in _VALUE_OF or stem in _SCALE_OF):
        yield _atom(stem, _VALUE_OF)
    else:
        position = 0
        while (match := _COMPOUND.match(word, position)) is not None:
            position = match.end()
            if match[0] != "und":
                yield _atom(match[0], _DE)


def _atom(word: str, values: Mapping[str, int]) -> _Atom:
    return (values[word], False) if word in values else (_SCALE_OF[word], True)


def _korean_atoms(word: str) -> Iterator[_Atom]:
    if sino := _SINO.match(word):
        yield from (_atom(character, _SINO_KOREAN) for character in sino[0])
    elif native := _NATIVE_KOREAN.match(word):
        yield from ((_KO[part], False) for part in native.groups() if part is not None)


def _evaluate(atoms: Sequence[_Atom]) -> int:
    total = group = last = 0
    for value, is_scale in atoms:
        if is_scale and value < 1_000:
            group, last = group + max(1, last) * value, 0
        elif is_scale:
            total, group, last = total + max(1, group + last) * value, 0, 0
        elif (last, value) == (4, 20):
            last = 80  # quatre-vingt
        else:
            group, last = group + last, value
    return total + group + last

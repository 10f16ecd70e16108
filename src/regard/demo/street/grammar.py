"""Generates English and German sentences from their content: agreement, case, negation and word order.

Each word of a clause has a role ("subject", "object", "pronoun" or ""), to find its position in the sentence.
"""

from dataclasses import dataclass
from typing import Literal

from regard.demo.street.words import DEGREES, JOINTS, PREPOSITIONS, TIMES, Adjective, Noun, Saying, Verb

Case = Literal["nominative", "accusative", "dative"]
Word = tuple[str, str]  # the word and its role

_DEFINITE = {
    "nominative": {"m": "der", "f": "die", "n": "das", "plural": "die"},
    "accusative": {"m": "den", "f": "die", "n": "das", "plural": "die"},
    "dative": {"m": "dem", "f": "der", "n": "dem"},
}
_INDEFINITE = {  # plural: only for "keine"
    "nominative": {"m": "ein", "f": "eine", "n": "ein", "plural": "eine"},
    "accusative": {"m": "einen", "f": "eine", "n": "ein", "plural": "eine"},
    "dative": {"m": "einem", "f": "einer", "n": "einem"},
}
_AFTER_DEFINITE = {
    "nominative": {"m": "e", "f": "e", "n": "e", "plural": "en"},
    "accusative": {"m": "en", "f": "e", "n": "e", "plural": "en"},
    "dative": {"m": "en", "f": "en", "n": "en"},
}
_AFTER_INDEFINITE = {
    "nominative": {"m": "er", "f": "e", "n": "es", "plural": "en"},
    "accusative": {"m": "en", "f": "e", "n": "es", "plural": "en"},
    "dative": {"m": "en", "f": "en", "n": "en"},
}
_WITHOUT_ARTICLE = "e"  # plural, nominative and accusative
_TO_BE = {  # present, plural
    (True, False): ("is", "ist"),
    (True, True): ("are", "sind"),
    (False, False): ("was", "war"),
    (False, True): ("were", "waren"),
}
_PRONOUNS = {"m": "er", "f": "sie", "n": "es", "plural": "sie"}


@dataclass(frozen=True)
class Phrase:
    """A noun with an article and an optional adjective; an indefinite plural has no article."""

    noun: Noun
    plural: bool = False
    definite: bool = True
    adjective: Adjective | None = None

    @property
    def english_pronoun(self) -> str:
        """Its pronoun as a subject."""
        return "they" if self.plural else self.noun.pronoun

    @property
    def german_pronoun(self) -> str:
        """Its pronoun as a subject, by the gender of the noun, not of the person."""
        return _PRONOUNS[self._column]

    @property
    def _column(self) -> str:
        return "plural" if self.plural else self.noun.gender

    def english(self, role: str = "") -> list[Word]:
        """Its English words; the noun, which is the last word, has the role."""
        words = [self.adjective.english] if self.adjective else []
        words.append(self.noun.english_plural if self.plural else self.noun.english)
        if self.definite:
            words.insert(0, "the")
        elif not self.plural:
            words.insert(0, "an" if words[0][0] in "aeiou" else "a")
        return _tagged(words, role)

    def german(self, case: Case, role: str = "", *, negated: bool = False) -> list[Word]:
        """Its German words in a case; if negated, which needs an indefinite phrase, with "kein"."""
        assert not (negated and self.definite), "a definite noun is negated by 'nicht'"
        column, words = self._column, []
        if self.definite:
            words, ending = [_DEFINITE[case][column]], _AFTER_DEFINITE[case][column]
        elif self.plural and not negated:
            ending = _WITHOUT_ARTICLE
        else:
            words, ending = [("k" if negated else "") + _INDEFINITE[case][column]], _AFTER_INDEFINITE[case][column]
        if self.adjective:
            words.append(self.adjective.german + ending)
        words.append(self._german_noun(case))
        return _tagged(words, role)

    def _german_noun(self, case: Case) -> str:
        if self.plural:
            return self.noun.german_plural
        return self.noun.german if case == "nominative" else self.noun.oblique or self.noun.german


def is_informative(subject: Phrase, other: Phrase) -> bool:
    """Whether both have the same pronoun in English, but different ones in German."""
    return subject.english_pronoun == other.english_pronoun and subject.german_pronoun != other.german_pronoun


@dataclass(frozen=True)
class GermanClause:
    """The parts of a clause; their order depends on the kind of clause."""

    time: str
    subject: list[Word]
    finite: str
    middle: list[Word]
    infinitive: str = ""

    def verb_second(self) -> list[Word]:
        """The order of a main clause; after an initial time the subject follows the verb."""
        head = [(self.time, ""), (self.finite, ""), *self.subject] if self.time else [*self.subject, (self.finite, "")]
        return [*head, *self.middle, *_plain(self.infinitive)]

    def verb_last(self) -> list[Word]:
        """The order after "weil", "obwohl" and "dass"."""
        assert not self.time, "only a main clause can begin with a time"
        return [*self.subject, *self.middle, *_plain(self.infinitive), (self.finite, "")]


@dataclass(frozen=True)
class ActionClause:
    """Subject, verb and object, possibly negated; `place` is a preposition and a noun."""

    subject: Phrase
    verb: Verb
    object: Phrase
    negated: bool = False
    future: bool = False
    time: str = ""
    place: tuple[str, Phrase] | None = None

    def english(self) -> list[Word]:
        """Subject, verb, object; "did not" and "will" take the base form."""
        if self.future:
            verb = f"will not {self.verb.base}" if self.negated else f"will {self.verb.base}"
        else:
            verb = f"did not {self.verb.base}" if self.negated else self.verb.past
        where = [*_plain(self.place[0]), *self.place[1].english()] if self.place else []
        return [
            *_plain(self.time),
            *self.subject.english("subject"),
            *_plain(verb),
            *self.object.english("object"),
            *where,
        ]

    def german(self) -> GermanClause:
        """ "nicht" follows a definite object; an indefinite one takes "kein" instead."""
        with_kein = self.negated and not self.object.definite
        middle = self.object.german("accusative", "object", negated=with_kein)
        if self.place:
            middle += [*_plain(PREPOSITIONS[self.place[0]]), *self.place[1].german("dative")]
        if self.negated and not with_kein:
            middle += _plain("nicht")
        plural = self.subject.plural
        if self.future:
            finite, infinitive = "werden" if plural else "wird", self.verb.infinitive
        else:
            finite, infinitive = self.verb.preterite_plural if plural else self.verb.preterite, ""
        return GermanClause(
            TIMES.get(self.time, ""), self.subject.german("nominative", "subject"), finite, middle, infinitive
        )


@dataclass(frozen=True)
class StateClause:
    """Subject and adjective; with `as_pronoun` the subject is "it", "he", "she" or "they"."""

    subject: Phrase
    adjective: Adjective
    degree: str = ""
    present: bool = False
    time: str = ""
    as_pronoun: bool = False

    def english(self) -> list[Word]:
        """The adjective is the last word."""
        verb, _ = _TO_BE[self.present, self.subject.plural]
        subject = [(self.subject.english_pronoun, "pronoun")] if self.as_pronoun else self.subject.english("subject")
        return [*_plain(self.time), *subject, *_plain(verb), *_plain(self.degree), *_plain(self.adjective.english)]

    def german(self) -> GermanClause:
        """The adjective precedes the verb or follows it; a pronoun has the gender of its noun."""
        _, finite = _TO_BE[self.present, self.subject.plural]
        if self.as_pronoun:
            subject = [(self.subject.german_pronoun, "pronoun")]
        else:
            subject = self.subject.german("nominative", "subject")
        middle = [*_plain(DEGREES[self.degree]), *_plain(self.adjective.german)]
        return GermanClause(TIMES.get(self.time, ""), subject, finite, middle)


@dataclass(frozen=True)
class StreetSentence:
    """A clause, optionally reported ("… says that") and with a reason after because, although or for."""

    main: ActionClause | StateClause
    speaker: Phrase | None = None
    saying: Saying | None = None
    joint: str = ""
    reason: StateClause | None = None

    def english(self) -> list[Word]:
        """All words in order, with commas as words."""
        words = self.main.english()
        if self.speaker and self.saying:
            says = self.saying.plural if self.speaker.plural else self.saying.singular
            words = [*self.speaker.english(), *_plain(says), *_plain("that"), *words]
        if self.reason:
            comma = _plain(",") if self.joint == "for" else []
            words += [*comma, *_plain(self.joint), *_without_subject(self.reason.english())]
        return words

    def german(self) -> list[Word]:
        """All words in order; every clause after the first follows a comma."""
        clause = self.main.german()
        if self.speaker and self.saying:
            says = self.saying.german_plural if self.speaker.plural else self.saying.german
            words = [*self.speaker.german("nominative"), *_plain(f"{says} , dass"), *clause.verb_last()]
        else:
            words = clause.verb_second()
        if self.reason:
            reason = self.reason.german()
            ordered = reason.verb_second() if self.joint == "for" else reason.verb_last()
            words += [*_plain(","), *_plain(JOINTS[self.joint]), *_without_subject(ordered)]
        return words


def _tagged(words: list[str], role: str) -> list[Word]:
    """The words; the last one has the role."""
    return [*((word, "") for word in words[:-1]), (words[-1], role)]


def _plain(text: str) -> list[Word]:
    """The words of a text, without a role."""
    return [(word, "") for word in text.split()]


def _without_subject(words: list[Word]) -> list[Word]:
    """The words of a reason without its subject role, which belongs to the main clause."""
    return [(word, role if role == "pronoun" else "") for word, role in words]


def to_text(words: list[Word]) -> tuple[str, dict[str, int]]:
    """The text of the sentence, and the index of each role among its words between spaces."""
    texts: list[str] = []
    indices: dict[str, int] = {}
    for word, role in words:
        if word == ",":
            texts[-1] += ","
            continue
        if role:
            indices[role] = len(texts)
        texts.append(word)
    texts[0] = texts[0][0].upper() + texts[0][1:]
    return " ".join(texts) + ".", indices

"""The street corpus: any number of English–German sentence pairs, from a grammar of our own, each with a right answer.

In "The animal did not cross the street because it was too tired", *it* is the animal; with "too wide" it is the street.
German must decide: "es" for das Tier, "sie" for die Straße. About half of the sentences have such a pronoun, the others
teach the rest of the grammar. An English sentence has one translation only, so a model is either right or wrong.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, islice
from pathlib import Path
from random import Random

from regard.demo.street.grammar import Action, Phrase, Sentence, State, written
from regard.demo.street.meanings import draw
from regard.demo.street.words import ADJECTIVE, NOUN, NOUNS, VERB
from regard.durable import make_directory, write_file

HELD_OUT_SHARE = 0.1  # of all pairs of nouns


@dataclass(frozen=True)
class Pronoun:
    """The pronoun of a sentence, and where it and the two nouns that it could mean stand.

    Indices count the words between spaces; a word may carry a comma or the full stop. It is `informative` when only the
    last word of the English sentence tells the noun, and German has another word for the other noun.
    """

    english: str
    german: str
    source_index: int
    antecedent_index: int
    other_index: int
    target_index: int
    informative: bool


@dataclass(frozen=True)
class StreetPair:
    """A sentence and its translation, with the English nouns in it: subject, object, then others."""

    source: str
    target: str
    nouns: tuple[str, ...]
    pronoun: Pronoun | None = None


@dataclass(frozen=True)
class StreetCorpus:
    """Four parts that share no sentence; the noun pairs of `unseen` meet in none of the others."""

    train: tuple[StreetPair, ...]
    validation: tuple[StreetPair, ...]
    test: tuple[StreetPair, ...]
    unseen: tuple[StreetPair, ...]


def generate(n: int, seed: int) -> list[StreetPair]:
    """`n` pairs, of which no two share a source or a target; a longer list begins with the shorter one."""
    return list(islice(_distinct(Random(seed)), n))


def split(
    seed: int, *, n_train: int = 40_000, n_valid: int = 500, n_test: int = 1_000, n_unseen: int = 1_000
) -> StreetCorpus:
    """A corpus in parts of the given sizes; `unseen` begins with the animal and the street, tired and wide."""
    rng = Random(seed)
    held_out = _held_out_pairs(rng)
    unseen = list(canonical()[:n_unseen])
    known: list[StreetPair] = []
    n_known = n_train + n_valid + n_test
    pairs = _distinct(rng, {text for pair in canonical() for text in (pair.source, pair.target)})
    while len(known) < n_known or len(unseen) < n_unseen:
        pair = next(pairs)
        if frozenset(pair.nouns[:2]) in held_out:
            if len(unseen) < n_unseen:
                unseen.append(pair)
        elif len(known) < n_known and not any(frozenset(two) in held_out for two in combinations(pair.nouns, 2)):
            known.append(pair)
    train, rest = known[:n_train], known[n_train:]
    return StreetCorpus(tuple(train), tuple(rest[:n_valid]), tuple(rest[n_valid:]), tuple(unseen))


def write(directory: Path, corpus: StreetCorpus) -> dict[str, tuple[Path, Path]]:
    """Write `train.en`, `train.de` and so on, one sentence a line, and say where each part is."""
    make_directory(directory)
    parts = {"train": corpus.train, "validation": corpus.validation, "test": corpus.test, "unseen": corpus.unseen}
    for name, pairs in parts.items():
        _write_lines(directory / f"{name}.en", [pair.source for pair in pairs])
        _write_lines(directory / f"{name}.de", [pair.target for pair in pairs])
    return {name: (directory / f"{name}.en", directory / f"{name}.de") for name in parts}


@cache
def canonical() -> tuple[StreetPair, StreetPair]:
    """The animal that did not cross the street: it was too tired, the street was too wide."""
    animal, street = Phrase(NOUN["animal"]), Phrase(NOUN["street"])
    crossing = Action(animal, VERB["überqueren"], street, negated=True)
    tired = State(animal, ADJECTIVE["tired"], "too", as_pronoun=True)
    wide = State(street, ADJECTIVE["wide"], "too", as_pronoun=True)
    one, other = (realise(Sentence(crossing, joint="because", reason=reason)) for reason in (tired, wide))
    return one, other


def realise(sentence: Sentence) -> StreetPair:
    """A meaning in both languages."""
    source, source_places = written(sentence.english())
    target, target_places = written(sentence.german())
    main, reason = sentence.main, sentence.reason
    phrases = [main.subject, main.object] if isinstance(main, Action) else [main.subject]
    extra = [main.place[1]] if isinstance(main, Action) and main.place else []
    if reason and not reason.as_pronoun:
        extra.append(reason.subject)
    if sentence.speaker:
        extra.append(sentence.speaker)
    pronoun = None
    if reason and reason.as_pronoun and isinstance(main, Action):
        one, other = ("subject", "object") if reason.subject == main.subject else ("object", "subject")
        pronoun = Pronoun(
            english=reason.subject.english_pronoun,
            german=reason.subject.german_pronoun,
            source_index=source_places["pronoun"],
            antecedent_index=source_places[one],
            other_index=source_places[other],
            target_index=target_places["pronoun"],
            informative=_is_informative(main.subject, main.object),
        )
    return StreetPair(source, target, tuple(phrase.noun.english for phrase in [*phrases, *extra]), pronoun)


def _is_informative(subject: Phrase, other: Phrase) -> bool:
    """Whether English uses one word for both, and German two."""
    return subject.english_pronoun == other.english_pronoun and subject.german_pronoun != other.german_pronoun


def _distinct(rng: Random, seen: set[str] | None = None) -> Iterator[StreetPair]:
    """Pairs without end, none of whose sentences came before, in either language."""
    seen = set() if seen is None else seen
    while True:
        pair = realise(draw(rng))
        if pair.source not in seen and pair.target not in seen:
            seen.update((pair.source, pair.target))
            yield pair


def _held_out_pairs(rng: Random) -> set[frozenset[str]]:
    """Pairs of nouns that training never shows together, the animal and the street among them."""
    pairs = [frozenset((one.english, two.english)) for one, two in combinations(NOUNS, 2)]
    return {*rng.sample(pairs, round(HELD_OUT_SHARE * len(pairs))), frozenset(("animal", "street"))}


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    write_file(path, "".join(f"{line}\n" for line in lines).encode())

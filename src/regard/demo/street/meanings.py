"""Random content for the sentences of the street corpus, most of it sensible.

A reason agrees with the action: a wide street is not crossed ("hinders"), an idyllic island is explored ("invites");
"although" and verbs such as "avoid" reverse this.
"""

from functools import cache
from random import Random

from regard.demo.street.grammar import ActionClause, Phrase, StateClause, StreetSentence, is_informative
from regard.demo.street.words import (
    ADJECTIVES,
    MOTIONS,
    NOUNS,
    PLACES_NEARBY,
    PREPOSITIONS,
    SAYINGS,
    VERBS,
    Adjective,
    Noun,
    Verb,
    nouns_of,
    suits,
)

PRONOUN_SHARE = 0.5  # of the sentences
UNINFORMATIVE_SHARE = 0.07  # the share that is kept of pronouns that do not depend on the last word


def draw_sentence(rng: Random) -> StreetSentence:
    """A random sentence: with a pronoun, or one of the other constructions."""
    others = (_simple, _reported, _with_reason, _somewhere, _described)
    while True:
        kind = _with_pronoun if rng.random() < PRONOUN_SHARE else rng.choices(others, weights=(44, 20, 16, 12, 8))[0]
        sentence = kind(rng)
        subject = sentence.main.subject
        if subject.definite or not subject.plural or sentence.main.time or sentence.speaker:
            return sentence  # else it begins with a capitalised noun: hundreds of additional rare words


def _with_pronoun(rng: Random) -> StreetSentence:
    """ "… did not cross the street because it was too wide": usually only the last word shows the noun."""
    while True:
        verb = rng.choice(VERBS)
        subject, object_ = _nouns_for(rng, verb)
        negated, joint, degree = _argument(rng)
        agent = _phrase(rng, subject, plural=0.1, adjective=0.15)
        patient = _phrase(rng, object_, plural=0.1, adjective=0.15, definite=1.0 if negated else 0.75)
        same_pronoun = agent.english_pronoun == patient.english_pronoun
        if same_pronoun and subject.is_living == object_.is_living:
            continue  # the adjective would fit both
        informative = is_informative(agent, patient)
        if not informative and rng.random() > UNINFORMATIVE_SHARE:
            continue
        mood = "hinders" if ((joint != "although") == negated) != verb.repels else "invites"
        if not _predicates(subject, mood) or not _predicates(object_, mood):
            continue  # else nouns with more adjectives would be antecedents more often
        antecedent = rng.choice((agent, patient))
        adjectives = [item for item in _predicates(antecedent.noun, mood) if item is not antecedent.adjective]
        adjective = rng.choice(adjectives)
        time = _time(rng, 0.3)
        future = time == "tomorrow"
        main = ActionClause(agent, verb, patient, negated, future, time)
        reason = StateClause(antecedent, adjective, degree, present=future, as_pronoun=True)
        if informative and not time and joint != "for" and rng.random() < 0.12:
            speaker = _speaker(rng, {subject, object_}, it=False)
            return StreetSentence(main, speaker, rng.choice(SAYINGS), joint, reason)
        return StreetSentence(main, joint=joint, reason=reason)


def _argument(rng: Random) -> tuple[bool, str, str]:
    """Whether the action is negated, the conjunction of its reason, and the word before the adjective."""
    joint = rng.choices(("because", "although", "for"), weights=(55, 25, 20))[0]
    negated = rng.random() < (0.3 if joint == "although" else 0.7)
    degree = "too" if negated and joint != "although" else rng.choice(("very", "so"))
    return negated, joint, degree if joint != "although" else "very"


def _simple(rng: Random) -> StreetSentence:
    """ "Yesterday a small dog saw the cats"."""
    return StreetSentence(_action(rng, time=0.4, adjective=0.4))


def _reported(rng: Random) -> StreetSentence:
    """ "The king says that …": an action, past or future, or a state."""
    if rng.random() < 0.3:
        main: ActionClause | StateClause = _state(rng, present=rng.random() < 0.6)
        nouns = {main.subject.noun}
    else:
        main = _action(rng, time=0.0, adjective=0.15, future=0.4)
        nouns = {main.subject.noun, main.object.noun}
    return StreetSentence(main, _speaker(rng, nouns), rng.choice(SAYINGS))


def _with_reason(rng: Random) -> StreetSentence:
    """ "The woman did not paint the bridge because the dog was too tired": a reason about a third noun."""
    negated, joint, degree = _argument(rng)
    main = _action(rng, time=0.2, adjective=0.1, negated=negated)
    third = _other_than(rng, NOUNS, {main.subject.noun, main.object.noun})
    subject = Phrase(third, plural=rng.random() < 0.2)
    adjective = rng.choice(_predicates(third, "hinders"))
    return StreetSentence(main, joint=joint, reason=StateClause(subject, adjective, degree, present=main.future))


def _somewhere(rng: Random) -> StreetSentence:
    """ "The dog saw a cat behind the house"."""
    while True:
        verb = rng.choice(VERBS)
        subject, object_ = _nouns_for(rng, verb)
        if "place" in (subject.kind, object_.kind) or verb.base in MOTIONS:
            continue
        place = rng.choice(nouns_of(PLACES_NEARBY))
        where = (rng.choice(tuple(PREPOSITIONS)), _phrase(rng, place, plural=0.0, adjective=0.25))
        agent = _phrase(rng, subject, plural=0.2, adjective=0.1)
        patient = _phrase(rng, object_, plural=0.2, adjective=0.1, definite=0.5)
        negated = not patient.definite and rng.random() < 0.4  # else "nicht" could have several positions
        time = rng.choice(("", "", "yesterday", "today"))
        return StreetSentence(ActionClause(agent, verb, patient, negated, time=time, place=where))


def _described(rng: Random) -> StreetSentence:
    """ "Yesterday the old bridge was very slippery"."""
    return StreetSentence(_state(rng, present=False, time=rng.choice(("", "", "yesterday", "today"))))


def _state(rng: Random, *, present: bool, time: str = "") -> StateClause:
    """A noun and an adjective that suits it, other than one before the noun."""
    subject = _phrase(rng, rng.choice(NOUNS), plural=0.25, adjective=0.3)
    adjectives = [adjective for adjective in _predicates(subject.noun) if adjective is not subject.adjective]
    return StateClause(subject, rng.choice(adjectives), rng.choice(("", "not", "very", "too", "so")), present, time)


def _action(
    rng: Random, *, time: float, adjective: float, future: float = 0.0, negated: bool | None = None
) -> ActionClause:
    """A verb with a suitable subject and object; the numbers are probabilities."""
    verb = rng.choice(VERBS)
    subject, object_ = _nouns_for(rng, verb)
    when = _time(rng, time)
    return ActionClause(
        _phrase(rng, subject, plural=0.25, adjective=adjective),
        verb,
        _phrase(rng, object_, plural=0.25, adjective=adjective, definite=0.6),
        rng.random() < 0.4 if negated is None else negated,
        when == "tomorrow" or rng.random() < future,
        when,
    )


def _phrase(rng: Random, noun: Noun, *, plural: float, adjective: float, definite: float = 0.8) -> Phrase:
    """The noun with random number, article and adjective; the numbers are probabilities."""
    chosen = rng.choice(_descriptions(noun)) if rng.random() < adjective else None
    return Phrase(noun, rng.random() < plural, rng.random() < definite, chosen)


def _nouns_for(rng: Random, verb: Verb) -> tuple[Noun, Noun]:
    """A suitable subject and object; two different nouns."""
    subject = rng.choice(nouns_of(verb.subjects))
    return subject, _other_than(rng, nouns_of(verb.objects), {subject})


def _speaker(rng: Random, taken: set[Noun], *, it: bool = True) -> Phrase:
    """A person who is not in `taken`; without `it`, one that the pronoun "it" cannot refer to."""
    people = tuple(noun for noun in nouns_of("people") if it or noun.pronoun != "it")
    return Phrase(_other_than(rng, people, taken), plural=it and rng.random() < 0.2)


def _other_than(rng: Random, nouns: tuple[Noun, ...], taken: set[Noun]) -> Noun:
    """A random noun that is not in `taken`."""
    while (noun := rng.choice(nouns)) in taken:
        pass
    return noun


def _time(rng: Random, probability: float) -> str:
    """A time, or an empty string."""
    return rng.choice(("yesterday", "today", "tomorrow")) if rng.random() < probability else ""


@cache
def _predicates(noun: Noun, mood: str = "") -> tuple[Adjective, ...]:
    """Adjectives that suit the noun; with a mood, those that give a reason to act or not to act."""
    return tuple(item for item in ADJECTIVES if mood in item.mood and suits(item.fits, noun))


@cache
def _descriptions(noun: Noun) -> tuple[Adjective, ...]:
    """Adjectives that can precede the noun."""
    return tuple(item for item in ADJECTIVES if item.attributive and suits(item.fits, noun))

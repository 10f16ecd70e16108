"""The street corpus: correct forms and sentences, checked by hand, and disjoint parts."""

# ruff: noqa: E501  the tables have a sentence and its translation on one line

import string
from collections import Counter
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from regard.demo.street.corpus import StreetCorpus, StreetPair, canonical, generate, make_corpus, realise, write_corpus
from regard.demo.street.grammar import ActionClause, Phrase, StateClause, StreetSentence
from regard.demo.street.meanings import draw_sentence
from regard.demo.street.words import ADJECTIVE, ADJECTIVES, NOUN, NOUNS, SAYINGS, VERB, VERBS, suits

# Nominative, accusative and plural, as in a dictionary.
NOUN_FORMS = """
der Mann, den Mann, die Männer · der Junge, den Jungen, die Jungen · der König, den König, die Könige
der Prinz, den Prinzen, die Prinzen · der Bauer, den Bauern, die Bauern · der Student, den Studenten, die Studenten
der Zauberer, den Zauberer, die Zauberer · der Großvater, den Großvater, die Großväter · die Frau, die Frau, die Frauen
die Königin, die Königin, die Königinnen · die Prinzessin, die Prinzessin, die Prinzessinnen · die Hexe, die Hexe, die Hexen
die Tante, die Tante, die Tanten · die Großmutter, die Großmutter, die Großmütter · das Mädchen, das Mädchen, die Mädchen
das Kind, das Kind, die Kinder · der Hund, den Hund, die Hunde · der Bär, den Bären, die Bären
der Vogel, den Vogel, die Vögel · der Wolf, den Wolf, die Wölfe · der Löwe, den Löwen, die Löwen
der Fuchs, den Fuchs, die Füchse · die Katze, die Katze, die Katzen · die Kuh, die Kuh, die Kühe
die Maus, die Maus, die Mäuse · die Ziege, die Ziege, die Ziegen · die Gans, die Gans, die Gänse
die Schlange, die Schlange, die Schlangen · das Tier, das Tier, die Tiere · das Pferd, das Pferd, die Pferde
das Schwein, das Schwein, die Schweine · das Kamel, das Kamel, die Kamele · das Kaninchen, das Kaninchen, die Kaninchen
das Krokodil, das Krokodil, die Krokodile · der Fluss, den Fluss, die Flüsse · der Wald, den Wald, die Wälder
der Garten, den Garten, die Gärten · der Park, den Park, die Parks · der Platz, den Platz, die Plätze
der Weg, den Weg, die Wege · die Straße, die Straße, die Straßen · die Brücke, die Brücke, die Brücken
die Wiese, die Wiese, die Wiesen · die Stadt, die Stadt, die Städte · die Insel, die Insel, die Inseln
die Wüste, die Wüste, die Wüsten · das Feld, das Feld, die Felder · das Dorf, das Dorf, die Dörfer
das Tal, das Tal, die Täler · das Schloss, das Schloss, die Schlösser · das Haus, das Haus, die Häuser
das Zimmer, das Zimmer, die Zimmer · der Tisch, den Tisch, die Tische · der Stuhl, den Stuhl, die Stühle
der Apfel, den Apfel, die Äpfel · der Kuchen, den Kuchen, die Kuchen · der Brief, den Brief, die Briefe
der Stein, den Stein, die Steine · die Lampe, die Lampe, die Lampen · die Flasche, die Flasche, die Flaschen
die Birne, die Birne, die Birnen · die Kiste, die Kiste, die Kisten · die Tasche, die Tasche, die Taschen
die Uhr, die Uhr, die Uhren · das Buch, das Buch, die Bücher · das Ei, das Ei, die Eier
das Bild, das Bild, die Bilder · das Bett, das Bett, die Betten · das Boot, das Boot, die Boote
das Fenster, das Fenster, die Fenster
"""

# English base and past; German infinitive, Präteritum and its plural.
VERB_FORMS = """
cross crossed überqueren überquerte überquerten · see saw sehen sah sahen · find found finden fand fanden
reach reached erreichen erreichte erreichten · enter entered betreten betrat betraten · leave left verlassen verließ verließen
avoid avoided meiden mied mieden · explore explored erkunden erkundete erkundeten · love loved lieben liebte liebten
hate hated hassen hasste hassten · watch watched beobachten beobachtete beobachteten
discover discovered entdecken entdeckte entdeckten · guard guarded bewachen bewachte bewachten
carry carried tragen trug trugen · push pushed schieben schob schoben · touch touched berühren berührte berührten
eat ate essen aß aßen · eat ate fressen fraß fraßen · paint painted malen malte malten
visit visited besuchen besuchte besuchten · buy bought kaufen kaufte kauften · sell sold verkaufen verkaufte verkauften
open opened öffnen öffnete öffneten · close closed schließen schloss schlossen
repair repaired reparieren reparierte reparierten · lose lost verlieren verlor verloren
describe described beschreiben beschrieb beschrieben · forget forgot vergessen vergaß vergaßen
admire admired bewundern bewunderte bewunderten · read read lesen las lasen
frighten frightened erschrecken erschreckte erschreckten · surprise surprised überraschen überraschte überraschten
disappoint disappointed enttäuschen enttäuschte enttäuschten · stop stopped stoppen stoppte stoppten
"""


def phrase(text: str) -> Phrase:
    """A phrase from text such as "the small dogs"."""
    *before, last = text.split()
    noun = next(noun for noun in NOUNS if last in (noun.english, noun.english_plural))
    adjectives = [ADJECTIVE[word] for word in before if word in ADJECTIVE]
    return Phrase(noun, last == noun.english_plural, "the" in before, adjectives[0] if adjectives else None)


def act(subject: str, verb: str, object_: str, *, place: str = "", **more: Any) -> ActionClause:
    """An action from text; a place is "behind the house"."""
    preposition, _, where = place.partition(" ")
    at = (preposition, phrase(where)) if place else None
    return ActionClause(phrase(subject), VERB[verb], phrase(object_), place=at, **more)


def be(subject: str, how: str, **more: Any) -> StateClause:
    """A state from text such as "too tired"."""
    *degree, adjective = how.split()
    return StateClause(phrase(subject), ADJECTIVE[adjective], " ".join(degree), **more)


def it(main: ActionClause, joint: str, which: str, how: str, speaker: str = "", **more: Any) -> StreetSentence:
    """An action with a reason about its subject or object, as a pronoun."""
    *degree, adjective = how.split()
    reason = StateClause(getattr(main, which), ADJECTIVE[adjective], " ".join(degree), as_pronoun=True, **more)
    reported = (phrase(speaker), SAYINGS[0]) if speaker else (None, None)
    return StreetSentence(main, *reported, joint=joint, reason=reason)


def reported(speaker: str, main: ActionClause | StateClause, saying: int = 0) -> StreetSentence:
    """A clause after "says that" (0), "knows that" (1), "believes that" (2) or "thinks that" (3)."""
    return StreetSentence(main, phrase(speaker), SAYINGS[saying])


NO, TOMORROW = {"negated": True}, {"time": "tomorrow", "future": True}
CROSSING = act("the animal", "überqueren", "the street", **NO)
SENTENCES: list[tuple[StreetSentence, str, str]] = [
    (it(CROSSING, "because", "subject", "too tired"), "The animal did not cross the street because it was too tired.", "Das Tier überquerte die Straße nicht, weil es zu müde war."),
    (it(CROSSING, "because", "object", "too wide"), "The animal did not cross the street because it was too wide.", "Das Tier überquerte die Straße nicht, weil sie zu breit war."),
    (it(act("a dog", "überqueren", "the river", **NO), "for", "object", "too deep"), "A dog did not cross the river, for it was too deep.", "Ein Hund überquerte den Fluss nicht, denn er war zu tief."),
    (it(act("the cat", "fressen", "a big cake"), "although", "object", "very salty"), "The cat ate a big cake although it was very salty.", "Die Katze fraß einen großen Kuchen, obwohl er sehr salzig war."),
    (it(act("the children", "essen", "the apples"), "because", "object", "so sweet"), "The children ate the apples because they were so sweet.", "Die Kinder aßen die Äpfel, weil sie so süß waren."),
    (it(act("the dogs", "überqueren", "the street", **NO), "because", "subject", "too tired"), "The dogs did not cross the street because they were too tired.", "Die Hunde überquerten die Straße nicht, weil sie zu müde waren."),
    (it(act("the girl", "öffnen", "the window", **NO), "because", "subject", "too shy"), "The girl did not open the window because she was too shy.", "Das Mädchen öffnete das Fenster nicht, weil es zu schüchtern war."),
    (it(act("the man", "meiden", "the lion"), "because", "object", "very angry"), "The man avoided the lion because it was very angry.", "Der Mann mied den Löwen, weil er sehr wütend war."),
    (it(act("the bridge", "stoppen", "the horse"), "because", "object", "very weak"), "The bridge stopped the horse because it was very weak.", "Die Brücke stoppte das Pferd, weil es sehr schwach war."),
    (it(act("the castle", "erschrecken", "the mouse", time="today", **NO), "for", "subject", "too empty"), "Today the castle did not frighten the mouse, for it was too empty.", "Heute erschreckte das Schloss die Maus nicht, denn es war zu leer."),
    (it(act("the camel", "überqueren", "the desert", time="yesterday", **NO), "because", "object", "too hilly"), "Yesterday the camel did not cross the desert because it was too hilly.", "Gestern überquerte das Kamel die Wüste nicht, weil sie zu hügelig war."),
    (it(act("the animal", "überqueren", "the street", **NO, **TOMORROW), "because", "subject", "too tired", present=True), "Tomorrow the animal will not cross the street because it is too tired.", "Morgen wird das Tier die Straße nicht überqueren, weil es zu müde ist."),
    (it(act("the geese", "meiden", "the path", **TOMORROW), "although", "subject", "very brave", present=True), "Tomorrow the geese will avoid the path although they are very brave.", "Morgen werden die Gänse den Weg meiden, obwohl sie sehr mutig sind."),
    (it(act("the fox", "erkunden", "the meadow", **NO), "because", "object", "too swampy", "the king"), "The king says that the fox did not explore the meadow because it was too swampy.", "Der König sagt, dass der Fuchs die Wiese nicht erkundete, weil sie zu sumpfig war."),
    (StreetSentence(CROSSING), "The animal did not cross the street.", "Das Tier überquerte die Straße nicht."),
    (StreetSentence(act("the animal", "überqueren", "the street", time="yesterday", **NO)), "Yesterday the animal did not cross the street.", "Gestern überquerte das Tier die Straße nicht."),
    (StreetSentence(act("the animal", "überqueren", "the street", **NO, **TOMORROW)), "Tomorrow the animal will not cross the street.", "Morgen wird das Tier die Straße nicht überqueren."),
    (StreetSentence(act("the boy", "sehen", "a dog", **NO)), "The boy did not see a dog.", "Der Junge sah keinen Hund."),
    (StreetSentence(act("the boys", "sehen", "white dogs", **NO)), "The boys did not see white dogs.", "Die Jungen sahen keine weißen Hunde."),
    (StreetSentence(act("an old woman", "finden", "old books")), "An old woman found old books.", "Eine alte Frau fand alte Bücher."),
    (StreetSentence(act("a young bear", "berühren", "a young lion")), "A young bear touched a young lion.", "Ein junger Bär berührte einen jungen Löwen."),
    (StreetSentence(act("a small child", "lesen", "a new book", **NO)), "A small child did not read a new book.", "Ein kleines Kind las kein neues Buch."),
    (StreetSentence(act("the small student", "bewundern", "the young prince")), "The small student admired the young prince.", "Der kleine Student bewunderte den jungen Prinzen."),
    (StreetSentence(act("the prince", "beschreiben", "the students")), "The prince described the students.", "Der Prinz beschrieb die Studenten."),
    (StreetSentence(act("hungry wolves", "beobachten", "the boy", time="today")), "Today hungry wolves watched the boy.", "Heute beobachteten hungrige Wölfe den Jungen."),
    (StreetSentence(act("the hungry geese", "fressen", "the small pears")), "The hungry geese ate the small pears.", "Die hungrigen Gänse fraßen die kleinen Birnen."),
    (StreetSentence(act("the witch", "kaufen", "a beautiful clock", **NO, **TOMORROW)), "Tomorrow the witch will not buy a beautiful clock.", "Morgen wird die Hexe keine schöne Uhr kaufen."),
    (StreetSentence(act("the wide river", "überraschen", "the farmer")), "The wide river surprised the farmer.", "Der breite Fluss überraschte den Bauern."),
    (StreetSentence(act("the cows", "verlassen", "a strange valley", time="yesterday", **NO)), "Yesterday the cows did not leave a strange valley.", "Gestern verließen die Kühe kein seltsames Tal."),
    (StreetSentence(act("the dog", "sehen", "a cat", place="behind the house")), "The dog saw a cat behind the house.", "Der Hund sah eine Katze hinter dem Haus."),
    (StreetSentence(act("the aunts", "verlieren", "a bag", time="yesterday", place="beside an old bridge", **NO)), "Yesterday the aunts did not lose a bag beside an old bridge.", "Gestern verloren die Tanten keine Tasche neben einer alten Brücke."),
    (StreetSentence(act("the rabbit", "finden", "eggs", place="behind the big garden")), "The rabbit found eggs behind the big garden.", "Das Kaninchen fand Eier hinter dem großen Garten."),
    (reported("the man", CROSSING), "The man says that the animal did not cross the street.", "Der Mann sagt, dass das Tier die Straße nicht überquerte."),
    (reported("the girls", act("the pig", "betreten", "the forest", future=True, **NO), 1), "The girls know that the pig will not enter the forest.", "Die Mädchen wissen, dass das Schwein den Wald nicht betreten wird."),
    (reported("the queen", act("the princes", "malen", "an island", future=True), 2), "The queen believes that the princes will paint an island.", "Die Königin glaubt, dass die Prinzen eine Insel malen werden."),
    (reported("the farmers", be("the street", "too wide", present=True), 3), "The farmers think that the street is too wide.", "Die Bauern denken, dass die Straße zu breit ist."),
    (reported("the child", be("the rooms", "not modern"), 1), "The child knows that the rooms were not modern.", "Das Kind weiß, dass die Zimmer nicht modern waren."),
    (StreetSentence(be("the old street", "very crowded", time="yesterday")), "Yesterday the old street was very crowded.", "Gestern war die alte Straße sehr voll."),
    (StreetSentence(be("beautiful birds", "not lazy")), "Beautiful birds were not lazy.", "Schöne Vögel waren nicht faul."),
    (StreetSentence(act("the woman", "malen", "the bridge", **NO), joint="because", reason=be("the dog", "too tired")), "The woman did not paint the bridge because the dog was too tired.", "Die Frau malte die Brücke nicht, weil der Hund zu müde war."),
    (StreetSentence(act("the grandmother", "schließen", "windows"), joint="for", reason=be("the mice", "so curious")), "The grandmother closed windows, for the mice were so curious.", "Die Großmutter schloss Fenster, denn die Mäuse waren so neugierig."),
    (StreetSentence(act("the king", "tragen", "the stones", **TOMORROW), joint="although", reason=be("the wizard", "very sick", present=True)), "Tomorrow the king will carry the stones although the wizard is very sick.", "Morgen wird der König die Steine tragen, obwohl der Zauberer sehr krank ist."),
]  # fmt: skip


@pytest.fixture(scope="module")
def pairs() -> list[StreetPair]:
    return generate(6_000, seed=5)


@pytest.fixture(scope="module")
def corpus() -> StreetCorpus:
    return make_corpus(3, n_train=3_000, n_valid=200, n_test=300, n_unseen=400)


def joined(words: list[tuple[str, str]]) -> str:
    return " ".join(word for word, _ in words)


def words_of(text: str) -> list[str]:
    return [word.strip(",.") for word in text.split()]


def test_noun_forms_are_those_of_the_dictionary() -> None:
    expected = [form for line in NOUN_FORMS.split("\n") for form in line.split(" · ") if form]
    actual = []
    for noun in NOUNS:
        singular, plural = Phrase(noun), Phrase(noun, plural=True)
        forms = (singular.german("nominative"), singular.german("accusative"), plural.german("nominative"))
        actual.append(", ".join(joined(form) for form in forms))
    assert actual == expected


def test_verb_forms_are_those_of_the_dictionary() -> None:
    expected = [form for line in VERB_FORMS.split("\n") for form in line.split(" · ") if form]
    actual = [" ".join((v.base, v.past, v.infinitive, v.preterite, v.preterite_plural)) for v in VERBS]
    assert actual == expected


def test_articles_and_adjectives_agree_in_case_gender_and_number() -> None:
    small = ADJECTIVE["small"]
    table = {
        "river": "der kleine den kleinen dem kleinen ein kleiner einen kleinen einem kleinen keinen kleinen",
        "street": "die kleine die kleine der kleinen eine kleine eine kleine einer kleinen keine kleine",
        "house": "das kleine das kleine dem kleinen ein kleines ein kleines einem kleinen kein kleines",
    }
    for name, expected in table.items():
        definite, indefinite = (Phrase(NOUN[name], definite=value, adjective=small) for value in (True, False))
        forms = [
            form.german(case) for form in (definite, indefinite) for case in ("nominative", "accusative", "dative")
        ]
        forms.append(indefinite.german("accusative", negated=True))
        assert " ".join(joined(form[:-1]) for form in forms) == expected


@pytest.mark.parametrize(("sentence", "english", "german"), SENTENCES, ids=[english for _, english, _ in SENTENCES])
def test_sentences_are_grammatical_in_both_languages(sentence: StreetSentence, english: str, german: str) -> None:
    pair = realise(sentence)
    assert (pair.source, pair.target) == (english, german)


def test_lexicon_allows_more_than_a_million_sentences() -> None:
    assert len(NOUNS) >= 60
    assert len(VERBS) >= 30
    assert {noun.kind for noun in NOUNS} == {"person", "animal", "place", "thing"}
    for names in [verb.subjects for verb in VERBS] + [verb.objects for verb in VERBS] + [a.fits for a in ADJECTIVES]:
        assert all(any(suits(name, noun) for noun in NOUNS) for name in names.split())
    frames = sum(
        suits(verb.subjects, subject) and suits(verb.objects, object_)
        for verb in VERBS
        for subject in NOUNS
        for object_ in NOUNS
    )
    assert frames * 16 * 2 * 4 > 1_000_000  # articles and numbers, negation, times: not counting adjectives and clauses


def test_adjectives_that_give_a_reason_suit_only_living_or_only_lifeless_nouns() -> None:
    for adjective in ADJECTIVES:
        if adjective.mood:
            assert len({noun.is_living for noun in NOUNS if suits(adjective.fits, noun)}) == 1


def test_corpus_depends_only_on_the_seed(pairs: list[StreetPair]) -> None:
    assert generate(300, seed=5) == pairs[:300]
    assert generate(300, seed=6) != pairs[:300]
    assert [pair.source for pair in generate(3, seed=1)] == [  # in every process and Python version
        "The dog did not enter the beautiful garden because it was too overgrown.",
        "The king did not paint the fox because it was too shy.",
        "A big wolf reached the square, for it was so brave.",
    ]


def test_sentences_are_unique(pairs: list[StreetPair]) -> None:
    assert len({pair.source for pair in pairs}) == len({pair.target for pair in pairs}) == len(pairs)


def test_english_sentence_has_one_translation() -> None:
    rng, known = Random(2), dict[str, str]()
    for _ in range(4_000):
        pair = realise(draw_sentence(rng))
        assert known.setdefault(pair.source, pair.target) == pair.target


def test_half_of_the_sentences_have_a_pronoun_and_most_are_informative(pairs: list[StreetPair]) -> None:
    pronouns = [pair.pronoun for pair in pairs if pair.pronoun]
    assert 0.47 < len(pronouns) / len(pairs) < 0.53
    informative = [pronoun for pronoun in pronouns if pronoun.informative]
    assert len(informative) / len(pronouns) > 0.65
    assert {pronoun.english for pronoun in informative} == {"it"}
    assert {pronoun.english for pronoun in pronouns} == {"it", "he", "she", "they"}


def test_antecedents_and_pronouns_are_balanced(pairs: list[StreetPair]) -> None:
    informative = [pair.pronoun for pair in pairs if pair.pronoun and pair.pronoun.informative]
    first = sum(pronoun.antecedent_index < pronoun.other_index for pronoun in informative) / len(informative)
    assert 0.46 < first < 0.54
    for n_times in Counter(pronoun.german for pronoun in informative).values():
        assert 0.29 < n_times / len(informative) < 0.38


def test_indices_point_to_the_pronoun_and_its_nouns(pairs: list[StreetPair]) -> None:
    for pair in pairs:
        if pair.pronoun:
            source, target = words_of(pair.source), words_of(pair.target)
            assert source[pair.pronoun.source_index] == pair.pronoun.english
            assert target[pair.pronoun.target_index] == pair.pronoun.german in ("er", "sie", "es")
            nouns = [
                source[index].lower() for index in sorted((pair.pronoun.antecedent_index, pair.pronoun.other_index))
            ]
            for word, name in zip(nouns, pair.nouns, strict=False):
                assert word in (NOUN[name].english, NOUN[name].english_plural)


def test_last_word_decides_the_antecedent_of_an_informative_pronoun(pairs: list[StreetPair]) -> None:
    for pair in pairs:
        if pair.pronoun and pair.pronoun.informative:
            source, adjective = words_of(pair.source), ADJECTIVE[words_of(pair.source)[-1]]
            antecedent, other = (NOUN[source[i]] for i in (pair.pronoun.antecedent_index, pair.pronoun.other_index))
            assert suits(adjective.fits, antecedent)
            assert not suits(adjective.fits, other)
            assert antecedent.gender != other.gender
            assert pair.pronoun.german == {"m": "er", "f": "sie", "n": "es"}[antecedent.gender]


def test_vocabulary_is_the_lexicon_and_little_else(pairs: list[StreetPair]) -> None:
    english = {word.lower() for pair in pairs for word in words_of(pair.source)}
    german = {word for pair in pairs for word in words_of(pair.target)}
    for noun in NOUNS:
        assert {noun.english, noun.english_plural} <= english
        assert {noun.german, noun.german_plural, noun.oblique or noun.german} <= german
    for verb in VERBS:
        assert {verb.base, verb.past} <= english
        assert {verb.preterite, verb.preterite_plural, verb.infinitive} <= german
    assert {adjective.english for adjective in ADJECTIVES} <= english
    assert len(english) < 450
    assert len(german) < 550


def test_sentences_are_well_formed_and_short(pairs: list[StreetPair]) -> None:
    for pair in pairs:
        assert set(pair.source) <= set(string.ascii_letters + " ,.")
        assert set(pair.target) <= set(string.ascii_letters + "äöüÄÖÜß ,.")
        for text in (pair.source, pair.target):
            assert text[0].isupper()
            assert text.index(".") == len(text) - 1
            assert "  " not in text
            assert len(text.split()) <= 20
    usual = sum(6 <= len(pair.source.split()) <= 16 for pair in pairs)
    assert usual / len(pairs) > 0.9


def test_parts_have_the_requested_sizes_and_share_no_sentence(corpus: StreetCorpus) -> None:
    parts = (corpus.train, corpus.validation, corpus.test, corpus.unseen)
    assert [len(part) for part in parts] == [3_000, 200, 300, 400]
    assert len({pair.source for part in parts for pair in part}) == 3_900
    assert len({pair.target for part in parts for pair in part}) == 3_900
    assert make_corpus(3, n_train=3_000, n_valid=200, n_test=300, n_unseen=400) == corpus


def test_unseen_noun_pairs_do_not_occur_in_other_parts(corpus: StreetCorpus) -> None:
    known = (*corpus.train, *corpus.validation, *corpus.test)
    known_pairs = {frozenset(nouns) for pair in known for nouns in combinations(pair.nouns, 2)}
    assert all(frozenset(pair.nouns[:2]) not in known_pairs for pair in corpus.unseen)
    assert corpus.unseen[:2] == canonical()
    assert {name for pair in corpus.train for name in pair.nouns} == set(NOUN)


def test_unseen_part_can_be_empty() -> None:
    assert make_corpus(1, n_train=5, n_valid=0, n_test=0, n_unseen=0).unseen == ()


def test_files_have_one_sentence_per_line(tmp_path: Path, corpus: StreetCorpus) -> None:
    write_corpus(tmp_path / "street", corpus)
    assert sorted(path.name for path in (tmp_path / "street").iterdir()) == sorted(
        f"{part}.{language}" for part in ("train", "validation", "test", "unseen") for language in ("en", "de")
    )
    source, target = tmp_path / "street" / "test.en", tmp_path / "street" / "test.de"
    assert source.read_bytes() == "".join(f"{pair.source}\n" for pair in corpus.test).encode()
    assert target.read_bytes() == "".join(f"{pair.target}\n" for pair in corpus.test).encode()

from regard.text.sentences import Part
from regard.translator.splitting import MULTI_SENTENCE_LINES, Splitter, join, sentence_facts


def test_training_text_decides_whether_lines_are_split() -> None:
    single, several = ["One.", "Two. Three."] + ["Four."] * 8, ["One. Two."] * 5 + ["Three."] * 5
    assert sentence_facts(single, {}) == {MULTI_SENTENCE_LINES: 0.1}
    assert Splitter(sentence_facts(single, {})).split("A bee. C dee.") == [Part("A bee.", " "), Part("C dee.", "")]
    assert Splitter(sentence_facts(several, {})).split("A bee. C dee.") == [Part("A bee. C dee.", "")]
    assert Splitter({}).by_sentence  # a model of 0.1.0
    assert Splitter({MULTI_SENTENCE_LINES: "all"}).by_sentence  # a stranger's model


def test_regions_of_a_language_have_its_ordinals() -> None:
    facts = {"languages": {"source": "de-AT", "targets": ["en"]}}
    assert len(Splitter(facts).split("Am 3. Mai beginnt es.")) == 1
    assert len(Splitter({}).split("Am 3. Mai beginnt es.")) == 2


def test_joined_translations_have_the_layout_of_the_text() -> None:
    parts = Splitter({}).split("One.\n\n  Two.  Three.\n")
    assert join(parts, ["Eins.", "Zwei.", "Drei."]) == "Eins.\n\n  Zwei.  Drei."

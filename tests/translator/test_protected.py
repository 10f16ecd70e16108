import re
from pathlib import Path
from time import process_time

import pytest

from regard.decoding.options import DecodingOptions, Hypothesis
from regard.engines.engine import Engine
from regard.errors import UserError
from regard.translator import Translator
from regard.translator.protected import Lost, Protection, localised, number_facts

KEEP = Protection()


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("3 dogs", "drei Hunde"),
        ("Three dogs", "3 Hunde"),
        ("2,200,112 people", "2.200.112 Menschen"),
        ("1.5 million", "150만"),
        ("20,000 won", "2만 원"),
        ("On May 3, 2024", "Am 3.5.2024"),
        ("2024년 5월 3일", "May 3, 2024"),
        ("at 8:30", "um 8.30 Uhr"),
        ("at 8:30 p.m.", "um 20.30 Uhr"),
        ("um 15 Uhr", "at 3 pm"),
        ("at 7:00 PM", "um 19 Uhr"),
        ("at 7:00", "um 7 Uhr"),
        ("the 1st and 2nd", "der erste und zweite"),
        ("for 2.00 Euro", "pour 2 euros"),
        ("21 men", "einundzwanzig Männer"),
        ("Hi {name}, {0}%s %(n)d $HOME ${A} <br/>", "<br/> {name} {0} %s %(n)d $HOME ${A}"),
        ("Run `x = 1` in main.py.", "main.py: `x = 1`"),
        ("100% sure", "zu 100 % sicher"),
    ],
)
def test_what_is_kept_is_not_reported(source: str, translation: str) -> None:
    assert KEEP.lost(source, translation) == Lost()


@pytest.mark.parametrize(
    ("source", "translation", "warning"),
    [
        ("2.200.112 people", "Zwei 12111", "numbers"),
        ("37 dogs", "Hunde", "numbers"),
        ("dogs", "37 Hunde", "numbers"),
        ("5 and 5", "5", "numbers"),
        ("at 8:30 a.m.", "um 20.30 Uhr", "numbers"),
        ("Hello {name}", "Hallo {Name}", "placeholder"),
        ("%d files", "Dateien", "placeholder"),
        ("%d files", "%digte Dateien", "placeholder"),
        ("%s is here", "%s가 있다", None),
        ("see https://a.de/x.", "siehe https://a.de/y.", "placeholder"),
        ("Mail a.b@c.de!", "Mail a.b@c.de de", None),
        ("@user likes #tag", "@user mag Tag", "placeholder"),
        ("Open notes.txt", "Öffne Notizen", "placeholder"),
        ("<b>x</b>", "<b>x", "placeholder"),
        ("hello", "hallo https://x.de", "placeholder"),
    ],
)
def test_what_is_lost_or_added_is_reported(source: str, translation: str, warning: str | None) -> None:
    assert KEEP.lost(source, translation).warnings == ([] if warning is None else [warning])


def test_own_patterns_are_kept_too() -> None:
    assert Protection([r"ACME-\w+"]).lost("ACME-X is red", "Acme ist rot").placeholders == ("ACME-X",)
    for pattern in ("(", "x*"):
        with pytest.raises(UserError):
            Protection([pattern])


@pytest.mark.parametrize("part", ["a", "a-", "a.", "a@", "1.", "1 ", "/a", "<a ", "`", "{", "$", "%1", "#a", "www."])
def test_no_text_takes_quadratic_time(part: str) -> None:
    started_at = process_time()
    KEEP.lost(part * (100_000 // len(part)), "x")
    assert process_time() - started_at < 3.0  # quadratic time would be minutes


def test_numbers_get_the_separators_of_the_other_language() -> None:
    assert localised("2,200.5", "en", "de") == "2.200,5"
    assert localised("2.200.112", "en", "de") == "2.200.112"  # not English
    assert localised("1.5", "de", "ko") == "1.5"
    assert localised("1,5", "de", "ko") == "1.5"
    assert localised("3", "en", "fr") == "3"
    assert localised("1,000", "en", None) == "1,000"


class Forgetful(Engine):
    """Copies the source without its digits and placeholders, unless they are forced; then it copies the rest."""

    name = "forgetful"

    def __init__(self, translator: Translator) -> None:
        self.tokenizer = translator.described.tokenizers.target

    def submit(self, sources, options, prefixes=None, with_attention=False):  # type: ignore[no-untyped-def]
        forced = prefixes or [()] * len(sources)
        return lambda: [[self._copy(ids, prefix)] for ids, prefix in zip(sources, forced, strict=True)]

    def _copy(self, ids, prefix):  # type: ignore[no-untyped-def]
        words = self.tokenizer.decode(ids).split()
        kept = [word for word in words if word.isalpha() and word not in self.tokenizer.decode(prefix).split()]
        new = (*prefix, *self.tokenizer.encode(" ".join(kept)))
        return Hypothesis(new, (-1.0,) * (len(new) + 1), -1.0)

    def score(self, sources, targets):  # type: ignore[no-untyped-def]
        return [Hypothesis(tuple(ids), (-1.0,) * (len(ids) + 1), -1.0) for ids in targets]

    def close(self) -> None: ...


def test_lost_spans_are_searched_again(model_path: Path) -> None:
    with Translator.load(model_path, threads=1) as loaded:
        translator = Translator(loaded.described, Forgetful(loaded))
    lines = ["the animal 42 was tired", "one {name} two 77", "three four"]
    translations = translator.translate(lines, options=DecodingOptions(beam=1))
    for line, translation in zip(lines, translations, strict=True):
        assert sorted(translation.text.split()) == sorted(line.split())
        assert not {"numbers", "placeholder"} & set(translation.warnings)


class Garbling(Forgetful):
    """Copies the source with other digits, unless some are forced."""

    def _copy(self, ids, prefix):  # type: ignore[no-untyped-def]
        if prefix:
            return super()._copy(ids, prefix)
        new = tuple(self.tokenizer.encode(re.sub(r"\d", "5", self.tokenizer.decode(ids))))
        return Hypothesis(new, (-1.0,) * (len(new) + 1), -1.0)


def test_a_garbled_number_is_replaced_where_it_stands(model_path: Path) -> None:
    with Translator.load(model_path, threads=1) as loaded:
        translator = Translator(loaded.described, Garbling(loaded))
    lines = ["the 1234 animal was tired", "one 42 two 77 three"]
    translations = translator.translate(lines, options=DecodingOptions(beam=1))
    assert [translation.text for translation in translations] == lines
    assert not any("numbers" in translation.warnings for translation in translations)


def test_what_cannot_be_kept_is_flagged(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.translator.search_again.MAX_ROUNDS", 0)
    (translation,) = translator.translate(["the animal 12345 {name}"], options=DecodingOptions(beam=1, extra_length=2))
    assert {"numbers", "placeholder"} <= set(translation.warnings)


def test_model_that_learned_to_change_numbers_may_do_so() -> None:
    facts = number_facts([(f"one {number}", f"eins {number}") for number in range(10, 40)])
    assert facts == {"kept_numbers": 1.0}
    assert number_facts([(f"a {number}", f"b {number + 1}") for number in range(10, 40)]) == {"kept_numbers": 0.0}
    assert number_facts([("one 2", "eins 2")]) == {}
    assert Protection(kept_numbers=0.0).lost("a 12", "b 21") == Lost()
    assert Protection(kept_numbers=1.0).lost("12 34", "43 21").numbers == ("12", "34")
    assert Protection().lost("12 34", "43 21") == Lost()  # a model of 0.1.0 that does not say

"""Normalising: idempotent, and little is changed."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.normalise import normalise


@given(st.text(st.characters()))
def test_normalising_is_idempotent_and_gives_one_line(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert len(once.splitlines()) <= 1
    assert unicodedata.is_normalized("NFC", once)
    once.encode("utf-8")


@pytest.mark.parametrize("text", ["👨\u200d👩\u200d👧 ❤\ufe0f", "می\u200cخواهم", "\u200fשלום\u200e", "a\u00adb", "▁"])
def test_joiners_bidi_marks_and_emoji_are_kept(text: str) -> None:
    assert normalise(text) == text


@pytest.mark.parametrize("odd", ["\x00", "\t", "\u2028", "\ufeff", "\xa0", "\x85", "\r\n", "\ufdd0", "\U0010ffff"])
def test_controls_and_separators_become_one_space(odd: str) -> None:
    assert normalise(f" a{odd}{odd} b{odd}") == "a b"

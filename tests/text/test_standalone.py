"""A standalone vocabulary gives the same ids to other programs, which know nothing but SentencePiece."""

import unicodedata

import pytest
import sentencepiece

from regard.errors import ArtifactError
from regard.text import Tokenizer, train_tokenizer
from regard.text.standalone import standalone_model
from regard.text.vocabulary import TokenizerKind

LINES = [
    "Der Hund läuft über die Straße.",
    "한국어 문장입니다",
    "naïve café",
    "Đà Nẵng",
    "東京 です。",
    "один два",
] * 20
ODD = [
    "",
    " ",
    "  two  spaces ",
    "ﬁne Ⅷ ½ ™ ＡＢＣ",  # kept: only NFC
    "e\u0301 and é",
    "\u212b A\u030a \u1e69 s\u0323\u0307",
    "👩‍👩‍👧 😀",
    "zero\u200bwidth\ufeff\u00ad",
    "control \x01 \x07 character",
    "tab\tand\u00a0no-break\r\u2028\ufdd0.",
    "</s <s> <unk>",
    "a" * 300,
    "\u1100\u1161\u11a8 \uac00\u11a8",
]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_ids_are_equal_without_normalising_first(kind: TokenizerKind) -> None:
    tokenizer = Tokenizer(train_tokenizer(LINES, kind=kind, size=None if kind == "char" else 340))
    processor = sentencepiece.SentencePieceProcessor(model_proto=standalone_model(tokenizer))
    for line in [*LINES[:6], *ODD, *(unicodedata.normalize("NFD", line) for line in LINES[:6])]:
        assert processor.encode(line) == tokenizer.encode(line), line
        assert processor.decode(tokenizer.encode(line)) == tokenizer.decode(tokenizer.encode(line))


def test_words_are_refused() -> None:
    with pytest.raises(ArtifactError, match="a vocabulary of words"):
        standalone_model(Tokenizer(train_tokenizer(LINES, kind="word")))

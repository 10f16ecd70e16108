"""Our vocabulary as a SentencePiece model for other programs, which do not call `normalise` first.

SentencePiece has a normaliser of its own, driven by a table in the model file. Here the table is filled with the rules
of `normalise`, so that other programs get the same ids from the same text.
"""

from __future__ import annotations

import io
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import sentencepiece

from regard.errors import ArtifactError
from regard.text.normalise import WORD, normalise
from regard.text.protobuf import BYTES, read_fields, write_field
from regard.text.tokenizer import Tokenizer

_NORMALIZER_SPEC = 3  # a field of sentencepiece_model.proto
_SURROGATES = range(0xD800, 0xE000)


def standalone_model(tokenizer: Tokenizer) -> bytes:
    """A SentencePiece model file that gives the ids of `tokenizer` without `normalise`.

    Two rare differences remain: several accents on one character that are not in Unicode's order, and U+2581, which
    other programs take for a space. An imported vocabulary normalises by its own rules already.
    """
    if tokenizer.kind == "word":
        raise ArtifactError(
            "a vocabulary of words cannot be exported: SentencePiece joins neighbouring unknown words",
            hint="train with text.kind = 'bpe' or 'unigram'",
        )
    if not tokenizer.has_bytes:
        return tokenizer.to_bytes()
    fields = [field for field in read_fields(tokenizer.to_bytes()) if field[0] != _NORMALIZER_SPEC]
    return b"".join(write_field(*field) for field in [*fields, (_NORMALIZER_SPEC, BYTES, _normalizer_spec())])


@cache
def _normalizer_spec() -> bytes:
    """Compiled by SentencePiece, which only does that while it trains a model: here of three letters."""
    writer = io.BytesIO()
    with TemporaryDirectory() as directory:
        path = Path(directory) / "rules.tsv"
        path.write_text("".join(f"{_code_points(old)}\t{_code_points(new)}\n" for old, new in _rules()))
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b c"] * 3),
            model_writer=writer,
            vocab_size=10,
            model_type="char",
            hard_vocab_limit=False,
            normalization_rule_tsv=str(path),
            minloglevel=3,
        )
    fields = {number: value for number, _, value in read_fields(writer.getvalue())}
    spec = fields[_NORMALIZER_SPEC]
    assert isinstance(spec, bytes)
    return spec


def _rules() -> Iterator[tuple[str, str]]:
    """What `normalise` replaces, and by what. SentencePiece itself joins spaces, and removes those at the ends."""
    for code_point in range(1, sys.maxunicode + 1):
        if code_point in _SURROGATES:
            continue
        character = chr(code_point)
        if character == " " or (WORD.match(character) and unicodedata.is_normalized("NFD", character)):
            continue  # most of them
        replaced = normalise(f"a{character}b")[1:-1]
        if replaced != character:
            yield character, replaced
        decomposed = unicodedata.normalize("NFD", character)
        for i in range(1, len(decomposed)):  # all its accents apart, or only the last ones
            spelled = unicodedata.normalize("NFC", decomposed[:i]) + decomposed[i:]
            composed = unicodedata.normalize("NFC", spelled)
            if composed != spelled:
                yield spelled, composed


def _code_points(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)

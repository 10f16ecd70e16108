"""The vocabularies of BERT and ELECTRA, WordPiece from vocab.txt or tokenizer.json, and of XLNet, SentencePiece."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from regard.errors import ArtifactError
from regard.interop.foreign import ForeignModel
from regard.text.imported import ImportedTokenizer, ImportedVocabulary, written
from regard.text.protobuf import read_fields

_MAX_BYTES = 30_000_000
_XLNET_SPECIAL = {"pad": "<pad>", "unk": "<unk>", "bos": "<cls>", "eos": "<sep>", "mask": "<mask>"}
_PIECES, _NORMALIZER, _CHARSMAP = 1, 3, 2  # fields of a SentencePiece model, and of its normalizer_spec
_TEXT, _SCORE = 1, 2  # fields of a piece
_SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "bos": "[CLS]", "eos": "[SEP]", "mask": "[MASK]"}


def read_wordpiece(foreign: ForeignModel) -> ImportedTokenizer:
    """The same ids as BertTokenizer's. Settings are those of tokenizer.json, else of tokenizer_config.json."""
    stored = foreign.json("tokenizer.json") if foreign.has("tokenizer.json") else {}
    if foreign.has("vocab.txt"):
        pieces = foreign.bytes("vocab.txt", _MAX_BYTES).decode("utf-8", errors="replace").rstrip("\n").split("\n")
        ids: Mapping[str, Any] = {piece.rstrip("\r"): i for i, piece in enumerate(pieces)}
    else:
        ids = _part(stored, "model").get("vocab", {})
        if _part(stored, "model").get("type", "WordPiece") != "WordPiece" or not isinstance(ids, dict):
            raise ArtifactError(f"{foreign.directory / 'tokenizer.json'} is no WordPiece vocabulary")
    if not ids:
        raise ArtifactError(f"{foreign.directory} has neither vocab.txt nor a vocabulary in tokenizer.json")
    config = foreign.json("tokenizer_config.json") if foreign.has("tokenizer_config.json") else {}
    normalizer = next(_normalizers(stored.get("normalizer"), "BertNormalizer"), {})
    return build(
        foreign,
        named_pieces(foreign, ids),
        _SPECIAL,
        algorithm="wordpiece",
        lowercase=normalizer.get("lowercase", config.get("do_lower_case", True)),
        strip_accents=normalizer.get("strip_accents", config.get("strip_accents")),
        chinese_characters=normalizer.get("handle_chinese_chars", config.get("tokenize_chinese_chars", True)),
    )


def read_unigram(foreign: ForeignModel) -> ImportedTokenizer:
    """The same ids as XLNetTokenizer's: from tokenizer.json, or from the SentencePiece model spiece.model."""
    config = foreign.json("tokenizer_config.json") if foreign.has("tokenizer_config.json") else {}
    stored = foreign.json("tokenizer.json") if foreign.has("tokenizer.json") else {}
    path = foreign.directory / ("tokenizer.json" if stored else "spiece.model")
    try:
        if stored:
            scores = {str(piece): float(score) for piece, score in _part(stored, "model")["vocab"]}
            charsmap = next(_normalizers(stored.get("normalizer"), "Precompiled"), {}).get("precompiled_charsmap", "")
        else:
            scores, charsmap = _sentencepiece(foreign.bytes("spiece.model", _MAX_BYTES))
    except (KeyError, TypeError, ValueError, struct.error) as error:
        raise ArtifactError(f"{path} is no vocabulary of XLNet: {error}") from error
    pieces = named_pieces(foreign, {piece: i for i, piece in enumerate(scores)}, 32_000)
    return build(
        foreign,
        pieces,
        _XLNET_SPECIAL,
        algorithm="unigram",
        scores=[scores.get(piece, 0.0) for piece in pieces],
        charsmap=charsmap,
        lowercase=config.get("do_lower_case", any(_normalizers(stored.get("normalizer"), "Lowercase"))),
    )


def _sentencepiece(model: bytes) -> tuple[dict[str, float], str]:
    """The pieces with their scores, and the table of characters in base64."""
    scores: dict[str, float] = {}
    charsmap = b""
    for number, _, value in read_fields(model):
        if number not in (_PIECES, _NORMALIZER) or not isinstance(value, bytes):
            continue
        fields = {field: content for field, _, content in read_fields(value)}
        if number == _NORMALIZER:
            charsmap = bytes(fields.get(_CHARSMAP, b""))
        else:
            [score] = struct.unpack("<f", bytes(fields.get(_SCORE, b"\0" * 4)))
            scores[bytes(fields[_TEXT]).decode()] = score
    return scores, base64.b64encode(charsmap).decode()


def named_pieces(foreign: ForeignModel, ids: Mapping[str, Any], usual_size: int = 30_522) -> list[str]:
    """The pieces by their ids, as many as the model has; those that have no name get one that no text can have."""
    size = foreign.value("vocab_size", usual_size)
    if not all(type(i) is int and 0 <= i < size for i in ids.values()) or len(set(ids.values())) != len(ids):
        raise ArtifactError(f"{foreign.directory}: the vocabulary does not have an id below {size:,} for every piece")
    pieces = [f"<without name {i}>" for i in range(size)]
    for piece, i in ids.items():
        pieces[i] = piece
    return pieces


def build(foreign: ForeignModel, pieces: list[str], special: Mapping[str, str], **settings: Any) -> ImportedTokenizer:
    """The tokenizer; `special` has the pieces of the special symbols."""
    if missing := [piece for piece in special.values() if piece not in pieces]:
        raise ArtifactError(f"{foreign.directory}: the vocabulary has no {missing[0]}")
    values = settings | {"pieces": pieces} | {name: pieces.index(piece) for name, piece in special.items()}
    try:
        return ImportedTokenizer(written(ImportedVocabulary.model_validate(values)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ArtifactError(f"{foreign.directory}: the vocabulary is damaged: {field}: {first['msg']}") from error


def _part(stored: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = stored.get(name)
    return part if isinstance(part, dict) else {}


def _normalizers(part: Any, kind: str) -> Iterator[dict[str, Any]]:
    """Those of one type, alone or in a sequence."""
    if not isinstance(part, dict):
        return
    if part.get("type") == kind:
        yield part
    for inner in part.get("normalizers") or ():
        yield from _normalizers(inner, kind)

"""Marian's vocabulary: two SentencePiece models and vocab.json, as two SentencePiece models over one id space.

Marian looks up the pieces of either side in vocab.json, the union of both. Here each side gets a model of its own with
all pieces of the union, in the order of our ids. Those of the other side are marked as unused: SentencePiece then
never segments into them, but knows their ids.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from regard.errors import ArtifactError
from regard.interop.foreign import ForeignModel
from regard.text import Tokenizer, TokenizerPair
from regard.text.protobuf import BYTES, FIXED32, VARINT, read_fields, write_field
from regard.text.vocabulary import BOS_ID, EOS_ID, MAX_SIZE, NO_ID_MARK, PAD_ID, UNK_ID

MAX_SHARE_WITHOUT_ID = 0.01  # of the pieces of a side

_MAX_BYTES = 30_000_000
_PIECE, _TRAINER_SPEC = 1, 2  # fields of a SentencePiece model
_TEXT, _SCORE, _TYPE = 1, 2, 3  # fields of a piece
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_MODEL_TYPE, _UNIGRAM = 3, 1
_FIRST_ID_FIELD, _FIRST_NAME_FIELD = 40, 45  # of a trainer_spec: unk, bos, eos, pad


class Vocabulary(NamedTuple):
    """The pieces by our ids, and for each the id that it has in the original."""

    pieces: list[str]
    original_ids: list[int]


class _Side(NamedTuple):
    """A SentencePiece model in parts."""

    pieces: dict[str, tuple[float, int]]  # score and type
    trainer_spec: bytes
    others: bytes  # all other fields, such as how text is normalised


def read_tokenizers(foreign: ForeignModel) -> tuple[TokenizerPair, Vocabulary]:
    """The tokenizers of both sides, with the same ids as MarianTokenizer has, in our order."""
    vocabulary = _read_vocabulary(foreign)
    files = [foreign.bytes(f"{side}.spm", _MAX_BYTES) for side in ("source", "target")]
    models = [_rebuilt(f"{side}.spm", file, vocabulary) for side, file in zip(("source", "target"), files, strict=True)]
    source = Tokenizer(models[0])
    return TokenizerPair(source, source if models[0] == models[1] else Tokenizer(models[1])), vocabulary


def _read_vocabulary(foreign: ForeignModel) -> Vocabulary:
    """Our order: pad, unk, the start of the decoder, eos, then all others as they are."""
    ids = foreign.json("vocab.json")
    size = foreign.value("vocab_size", 58_101)
    is_valid = all(type(i) is int and 0 <= i < size for i in ids.values()) and len(set(ids.values())) == len(ids)
    if not is_valid or not (1 - MAX_SHARE_WITHOUT_ID) * size <= len(ids) <= size <= MAX_SIZE:
        raise ArtifactError(f"{foreign.directory / 'vocab.json'} does not have an id for each of {size:,} pieces")
    pieces = [f"<without name {i}>" for i in range(size)]
    for piece, i in ids.items():
        pieces[i] = piece
    if len(set(pieces)) != size or "<unk>" not in ids or NO_ID_MARK in ids:
        raise ArtifactError(f"{foreign.directory / 'vocab.json'} lacks <unk>, or has reserved names")
    pad, eos, start = (
        foreign.value(f"{name}_token_id", default)
        for name, default in (("pad", 58_100), ("eos", 0), ("decoder_start", 58_100))
    )
    first = [pad, ids["<unk>"], start, eos]
    if not all(0 <= i < size for i in first) or len({pad, ids["<unk>"], eos}) != 3:
        raise foreign.refused("pad_token_id, eos_token_id or decoder_start_token_id is not in the vocabulary")
    order = [*first, *(i for i in range(size) if i not in first)]
    names = [pieces[i] for i in order]
    if start == pad:
        names[BOS_ID] = "<s>" if "<s>" not in ids else "<start of the decoder>"
    return Vocabulary(names, order)


def _rebuilt(name: str, file: bytes, vocabulary: Vocabulary) -> bytes:
    """The SentencePiece model of one side with all pieces of the vocabulary, by their ids."""
    try:
        side = _parse(file)
        model_type = _model_type(side.trainer_spec)
    except (ValueError, struct.error, UnicodeDecodeError) as error:
        raise ArtifactError(f"{name} is not a SentencePiece model: {error}") from error
    pieces, n = [*side.pieces], len(vocabulary.pieces)
    if pieces[:n] == vocabulary.pieces and pieces[n : n + 1] in ([], [NO_ID_MARK]):
        return file  # it has these ids already: it was written by regard
    if model_type != _UNIGRAM:
        raise ArtifactError(f"{name} is not a unigram model, so other pieces cannot be added to it")
    known = set(vocabulary.pieces)
    without_id = [
        piece for piece, (_, kind) in side.pieces.items() if piece not in known and kind in (_NORMAL, _USER_DEFINED)
    ]
    if len(without_id) > MAX_SHARE_WITHOUT_ID * len(pieces):
        raise ArtifactError(f"vocab.json lacks {len(without_id):,} pieces of {name}, e.g. {without_id[0]!r}")
    rebuilt = [_piece(i, piece, side.pieces) for i, piece in enumerate(vocabulary.pieces)]
    if without_id:
        rebuilt += [(NO_ID_MARK, 0.0, _CONTROL), *((piece, *side.pieces[piece]) for piece in without_id)]
    written = b"".join(write_field(_PIECE, BYTES, _write_piece(*piece)) for piece in rebuilt)
    spec = side.trainer_spec + _special_symbols(vocabulary.pieces)
    return written + write_field(_TRAINER_SPEC, BYTES, spec) + side.others


def _piece(piece_id: int, piece: str, own: Mapping[str, tuple[float, int]]) -> tuple[str, float, int]:
    """Name, score and type. A tag for the target language is a control symbol, which no text can produce."""
    if piece_id == UNK_ID:
        return piece, 0.0, _UNKNOWN
    if piece_id in (PAD_ID, BOS_ID, EOS_ID) or (piece.startswith(">>") and piece.endswith("<<")):
        return piece, 0.0, _CONTROL
    score, kind = own.get(piece, (0.0, _UNUSED))
    return piece, score, _UNUSED if kind == _CONTROL else kind


def _special_symbols(pieces: Sequence[str]) -> bytes:
    """The fields of a trainer_spec that name the special symbols; of a repeated field, the last one counts."""
    ids = (UNK_ID, BOS_ID, EOS_ID, PAD_ID)
    numbers = b"".join(write_field(_FIRST_ID_FIELD + i, VARINT, piece_id) for i, piece_id in enumerate(ids))
    names = (pieces[piece_id].encode() for piece_id in ids)
    return numbers + b"".join(write_field(_FIRST_NAME_FIELD + i, BYTES, name) for i, name in enumerate(names))


def _parse(file: bytes) -> _Side:
    pieces: dict[str, tuple[float, int]] = {}
    trainer_spec = others = b""
    for number, kind, value in read_fields(file):
        if number == _PIECE and isinstance(value, bytes):
            fields = {field: content for field, _, content in read_fields(value)}
            text, score, piece_type = fields.get(_TEXT), fields.get(_SCORE, b"\0" * 4), fields.get(_TYPE, _NORMAL)
            if not (isinstance(text, bytes) and isinstance(score, bytes) and isinstance(piece_type, int)):
                raise ValueError("a piece has an unknown form")
            pieces[text.decode()] = (struct.unpack("<f", score)[0], piece_type)
            if len(pieces) > MAX_SIZE:
                raise ValueError("it has too many pieces")
        elif number == _TRAINER_SPEC and isinstance(value, bytes):
            trainer_spec = value
        else:
            others += write_field(number, kind, value)
    if not pieces:
        raise ValueError("it has no pieces")
    return _Side(pieces, trainer_spec, others)


def _model_type(trainer_spec: bytes) -> int | bytes:
    return {number: value for number, _, value in read_fields(trainer_spec)}.get(_MODEL_TYPE, _UNIGRAM)


def _write_piece(text: str, score: float, kind: int) -> bytes:
    return (
        write_field(_TEXT, BYTES, text.encode())
        + write_field(_SCORE, FIXED32, struct.pack("<f", score))
        + write_field(_TYPE, VARINT, kind)
    )

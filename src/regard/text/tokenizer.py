"""Text to ids and back, with SentencePiece.

Lossless: `decode(encode(line)) == normalise(line)`. Only in a vocabulary of words, unknown ones become `<unk>`, and an
imported vocabulary without bytes normalises text by its own rules.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

import sentencepiece

from regard.durable import read_regular_file
from regard.errors import ArtifactError, DataError, UserError
from regard.text.normalise import normalise, without_surrogates
from regard.text.protobuf import BYTES, read_fields
from regard.text.subword_sampling import BpeDropout, UnigramSampling, split_long_word
from regard.text.vocabulary import (
    BOS_ID,
    EOS_ID,
    MASK,
    MAX_SIZE,
    N_FIXED,
    N_SPECIAL,
    NO_ID_MARK,
    PAD_ID,
    SPACE,
    UNK_ID,
    TokenizerKind,
    check_vocabulary,
    tag_piece,
)

_MAX_FILE_BYTES = 30_000_000
_MAX_SPEC_BYTES = 2_000_000  # of everything in a model file except its pieces
_PIECE, _SPECS = 1, (2, 3, 4, 5)  # the fields of sentencepiece_model.proto
_PLACEHOLDER = "\ufdd0"  # replaces a U+2581 in the text; normalise() removes this code point from any text
_BLANK = "\ufdd1"  # replaces a [MASK] in the same way
_COPY_AGAIN = "copy the model again, or train it again"

sentencepiece.set_min_log_level(3)  # its errors are raised as exceptions


class Tokenizer:
    """A trained SentencePiece model. Immutable, so threads can share it."""

    pad_id, unk_id, bos_id, eos_id = PAD_ID, UNK_ID, BOS_ID, EOS_ID

    def __init__(self, model: bytes) -> None:
        self._model = bytes(model)
        self._processor = _load(self._model)
        self.has_bytes = _verify(self._processor)
        end = self._processor.piece_to_id(NO_ID_MARK)  # pieces behind it shape the segmentation, but are unknown
        self.size: int = self._processor.get_piece_size() if end == UNK_ID else end
        controls = (i for i in range(EOS_ID + 1, self.size) if self._processor.is_control(i))
        self._controls = {i: str(self._processor.id_to_piece(i)) for i in controls}
        self.tags: tuple[str, ...] = tuple(
            piece[2:-2] for piece in self._controls.values() if piece.startswith(">>") and piece.endswith("<<")
        )
        self.mask_id = next((i for i, piece in self._controls.items() if piece == MASK), None)
        self.special_ids = frozenset({PAD_ID, BOS_ID, EOS_ID, *self._controls})
        byte_id = self._processor.piece_to_id
        self._byte_ids: list[int] = [byte_id(f"<0x{byte:02X}>") for byte in range(256)]

    def __reduce__(self) -> tuple[type["Tokenizer"], tuple[bytes]]:
        """Pickled for other processes by its file."""
        return type(self), (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        """The SentencePiece model file."""
        return self._model

    def file_name(self, side: str) -> str:
        """Of the file in a model directory: `side` is "tokenizer", "source" or "target"."""
        return f"{side}.model"

    def encode(self, line: str, *, tag: str | None = None) -> list[int]:
        """The ids of a line, without bos and eos; `tag` puts a target language in front."""
        return self.encode_many([line], tag=tag)[0]

    def encode_with_blanks(self, line: str) -> list[int]:
        """The ids of a line in which every [MASK] becomes `mask_id`, as in training: with the space before it."""
        assert self.mask_id is not None
        clean = normalise(line)
        if not self.has_bytes:  # words, or a model of other software
            first, *parts = (self.encode(part.strip()) for part in clean.split(MASK))
            return first + [i for part in parts for i in (self.mask_id, *part)]
        ids: list[int] = self._processor.encode(clean.replace(SPACE, _PLACEHOLDER).replace(MASK, _BLANK))
        blank = self._bytes_of(_BLANK)
        for old in ([self._processor.piece_to_id(SPACE), *blank], blank):
            ids = _replaced(ids, old, [self.mask_id])
        return self._restore(ids)

    def encode_many(self, lines: Iterable[str], *, tag: str | None = None) -> list[list[int]]:
        """The ids of many lines; faster than many calls of `encode`."""
        tag_ids = self._tag_ids(tag)
        if not self.has_bytes and self.kind != "word":
            return [tag_ids + ids for ids in self._imported_ids([without_surrogates(line) for line in lines])]
        clean = [normalise(line) for line in lines]
        if not self.has_bytes:
            return [tag_ids + self._word_ids(line) for line in clean]
        encoded: list[list[int]] = self._processor.encode([line.replace(SPACE, _PLACEHOLDER) for line in clean])
        return [
            tag_ids + (self._restore(ids) if SPACE in line else ids) for line, ids in zip(clean, encoded, strict=True)
        ]

    def tag_for(self, target: str | None) -> str | None:
        """The tag for a target language: the given one, else the only one, else None."""
        if target is None and len(self.tags) > 1:
            languages = ", ".join(self.tags)
            raise UserError(f"this model translates into {languages}", hint=f"choose one: --target {self.tags[0]}")
        return self.tags[0] if target is None and self.tags else target

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, always a single line; padding, bos, eos and tags are left out."""
        return normalise(self._processor.decode([int(i) for i in ids if int(i) not in self.special_ids]))

    def pieces(self, line: str, *, tag: str | None = None) -> list[str]:
        """The sub-words of a line."""
        return [self.piece(i) for i in self.encode(line, tag=tag)]

    def piece(self, piece_id: int) -> str:
        """The sub-word of an id."""
        space = SPACE if piece_id == UNK_ID and self.kind == "word" else ""  # an unknown word is a word
        return space + str(self._processor.id_to_piece(int(piece_id)))

    @property
    def ends(self) -> tuple[int, int]:
        """The symbols at the ends of a text: bos and eos."""
        return self.bos_id, self.eos_id

    @cached_property
    def symbols(self) -> list[str]:
        """The piece of every id."""
        pieces: list[str] = self._processor.id_to_piece(list(range(self.size)))
        return pieces

    def sample_many(self, sequences: Sequence[Sequence[int]], alpha: float, seed: int) -> list[list[int]]:
        """Sample other segmentations of the same texts. Deterministic; special symbols at either end are kept.

        `alpha` is the probability of BPE-dropout, or the exponent of unigram sampling.
        """
        check_vocabulary(self.kind, None, alpha)
        rng = Random(seed)
        return [self._sample(sequence, alpha, rng) for sequence in sequences]

    def _word_ids(self, line: str) -> list[int]:
        """One id per word; SentencePiece would join neighbouring unknown words."""
        return [self._pieces.get(SPACE + word, (UNK_ID, 0.0))[0] for word in line.split(" ")] if line else []

    def _imported_ids(self, lines: list[str]) -> list[list[int]]:
        """In an imported vocabulary, a run of characters that is no piece of this side may be one of the other side."""
        encoded: list[list[int]] = self._processor.encode(lines)
        return [
            ids if UNK_ID not in ids and max(ids, default=0) < self.size else [*map(self._known_id, self._spell(line))]
            for line, ids in zip(lines, encoded, strict=True)
        ]

    def _spell(self, line: str) -> list[str]:
        """The pieces of a line as text, also those that are unknown."""
        spelled: list[str] = self._processor.encode(line, out_type=str)
        return spelled

    def _known_id(self, piece: str) -> int:
        piece_id: int = self._processor.piece_to_id(piece)
        return piece_id if piece_id < self.size and piece_id not in self.special_ids else UNK_ID

    def _restore(self, ids: list[int]) -> list[int]:
        """Replace the bytes of the placeholder by those of U+2581, which SentencePiece would encode as a space."""
        return _replaced(ids, self._bytes_of(_PLACEHOLDER), self._bytes_of(SPACE))

    def _bytes_of(self, text: str) -> list[int]:
        return [self._byte_ids[byte] for byte in text.encode()]

    def _tag_ids(self, tag: str | None) -> list[int]:
        if tag is None:
            return []
        if tag not in self.tags:
            hint = f"it has: {', '.join(self.tags)}" if self.tags else "drop --target: it has only one target language"
            raise DataError(f"this model has no target language {tag!r}", hint=hint)
        return [self._processor.piece_to_id(tag_piece(tag))]

    def _sample(self, sequence: Sequence[int], alpha: float, rng: Random) -> list[int]:
        start, end = 0, len(sequence)
        while start < end and sequence[start] in self.special_ids:
            start += 1
        while end > start and sequence[end - 1] in self.special_ids:
            end -= 1
        text = self.decode(sequence[start:end])
        body: list[int] = []
        for word in text.split(" ") if text else []:
            for part in split_long_word(SPACE + word.replace(SPACE, _PLACEHOLDER)):
                body += self._sampler.sample(part, alpha, rng)
        body = self._restore(body) if SPACE in text else body
        return [*map(int, sequence[:start]), *body, *map(int, sequence[end:])]

    @cached_property
    def kind(self) -> TokenizerKind:
        """The algorithm. Only in BPE are the scores integers: 0, -1, -2, … in the order of the merges."""
        if not self.has_bytes and all(piece.startswith(SPACE) for piece in self._pieces):
            return "word"
        if all(len(piece) == 1 for piece in self._pieces):
            return "char"
        return "bpe" if all(score == round(score) for _, score in self._pieces.values()) else "unigram"

    @cached_property
    def _pieces(self) -> dict[str, tuple[int, float]]:
        """Id and score of each piece of text."""
        processor = self._processor
        return {
            str(processor.id_to_piece(i)): (i, float(processor.get_score(i)))
            for i in range(self.size)
            if not (processor.is_control(i) or processor.is_unknown(i) or processor.is_byte(i))
        }

    @cached_property
    def _sampler(self) -> BpeDropout | UnigramSampling:
        return (BpeDropout if self.kind == "bpe" else UnigramSampling)(self._pieces, self._byte_ids)


def _replaced(ids: list[int], old: list[int], new: list[int]) -> list[int]:
    """The ids with `new` wherever they have `old`."""
    out, i = list(ids), 0
    while i < len(out):
        if out[i : i + len(old)] == old:
            out[i : i + len(old)] = new
        i += 1
    return out


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of both sides; the same object twice if they share a vocabulary."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Whether both sides have the same ids; an imported pair has, but segments each side in its own way."""
        return self.source is self.target or self.source.symbols == self.target.symbols

    @property
    def sizes(self) -> dict[str, int]:
        """What a model has to know of the vocabularies."""
        return {"n_src_symbols": self.source.size, "n_tgt_symbols": self.target.size, "pad_id": self.target.pad_id}

    def files(self) -> dict[str, bytes]:
        """`tokenizer.model`, or `source.model` and `target.model` if the sides have their own vocabularies."""
        one = self.source is self.target
        names = {"tokenizer": self.source} if one else {"source": self.source, "target": self.target}
        return {tokenizer.file_name(name): tokenizer.to_bytes() for name, tokenizer in names.items()}


TOKENIZER_FILES = frozenset({"tokenizer.model", "source.model", "target.model", "vocabulary.json"})


def read_tokenizers(directory: Path) -> TokenizerPair:
    """The tokenizers that are stored as `TokenizerPair.files`; raises ArtifactError if they are missing or damaged."""

    def read(path: Path) -> Tokenizer:
        model = read_regular_file(path, _MAX_FILE_BYTES)
        if not _is_bounded(model):
            raise ArtifactError(f"{path} is damaged, or was not written by regard", hint=_COPY_AGAIN)
        return Tokenizer(model)

    if (directory / "vocabulary.json").exists():
        from regard.text.imported import read_imported  # it is a Tokenizer

        imported = read_imported(directory)
        return TokenizerPair(imported, imported)
    joint, source, target = (directory / f"{name}.model" for name in ("tokenizer", "source", "target"))
    if joint.exists():
        tokenizer = read(joint)
        return TokenizerPair(tokenizer, tokenizer)
    if source.exists() and target.exists():
        return TokenizerPair(read(source), read(target))
    raise ArtifactError(f"{joint} is missing", hint=_COPY_AGAIN)


def _is_bounded(model: bytes) -> bool:
    """Whether a SentencePiece model has a plausible number of parts, counted before they take memory.

    An empty piece takes 2 bytes in the file and 80 in memory.
    """
    n_pieces, n_spec_bytes = 0, 0
    try:
        for number, kind, value in read_fields(model):
            n_pieces += number == _PIECE
            n_spec_bytes += len(value) + 2 if number in _SPECS and isinstance(value, bytes) else 0
            is_known = kind == BYTES and number in (_PIECE, *_SPECS)
            if not is_known or n_pieces > MAX_SIZE or n_spec_bytes > _MAX_SPEC_BYTES:
                return False
    except ValueError:
        return False
    return True


def _load(model: bytes) -> "sentencepiece.SentencePieceProcessor":
    if not model:
        raise ArtifactError("the tokenizer is empty", hint=_COPY_AGAIN)
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=model)
    except (RuntimeError, ValueError, OSError) as error:
        raise ArtifactError("the tokenizer is damaged, or not a SentencePiece model", hint=_COPY_AGAIN) from error


def _verify(processor: "sentencepiece.SentencePieceProcessor") -> bool:
    """Raise an ArtifactError unless the special ids and byte pieces are those that other code relies on.

    Returns whether there are byte pieces: only a vocabulary of words has none.
    """
    size = processor.get_piece_size()
    byte_ids = {processor.piece_to_id(f"<0x{byte:02X}>") for byte in range(256)}
    has_bytes = byte_ids != {UNK_ID}
    if not (smallest := N_FIXED if has_bytes else N_SPECIAL) <= size <= MAX_SIZE:
        raise ArtifactError(f"the tokenizer has {size} pieces, not {smallest} to {MAX_SIZE:,}", hint=_COPY_AGAIN)
    ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if ids != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
        raise ArtifactError(f"the tokenizer has pad, unk, bos, eos at {ids}, not at (0, 1, 2, 3)", hint=_COPY_AGAIN)
    if has_bytes and (len(byte_ids) != 256 or not all(processor.is_byte(i) for i in byte_ids)):
        raise ArtifactError("the tokenizer lacks pieces for some bytes", hint=_COPY_AGAIN)
    try:
        processor.id_to_piece(list(range(size)))
        processor.decode([UNK_ID])
    except UnicodeDecodeError as error:
        raise ArtifactError("the tokenizer has pieces that are not valid UTF-8", hint=_COPY_AGAIN) from error
    return has_bytes

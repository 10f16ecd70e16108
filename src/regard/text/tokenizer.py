"""Text to ids and back, with SentencePiece. What goes in comes out: `decode(encode(line)) == normalise(line)`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

import sentencepiece

from regard.durable import read_regular_file
from regard.errors import ArtifactError, DataError, UserError
from regard.text.normalise import normalise
from regard.text.subword_sampling import BpeDropout, Sampler, UnigramSampling, cut_long
from regard.text.vocabulary import BOS_ID, EOS_ID, N_FIXED, PAD_ID, SPACE, UNK_ID, Kind, tag_piece

_MAX_SIZE = 1_000_000
_MAX_FILE_BYTES = 30_000_000
_MAX_SPEC_BYTES = 2_000_000  # of everything in a model file except its pieces
_PIECE_TAG, _SPEC_TAGS = 0x0A, (0x12, 0x1A, 0x22, 0x2A)  # in sentencepiece_model.proto: field 1, and fields 2 to 5
_STAND_IN = "\ufdd0"  # for a real U+2581 in the text; normalise() lets no such code point through
_REFUSED = "get the model again, or train it again"

sentencepiece.set_min_log_level(3)  # what it has to say comes as exceptions


class Tokenizer:
    """A trained vocabulary. Safe to share between threads: nothing in it changes."""

    pad_id, unk_id, bos_id, eos_id = PAD_ID, UNK_ID, BOS_ID, EOS_ID

    def __init__(self, model: bytes) -> None:
        self._model = bytes(model)
        self._processor = _load(self._model)
        self.size: int = self._processor.get_piece_size()
        _verify(self._processor)
        controls = (i for i in range(EOS_ID + 1, self.size) if self._processor.is_control(i))
        self._controls = {i: str(self._processor.id_to_piece(i)) for i in controls}
        self.tags: tuple[str, ...] = tuple(
            piece[2:-2] for piece in self._controls.values() if piece.startswith(">>") and piece.endswith("<<")
        )
        self.special_ids = frozenset({PAD_ID, BOS_ID, EOS_ID, *self._controls})
        byte_id = self._processor.piece_to_id
        self._byte_ids: list[int] = [byte_id(f"<0x{byte:02X}>") for byte in range(256)]

    def to_bytes(self) -> bytes:
        """The model file, as `Tokenizer` takes it and as SentencePiece reads it."""
        return self._model

    def encode(self, line: str, *, tag: str | None = None) -> list[int]:
        """Ids of a line, without begin and end; with the target language in front when a tag is given."""
        return self._tag_ids(tag) + self._encode(normalise(line))

    def encode_many(self, lines: Iterable[str], *, tag: str | None = None) -> list[list[int]]:
        """As `encode`, for many lines at once."""
        front = self._tag_ids(tag)
        clean = [normalise(line) for line in lines]
        encoded: list[list[int]] = self._processor.encode([line.replace(SPACE, _STAND_IN) for line in clean])
        return [front + (self._real(ids) if SPACE in line else ids) for line, ids in zip(clean, encoded, strict=True)]

    def tag_for(self, target: str | None) -> str | None:
        """What a model is to be told of the language: the one that is asked for, its only one, or nothing."""
        if target is None and len(self.tags) > 1:
            known = ", ".join(self.tags)
            raise UserError(f"this model translates into {known}", hint=f"say which: --target {self.tags[0]}")
        return self.tags[0] if target is None and self.tags else target

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, on one line whatever they are; padding, begin, end and tags are left out."""
        return normalise(self._processor.decode([int(i) for i in ids if int(i) not in self.special_ids]))

    def pieces(self, line: str, *, tag: str | None = None) -> list[str]:
        """The sub-words of a line, as they stand in the vocabulary."""
        return [self.piece(i) for i in self.encode(line, tag=tag)]

    def piece(self, piece_id: int) -> str:
        """The sub-word of an id."""
        return str(self._processor.id_to_piece(int(piece_id)))

    def sample_many(self, sequences: Sequence[Sequence[int]], alpha: float, seed: int) -> list[list[int]]:
        """The same texts cut in other ways: BPE-dropout of probability alpha, or unigram sampling of exponent alpha.

        A function of its three arguments and nothing else. Tags in front and end marks behind stay in their places.
        """
        rng = Random(seed)
        return [self._sample(sequence, alpha, rng) for sequence in sequences]

    def _encode(self, clean: str) -> list[int]:
        if SPACE in clean:
            return self._real(self._processor.encode(clean.replace(SPACE, _STAND_IN)))
        ids: list[int] = self._processor.encode(clean)
        return ids

    def _real(self, ids: list[int]) -> list[int]:
        """Put the bytes of U+2581 where those of its stand-in are. SentencePiece itself would read it as a space."""
        stand_in, real = ([self._byte_ids[byte] for byte in text.encode()] for text in (_STAND_IN, SPACE))
        out, i = list(ids), 0
        while i < len(out):
            if out[i : i + 3] == stand_in:
                out[i : i + 3] = real
            i += 1
        return out

    def _tag_ids(self, tag: str | None) -> list[int]:
        if tag is None:
            return []
        if tag not in self.tags:
            known = ", ".join(self.tags) or "none"
            raise DataError(f"this model has no target language {tag!r}", hint=f"it knows: {known}")
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
            for part in cut_long(SPACE + word.replace(SPACE, _STAND_IN)):
                body += self._sampler.sample(part, alpha, rng)
        body = self._real(body) if SPACE in text else body
        return [*map(int, sequence[:start]), *body, *map(int, sequence[end:])]

    @cached_property
    def kind(self) -> Kind:
        """How it was made. Only a BPE vocabulary numbers its pieces: 0, -1, -2, … in the order of the merges."""
        return "bpe" if all(score == round(score) for _, score in self._pieces.values()) else "unigram"

    @cached_property
    def _pieces(self) -> dict[str, tuple[int, float]]:
        """Id and score of every piece that is text."""
        processor = self._processor
        return {
            str(processor.id_to_piece(i)): (i, float(processor.get_score(i)))
            for i in range(self.size)
            if not (processor.is_control(i) or processor.is_unknown(i) or processor.is_byte(i))
        }

    @cached_property
    def _sampler(self) -> Sampler:
        return (BpeDropout if self.kind == "bpe" else UnigramSampling)(self._pieces, self._byte_ids)


@dataclass(frozen=True)
class TokenizerPair:
    """The vocabularies of both sides; the same object twice when they share one."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return self.source is self.target

    def write(self, directory: Path) -> None:
        """Write `tokenizer.model`, or `source.model` and `target.model` if the sides have their own vocabularies."""
        names = {"tokenizer": self.source} if self.joint else {"source": self.source, "target": self.target}
        for name, tokenizer in names.items():
            (directory / f"{name}.model").write_bytes(tokenizer.to_bytes())


def read_tokenizers(directory: Path) -> TokenizerPair:
    """The vocabularies that `TokenizerPair.write` wrote; an ArtifactError if they are missing or damaged."""

    def read(path: Path) -> Tokenizer:
        model = read_regular_file(path, _MAX_FILE_BYTES)
        if not _has_few_parts(model):
            raise ArtifactError(f"{path} is damaged, or was not written by regard", hint=_REFUSED)
        return Tokenizer(model)

    joint, source, target = (directory / f"{name}.model" for name in ("tokenizer", "source", "target"))
    if joint.exists():
        tokenizer = read(joint)
        return TokenizerPair(tokenizer, tokenizer)
    if source.exists() and target.exists():
        return TokenizerPair(read(source), read(target))
    raise ArtifactError(f"{joint} is missing", hint=_REFUSED)


def _has_few_parts(model: bytes) -> bool:
    """Whether a SentencePiece model has no more parts than it should, counted before they take memory.

    The file is a protocol buffer: parts, each with a tag, a length and that many bytes. An empty piece takes 2 bytes
    in the file and 80 in memory.
    """
    n_pieces, n_spec_bytes, at = 0, 0, 0
    while at < len(model) and n_pieces <= _MAX_SIZE and n_spec_bytes <= _MAX_SPEC_BYTES:
        tag, length, shift = model[at], 0, 0
        at += 1
        while at < len(model) and shift < 35:
            length |= (model[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if model[at - 1] < 0x80:
                break
        at += length
        if tag == _PIECE_TAG:
            n_pieces += 1
        elif tag in _SPEC_TAGS:
            n_spec_bytes += length + 2
        else:
            return False
    return at == len(model) and n_pieces <= _MAX_SIZE and n_spec_bytes <= _MAX_SPEC_BYTES


def _load(model: bytes) -> "sentencepiece.SentencePieceProcessor":
    if not model:
        raise ArtifactError("the tokenizer is empty", hint=_REFUSED)
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=model)
    except (RuntimeError, ValueError, OSError) as error:
        raise ArtifactError("the tokenizer is damaged, or not a SentencePiece model", hint=_REFUSED) from error


def _verify(processor: "sentencepiece.SentencePieceProcessor") -> None:
    """Refuse a vocabulary that Regard could not have made: other code relies on these ids."""
    size = processor.get_piece_size()
    if not N_FIXED <= size <= _MAX_SIZE:
        raise ArtifactError(f"the tokenizer has {size} pieces, which can not be", hint=_REFUSED)
    ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if ids != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
        raise ArtifactError(f"the tokenizer has pad, unk, bos, eos at {ids}, not at (0, 1, 2, 3)", hint=_REFUSED)
    bytes_found = {processor.piece_to_id(f"<0x{byte:02X}>") for byte in range(256)}
    if len(bytes_found) != 256 or not all(processor.is_byte(i) for i in bytes_found):
        raise ArtifactError("the tokenizer has no piece for every byte", hint=_REFUSED)
    try:
        processor.id_to_piece(list(range(size)))
        processor.decode([UNK_ID])
    except UnicodeDecodeError as error:
        raise ArtifactError("the tokenizer has pieces that are not valid UTF-8", hint=_REFUSED) from error

"""The vocabulary of an imported encoder: WordPiece or unigram, run by Hugging Face's `tokenizers`, with its ids.

It is stored as data, in `vocabulary.json`: the pieces in the order of their ids, and how text is normalised.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from regard.durable import read_regular_file
from regard.errors import ArtifactError, UserError
from regard.text.normalise import normalise, without_surrogates
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary import MASK, MAX_SIZE, SPACE, TokenizerKind

FILE = "vocabulary.json"
_MAX_BYTES = 60_000_000
_CONTINUED = "##"  # WordPiece: a piece inside a word

PieceId = Annotated[int, Field(ge=0, lt=MAX_SIZE)]


class ImportedVocabulary(BaseModel, frozen=True, extra="forbid"):
    """The content of the file."""

    algorithm: Literal["wordpiece", "unigram"]
    pieces: tuple[str, ...] = Field(min_length=5, max_length=MAX_SIZE)
    scores: tuple[float, ...] = ()  # of unigram
    charsmap: str = ""  # of unigram: SentencePiece's table of characters, in base64
    lowercase: bool
    strip_accents: bool | None = None  # unset: as `lowercase`
    chinese_characters: bool = True  # WordPiece: each is a word
    pad: PieceId
    unk: PieceId
    bos: PieceId  # [CLS]
    eos: PieceId  # [SEP]
    mask: PieceId

    @property
    def is_consistent(self) -> bool:
        special = {self.pad, self.unk, self.bos, self.eos, self.mask}
        n_scores = len(self.pieces) if self.algorithm == "unigram" else 0
        is_complete = len(set(self.pieces)) == len(self.pieces) and len(self.scores) == n_scores
        return is_complete and len(special) == 5 and max(special) < len(self.pieces)


class ImportedTokenizer(Tokenizer):
    """An imported vocabulary. Unlike our own, it has no bytes: decoding does not always give back the text."""

    def __init__(self, content: bytes) -> None:
        try:
            vocabulary = ImportedVocabulary.model_validate_json(content)
        except ValidationError as error:
            raise ArtifactError(f"{FILE} is damaged: {error.errors(include_url=False)[0]['msg']}") from error
        if not vocabulary.is_consistent:
            raise ArtifactError(f"{FILE} is damaged: pieces, scores or special symbols do not fit together")
        self._content, self._vocabulary = content, vocabulary
        self.has_bytes, self.tags, self.size = False, (), len(vocabulary.pieces)
        self.pad_id, self.unk_id, self.mask_id = vocabulary.pad, vocabulary.unk, vocabulary.mask
        self.bos_id, self.eos_id = vocabulary.bos, vocabulary.eos
        self.special_ids = frozenset({self.pad_id, self.bos_id, self.eos_id, vocabulary.mask})

    def to_bytes(self) -> bytes:
        return self._content

    def file_name(self, side: str) -> str:
        return FILE

    def encode_many(self, lines: Iterable[str], *, tag: str | None = None) -> list[list[int]]:
        """Without changes to the text before: the vocabulary has its own normalisation."""
        prefix = self._tag_ids(tag)
        encoded = self._tokenizer.encode_batch([*map(without_surrogates, lines)], add_special_tokens=False)
        return [prefix + encoding.ids for encoding in encoded]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, always a single line."""
        kept = [int(i) for i in ids if int(i) not in self.special_ids]
        return normalise(self._tokenizer.decode(kept, skip_special_tokens=False))

    def piece(self, piece_id: int) -> str:
        """The sub-word of an id, with SentencePiece's mark in front of a word; [MASK] is always called so."""
        piece = self._vocabulary.pieces[piece_id]
        if piece_id == self.mask_id:
            return MASK
        if self._vocabulary.algorithm == "unigram" or piece_id in self.special_ids:
            return piece
        return piece.removeprefix(_CONTINUED) if piece.startswith(_CONTINUED) else SPACE + piece

    @cached_property
    def symbols(self) -> list[str]:
        return list(self._vocabulary.pieces)

    @cached_property
    def kind(self) -> TokenizerKind:
        return "imported"

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            import tokenizers
        except ImportError as error:
            raise UserError(
                "the vocabulary of this model needs the package tokenizers",
                hint="in Regard's directory, run: pip install '.[import]'",
            ) from error
        build = _wordpiece if self._vocabulary.algorithm == "wordpiece" else _unigram
        try:
            return build(tokenizers, self._vocabulary)
        except Exception as error:  # of a library in Rust, about data that may come from anywhere
            raise ArtifactError(f"{FILE} is damaged: {error}") from error


def _wordpiece(t: Any, vocabulary: ImportedVocabulary) -> Any:
    """As BertTokenizer."""
    ids = {piece: i for i, piece in enumerate(vocabulary.pieces)}
    tokenizer = t.Tokenizer(t.models.WordPiece(ids, unk_token=vocabulary.pieces[vocabulary.unk]))
    tokenizer.normalizer = t.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=vocabulary.chinese_characters,
        strip_accents=vocabulary.strip_accents,
        lowercase=vocabulary.lowercase,
    )
    tokenizer.pre_tokenizer = t.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = t.decoders.WordPiece(prefix=_CONTINUED)
    return tokenizer


def _unigram(t: Any, vocabulary: ImportedVocabulary) -> Any:
    """As XLNetTokenizer."""
    special = {vocabulary.pad, vocabulary.bos, vocabulary.eos, vocabulary.mask}
    names = (f"{piece} " if i in special else piece for i, piece in enumerate(vocabulary.pieces))  # no text has them
    pieces = [*zip(names, vocabulary.scores, strict=True)]
    tokenizer = t.Tokenizer(t.models.Unigram(pieces, unk_id=vocabulary.unk, byte_fallback=False))
    steps = [t.normalizers.Replace("``", '"'), t.normalizers.Replace("''", '"'), t.normalizers.NFKD()]
    steps += [t.normalizers.StripAccents()] if vocabulary.strip_accents is not False else []
    steps += [t.normalizers.Lowercase()] if vocabulary.lowercase else []
    if vocabulary.charsmap:
        steps.append(t.normalizers.Precompiled(base64.b64decode(vocabulary.charsmap)))
    tokenizer.normalizer = t.normalizers.Sequence(steps)
    metaspace = {"replacement": SPACE, "prepend_scheme": "always"}
    tokenizer.pre_tokenizer = t.pre_tokenizers.Sequence(
        [t.pre_tokenizers.WhitespaceSplit(), t.pre_tokenizers.Metaspace(**metaspace)]
    )
    tokenizer.decoder = t.decoders.Metaspace(**metaspace)
    return tokenizer


def read_imported(directory: Path) -> ImportedTokenizer:
    """The vocabulary of a model directory."""
    return ImportedTokenizer(read_regular_file(directory / FILE, _MAX_BYTES))


def written(vocabulary: ImportedVocabulary) -> bytes:
    """The content of the file."""
    return (json.dumps(vocabulary.model_dump(), ensure_ascii=False) + "\n").encode()

"""From files of running text to passages of ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from regard.data import Passages
from regard.data.masked_texts import Ids
from regard.errors import DataError, RunError
from regard.tasks.pretraining.sections import PretrainingDataConfig, TextFileConfig
from regard.tasks.task import OnProgress
from regard.tasks.vocabulary import digest
from regard.text import Tokenizer, fingerprint, held_out_share, is_held_out
from regard.text.documents import read_documents

SPLIT_SEED = 0  # the validation set does not change with the seed of a run, so that seeds can be compared
_DOCUMENTS_AT_A_TIME = 200


def text_key(data: PretrainingDataConfig) -> str:
    """The digest of all files; raises RunError if one has changed since the run began."""
    current = digest(*(fingerprint(file) for file in (*data.train, *data.validation)))
    if data.fingerprint not in (None, current):
        raise RunError(
            "the training text has changed since this run began",
            hint="restore the original files, or train in another directory",
        )
    return current


def documents_of(files: Sequence[TextFileConfig], data: PretrainingDataConfig) -> Iterator[list[str]]:
    """The sentences of each document."""
    return read_documents([file.text for file in files], data.document, data.on_bad)


def encode(
    files: Sequence[TextFileConfig],
    data: PretrainingDataConfig,
    tokenizer: Tokenizer,
    max_length: int,
    on_progress: OnProgress,
) -> Passages:
    """The passages of all documents of some files."""

    def ids() -> Iterator[list[Ids]]:
        documents, n_done = documents_of(files, data), 0
        while some := list(islice(documents, _DOCUMENTS_AT_A_TIME)):
            on_progress("encoding the text (documents)", n_done, None)
            encoded = iter(tokenizer.encode_many(sentence for document in some for sentence in document))
            for document in some:
                yield [np.array(sentence, dtype=np.int32) for sentence in islice(encoded, len(document))]
            n_done += len(some)

    return Passages.of(ids(), max_length)


def hold_out(passages: Passages, share: float | None) -> tuple[Passages, Passages]:
    """Passages for training and, at random, for validation; equal ones are all in the same part."""
    if share is None:
        share = held_out_share(len(passages))
    texts = (np.concatenate(passages.sentences(i)).tobytes().hex() for i in range(len(passages)))
    is_validation = np.array([is_held_out(text, share, SPLIT_SEED) for text in texts], dtype=bool)
    return passages.select(~is_validation), passages.select(is_validation)


def require_passages(name: str, passages: Passages, pairs: bool) -> None:
    """Raises DataError if there is nothing to learn, or no other document for a random next sentence."""
    if not len(passages):
        raise DataError(f"{name}: there is no text", hint="check the files and data.held_out")
    if pairs and len(np.unique(passages.documents)) < 2:
        raise DataError(
            f"{name} is one document, and the next sentence can only be learned from several",
            hint="put blank lines between documents, or set data.document, or --set model.next_sentence=false",
        )

"""From running text to passages of ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from regard.data import Passages
from regard.data.masked_texts import Ids
from regard.errors import DataError
from regard.tasks.task import OnProgress
from regard.text import Tokenizer

_DOCUMENTS_AT_A_TIME = 200


def encode(documents: Iterable[list[str]], tokenizer: Tokenizer, max_length: int, on_progress: OnProgress) -> Passages:
    """The passages of documents."""

    def ids() -> Iterator[list[Ids]]:
        remaining, n_done = iter(documents), 0
        while some := list(islice(remaining, _DOCUMENTS_AT_A_TIME)):
            on_progress("encoding the text (documents)", n_done, None)
            encoded = iter(tokenizer.encode_many(sentence for document in some for sentence in document))
            for document in some:
                yield [np.array(sentence, dtype=np.int32) for sentence in islice(encoded, len(document))]
            n_done += len(some)

    return Passages.of(ids(), max_length)


def require_passages(name: str, passages: Passages, pairs: bool) -> None:
    """Raises DataError if there is nothing to learn, or no other document for a random next sentence."""
    if not len(passages):
        raise DataError(f"{name}: there is no text in it", hint="name a file of text")
    if pairs and len(np.unique(passages.documents)) < 2:
        raise DataError(
            f"{name} is one document, and the next sentence can only be learned from several",
            hint="put blank lines between documents, or set data.document, or model.next_sentence=false",
        )

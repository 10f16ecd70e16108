"""Sentence pairs to measure heads on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data import Batch, collate_pairs
from regard.engines.torch_engine import batches_by_length
from regard.errors import UserError
from regard.text import Tokenizer, TokenizerPair, normalise

_MAX_TOKENS_PER_BATCH = 2048


@dataclass(frozen=True)
class EncodedPairs:
    """The usable pairs, as ids, and the reference texts."""

    ids: tuple[tuple[list[int], list[int]], ...]
    references: tuple[str, ...]
    n_left_out: int  # blank or too long

    @classmethod
    def of(
        cls, tokenizers: TokenizerPair, pairs: Sequence[tuple[str, str]], max_length: int, target: str | None
    ) -> EncodedPairs:
        """Skips blank and too long pairs, and counts them."""
        texts = [(normalise(source), normalise(reference)) for source, reference in pairs]
        sources = tokenizers.source.encode_many([source for source, _ in texts], tag=target)
        targets = tokenizers.target.encode_many([reference for _, reference in texts])
        usable = [
            i for i, text in enumerate(texts) if all(text) and max(len(sources[i]), len(targets[i])) <= max_length
        ]
        if not usable:
            raise UserError(
                "there are no sentence pairs to measure heads on",
                hint=f"all {len(pairs)} pairs are blank or longer than {max_length} sub-words",
            )
        return cls(
            tuple((sources[i], targets[i]) for i in usable),
            tuple(texts[i][1] for i in usable),
            n_left_out=len(pairs) - len(usable),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def batches(self, tokenizer: Tokenizer, pad_id: int) -> list[Batch]:
        """Batches of pairs of similar length; `indices` are positions in this object."""
        lengths = [max(len(source), len(target)) + 1 for source, target in self.ids]
        return [
            collate_pairs(
                [self.ids[i] for i in indices],
                pad_id=pad_id,
                bos_id=tokenizer.bos_id,
                eos_id=tokenizer.eos_id,
                indices=np.array(indices),
            )
            for indices in batches_by_length(lengths, _MAX_TOKENS_PER_BATCH)
        ]

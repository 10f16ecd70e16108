"""Compares an exported directory with the original, by the code of Hugging Face transformers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.interop.original import Original
from regard.interop.probe import IMPOSSIBLE, MAX_DIFFERENCE
from regard.text.vocabulary import BOS_ID, EOS_ID, PAD_ID

_BATCH = 20  # lines


def check_huggingface(
    original: Original, directory: Path, their_order: Sequence[int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What was verified, and what was not. `their_order` has our id for each of theirs."""
    if find_spec("transformers") is None:
        return (), ("transformers is not installed, so the directory was not loaded (pip install transformers)",)
    with _quiet():
        return _check(original, directory, their_order), ()


@contextmanager
def _quiet() -> Iterator[None]:
    """transformers prints progress bars, warnings, and advice about settings."""
    from transformers import utils

    logging: Any = utils.logging

    verbosity, show_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if show_bars:
            logging.enable_progress_bar()


@torch.inference_mode()
def _check(original: Original, directory: Path, their_order: Sequence[int]) -> tuple[str, ...]:
    import transformers

    original.report("loading it with transformers", 0, None)
    software, probe = f"transformers {transformers.__version__}", original.probe
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory, local_files_only=True)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory, local_files_only=True).eval()
    our_id = torch.tensor(their_order)
    n_equal = _equal_ids(original, tokenizer, our_id)
    probe.require(n_equal == len(probe.lines), software, f"gives other ids to {len(probe.lines) - n_equal} lines")
    difference = _difference(original, theirs, our_id)
    probe.require(difference <= MAX_DIFFERENCE, software, f"computes log-probabilities that differ by {difference:.1g}")
    translated = probe.compare(_translate(original, theirs, our_id), software)
    return (
        f"{software}: the ids of {n_equal} of {len(probe.lines)} {probe.origin}, log-probabilities within "
        f"{difference:.0e}, {translated}",
    )


def _equal_ids(original: Original, tokenizer: Any, our_id: Tensor) -> int:
    """Lines with the same ids, on either side."""
    probe, tokenizers = original.probe, original.loaded.tokenizers
    prefix = "" if probe.tag is None else f">>{probe.tag}<<"
    theirs = tokenizer([prefix + line for line in probe.lines])["input_ids"]
    their_targets = tokenizer(text_target=probe.lines)["input_ids"]
    ours = tokenizers.source.encode_many(probe.lines, tag=probe.tag)
    our_targets = tokenizers.target.encode_many(probe.lines)
    source_id = our_id if tokenizers.joint else torch.arange(tokenizers.source.size)
    return sum(
        [*source, EOS_ID] == source_id[their_source].tolist() and [*target, EOS_ID] == our_id[their_target].tolist()
        for source, target, their_source, their_target in zip(ours, our_targets, theirs, their_targets, strict=True)
    )


def _difference(original: Original, theirs: Any, our_id: Tensor) -> float:
    """The largest difference between log-probabilities, on padded batches; padding and begin are never predicted."""
    probe, largest = original.probe, 0.0
    compared = [i for i in range(len(our_id)) if int(our_id[i]) not in (PAD_ID, BOS_ID)]
    for start in range(0, len(probe.sources), _BATCH):
        original.report("comparing probabilities", start, len(probe.sources))
        sources, mask = _their_sources(original, probe.sources[start : start + _BATCH], our_id)
        targets = [list(found.ids) for found in probe.hypotheses[start : start + _BATCH]]
        src = padded([[*ids, EOS_ID] for ids in probe.sources[start : start + _BATCH]], PAD_ID)
        tgt = padded([[BOS_ID, *ids] for ids in targets], PAD_ID)
        real = tgt != PAD_ID
        ours = original.model(src, tgt)[real][:, our_id[compared]].log_softmax(-1)
        their_tgt = their_ids(tgt, our_id)
        their_tgt[:, 0] = theirs.config.decoder_start_token_id
        logits = theirs(input_ids=sources, attention_mask=mask, decoder_input_ids=their_tgt).logits
        differences = (logits[real][:, compared].log_softmax(-1) - ours).abs()
        largest = max(largest, float(differences[ours > IMPOSSIBLE].max()))
    return largest


def _translate(original: Original, theirs: Any, our_id: Tensor) -> list[list[int]]:
    """Greedy translations, as our ids without the begin and end tokens."""
    probe, translations = original.probe, []
    for start in range(0, len(probe.sources), _BATCH):
        original.report("translating with transformers", start, len(probe.sources))
        ids, mask = _their_sources(original, probe.sources[start : start + _BATCH], our_id)
        limit = max(probe.limits[start : start + _BATCH])
        settings: dict[str, Any] = {"num_beams": 1, "do_sample": False, "max_new_tokens": limit, "length_penalty": 1.0}
        for row in theirs.generate(input_ids=ids, attention_mask=mask, **settings)[:, 1:]:
            translations.append(until_end(our_id[row].tolist()))
    return translations


def until_end(ids: list[int]) -> list[int]:
    return ids[: ids.index(EOS_ID)] if EOS_ID in ids else ids


def _their_sources(original: Original, sources: Sequence[Sequence[int]], our_id: Tensor) -> tuple[Tensor, Tensor]:
    src = padded([[*ids, EOS_ID] for ids in sources], PAD_ID)
    same_ids = not original.loaded.tokenizers.joint  # vocabularies of their own keep our order
    return src if same_ids else their_ids(src, our_id), (src != PAD_ID).long()


def their_ids(ids: Tensor, our_id: Tensor) -> Tensor:
    """Where several of our symbols are one of theirs, the others become padding."""
    theirs = torch.full((int(our_id.max()) + 1,), int((our_id == PAD_ID).nonzero()[0, 0]))
    theirs[our_id] = torch.arange(len(our_id))
    return theirs[ids]


def padded(rows: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """(B, longest row)."""
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, pad_id)

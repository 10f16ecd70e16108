"""What a translation model records in a trace: from one pass over a dummy pair, so that nothing is declared twice."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch

from regard.models.base import TranslationModel
from regard.nn import Site, Trace

_sites: WeakKeyDictionary[TranslationModel, tuple[Site, ...]] = WeakKeyDictionary()


def model_sites(model: TranslationModel) -> tuple[Site, ...]:
    """The sites of a model, in the order of computation. The shapes are those of one source and one target token."""
    if model not in _sites:
        trace, token = Trace(), 1 if model.pad_id == 0 else 0
        ids = torch.full((1, 1), token, device=model.output_weight.device)
        with torch.inference_mode(), torch.random.fork_rng(devices=[]):  # dropout may draw random numbers
            model(ids, ids, trace)
        _sites[model] = trace.sites()
    return _sites[model]


def attention_sites(sites: tuple[Site, ...], rows: str, columns: str) -> list[Site]:
    """The attention of these rows to these columns: one site per layer."""
    return [site for site in sites if site.kind == "attention" and site.axes == ("head", rows, columns)]

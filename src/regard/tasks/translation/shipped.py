"""Measures a finished translator with the files that are shipped: against its exact weights, and against its parent."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from regard.artifact import Description, LoadedModel, search_options
from regard.data import TokenStore
from regard.engines.ctranslate2.convert import SUBDIRECTORY
from regard.engines.ctranslate2.engine import CTranslate2Engine
from regard.engines.engine import Engine, load_engine, shipped_precision
from regard.engines.torch_engine import TorchEngine
from regard.evaluate.measures import build_measures
from regard.evaluate.significance import DEFAULT_SEED, p_value, swapped_sums
from regard.tasks.translation.scores import first_pairs
from regard.text import TokenizerPair

MAX_BLEU_LOST = 0.5  # by int8; if it loses more, float32 is the default
COMPARED_PAIRS = 500  # held-out pairs that are translated before and after fine-tuning
N_SHUFFLES = 2_000


def precision_facts(loaded: LoadedModel, directory: Path, store: TokenStore, n: int) -> dict[str, Any]:
    """How many validation lines int8 translates as float32 does, what it costs in BLEU, and which is the default."""
    if not (directory / SUBDIRECTORY).exists():
        return {}
    sources, references = first_pairs(store, loaded.tokenizers, n)
    exact, quantized = (
        _translate(CTranslate2Engine(directory / SUBDIRECTORY, compute_type=precision), loaded, sources)
        for precision in ("float32", "int8")
    )
    measure = build_measures([references]).bleu
    difference = measure.measure(quantized).value - measure.measure(exact).value
    n_equal = sum(a == b for a, b in zip(exact, quantized, strict=True))
    return {
        "precision": "int8" if difference >= -MAX_BLEU_LOST else "float32",
        "int8": {"n": len(sources), "equal": n_equal / len(sources), "bleu": difference},
    }


def fine_tuning_facts(
    loaded: LoadedModel, directory: Path, parent: Description, stores: dict[str, TokenStore | None]
) -> dict[str, Any]:
    """BLEU of the parent and of the new model on the same held-out lines of each store, with paired significance."""
    results = {}
    with closing(load_engine(parent, "auto", shipped_precision(parent.facts), None)) as before:
        for name, store in stores.items():
            if store is None or not len(store):
                continue
            sources, references = first_pairs(store, loaded.tokenizers, COMPARED_PAIRS)
            old = _texts(before, parent.facts, parent.tokenizers, sources)
            results[name] = _change(old, _translate(_engine(loaded, directory), loaded, sources), references)
    return {"fine_tuning": results}


def _change(before: Sequence[str], after: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """BLEU of both, and p by approximate randomisation."""
    bleu = build_measures([references]).bleu
    old, new = bleu.measure(before), bleu.measure(after)
    shuffled = swapped_sums(old.statistics, new.statistics, N_SHUFFLES, DEFAULT_SEED)
    trials = abs(bleu.values(shuffled[1]) - bleu.values(shuffled[0]))
    p = p_value(trials, abs(new.value - old.value))
    return {"n": len(references), "before": old.value, "after": new.value, "p": p}


def _engine(loaded: LoadedModel, directory: Path) -> Engine:
    """The one that `regard translate` will choose."""
    if (directory / SUBDIRECTORY).exists():
        return CTranslate2Engine(directory / SUBDIRECTORY, compute_type=shipped_precision(loaded.facts))
    return TorchEngine(loaded, torch.device("cpu"))


def _translate(engine: Engine, loaded: LoadedModel, sources: list[list[int]]) -> list[str]:
    with closing(engine):
        return _texts(engine, loaded.facts, loaded.tokenizers, sources)


def _texts(engine: Engine, facts: dict[str, Any], tokenizers: TokenizerPair, sources: list[list[int]]) -> list[str]:
    return [
        tokenizers.target.decode(hypotheses[0].ids) for hypotheses in engine.translate(sources, search_options(facts))
    ]

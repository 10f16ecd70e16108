"""A training small enough to run dozens of times: reversed numbers, a model with a few thousand weights."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from regard.data import Loader, PairCollator, TokenStore, build_store, fixed_order
from regard.data.shards import ShardedStore, ShardEntry, ShardIndex, shard_path
from regard.metrics import Measure
from regard.models import Model, ModelSpec, TransformerConfig
from regard.training import Checkpoints, Training, TrainingConfig, Validation, Workers
from regard.training.gradients.two_processes import TwoProcesses
from regard.training.validation import score_terms

N_SYMBOLS = 20
Maker = Callable[..., Training]


def _encode(pairs: list[tuple[str, str, int]]) -> tuple[list[list[int]], list[list[int]]]:
    sources, targets = ([[int(word) for word in pair[side].split()] for pair in pairs] for side in (0, 1))
    return sources, targets


def _store(directory: Path, n_pairs: int, seed: int) -> TokenStore:
    rng = Random(seed)
    pairs = []
    for _ in range(n_pairs):
        words = [str(rng.randint(4, N_SYMBOLS - 1)) for _ in range(rng.randint(2, 8))]
        pairs.append((" ".join(words), " ".join(reversed(words)), 0))
    return build_store(directory, pairs, _encode, max_length=30, vocab_size=N_SYMBOLS, key="k")


def _shards(directory: Path) -> ShardedStore:
    """Seven shards in windows of two."""
    entries = []
    for number in range(7):
        path = shard_path(directory, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        _store(path, 20 + number, seed=number)
        entry = ShardEntry.of(path, "k")
        assert entry is not None
        entries.append(entry)
    return ShardedStore(directory, ShardIndex("k", tuple(entries), 2, (1.0,), 30, N_SYMBOLS, {}, {}, ()))


def _resample(sentences: list[list[int]], seed: int) -> list[list[int]]:
    """A stand-in for sub-word sampling that sometimes repeats a token."""
    rng = Random(seed)
    return [[token for token in ids for _ in range(1 + (rng.random() < 0.2))] for ids in sentences]


@pytest.fixture
def make_training(tmp_path: Path) -> Iterator[Maker]:
    """Builds a training in a directory of this name; the same name again finds the earlier checkpoints."""
    to_close: list[Training] = []
    train, validation = _store(tmp_path / "train", 150, 1), _store(tmp_path / "validation", 20, 2)

    def make(
        name: str, *, dropout: float = 0.0, sampling: bool = False, two_processes: bool = False,
        workers: Workers | None = None, shards: bool = False, **values: Any,
    ) -> Training:  # fmt: skip
        config = TrainingConfig.model_validate(
            {"steps": 20, "max_tokens": 100, "save_every": 5, "validate_every": 5, "rate": 0.01, "warmup": 4} | values
        )
        resample = _resample if sampling else None
        ids = {"pad_id": 0, "bos_id": 2, "eos_id": 3}
        pairs = _shards(tmp_path / "shards") if shards else train
        collate = PairCollator(store=pairs, **ids, resample_source=resample, resample_target=resample)
        loader = Loader(
            examples=pairs, collate=collate, max_tokens=config.max_tokens, seed=config.seed,
            n_batches=config.n_batches,
        )  # fmt: skip
        device = torch.device("cpu")

        def validate(model: Model) -> Validation:
            batches = fixed_order(validation, PairCollator(store=validation, **ids), config.max_tokens)
            tokens = score_terms(model, batches, device)["tokens"]
            return Validation({"loss": tokens.loss, "accuracy": tokens.accuracy})

        torch.manual_seed(config.seed)
        shape = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2}
        sizes = {"n_src_symbols": N_SYMBOLS, "n_tgt_symbols": N_SYMBOLS, "pad_id": 0}
        spec = ModelSpec("translation", "transformer", TransformerConfig(**shape, dropout=dropout), sizes)
        n_best = config.average if config.average_of == "best" else 1
        pins = config.budget_seconds is not None
        checkpoints = Checkpoints(tmp_path / name, keep_last=max(2, config.average), keep_best=n_best, pins=pins)
        measures = Measure("loss", "loss", 3, False), Measure("accuracy", "accuracy", 1, True, is_share=True)
        training = Training(
            config=config, spec=spec, model=spec.build(), loader=loader, validate=validate, measures=measures,
            device=device, workers=workers or Workers(), checkpoints=checkpoints, identity={"recipe": "this one"},
        )  # fmt: skip
        if two_processes:
            training.gradients = TwoProcesses(config, spec, training.model, n_threads_each=1)
            to_close.append(training)
        return training

    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a model is slower with more
    yield make
    torch.set_num_threads(n_threads)
    for training in to_close:
        training.close()

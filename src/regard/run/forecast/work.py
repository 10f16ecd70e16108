"""The operations of a training, from the formulas of the model and the real lengths of the examples."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from regard.data.shards import ShardedStore
from regard.models import Model
from regard.run.build import PreparedRun
from regard.training.optimizers import NEWTON_SCHULZ_STEPS, declared_matrices

MAX_BATCHES = 400  # of an epoch: with more, a sample of them is counted
MAX_LENGTHS = 200  # different lengths whose cost is computed; with more, a polynomial is fitted to that many

Shape = tuple[int, ...]  # lengths of an example, as in `Model.cost`


class Work(NamedTuple):
    """Of one step; all but the last two are means over the batches of an epoch."""

    flops: float  # of the products that are learned from, forward and backward
    padded_flops: float  # with those of padding
    optimizer_flops: int  # of Muon's own products
    n_tokens: float  # of the last side: target tokens of a translation; examples, if they have no length
    n_examples: float
    steps_per_epoch: int
    heaviest: NDArray[np.integer]  # the examples of the batch with the most operations
    heaviest_flops: float  # of that batch, with padding

    @property
    def computed_flops(self) -> float:
        """Everything that a step computes."""
        return self.padded_flops + self.optimizer_flops


def measure_work(prepared: PreparedRun, scale: float = 1.0) -> Work:
    """`scale`: the number of examples of the whole text, divided by that of the prepared ones."""
    config, order = prepared.recipe.training, prepared.loader.epoch_order(0)
    train, all_lengths = prepared.data.train, prepared.data.cost_lengths
    numbers = None
    if isinstance(train, ShardedStore):  # estimated from one window
        window = train.window(config.seed, 0, 0)
        numbers, all_lengths = window.numbers, tuple(side + 1 for side in window.lengths)
        scale *= len(train) / len(numbers)
        ranks = np.argsort(numbers)
        order = replace(order, pairs=ranks[np.searchsorted(numbers, order.pairs, sorter=ranks)])
    model = prepared.spec.outline()
    lengths = np.stack([np.asarray(side, dtype=np.int64) for side in all_lengths], 1)  # (N, sides)
    if model.cost_lengths is not None:
        lengths = np.tile(model.cost_lengths, (len(lengths), 1))
    rng = np.random.default_rng(config.seed)
    chosen = np.arange(len(order))
    if scale > 1 and len(order) > 2:  # two batches of an epoch are not full; of a part of the text, that is too many
        chosen = np.flatnonzero((order.starts > 0) & (order.ends < len(order.pairs)))
    if len(chosen) > MAX_BATCHES:
        chosen = rng.choice(chosen, MAX_BATCHES, replace=False)
    batches = [order[int(number)] for number in chosen]
    widest = np.stack([lengths[batch].max(0) for batch in batches])  # (n_batches, sides)
    counts = np.array([len(batch) for batch in batches])
    examples = np.concatenate(batches)
    costs = _costs(model, np.concatenate([lengths[examples], widest]))  # (n, 2): of training, and of its outputs
    real, padded = costs[: len(examples)], costs[len(examples) :]
    outputs = np.add.reduceat(real[:, 1], np.concatenate([[0], counts.cumsum()[:-1]]))  # (n_batches,)
    with_padding = counts * (padded[:, 0] - padded[:, 1]) + outputs
    passes, n = 2 if config.r_drop else 1, len(batches)
    heaviest = batches[int(with_padding.argmax())]
    per_step = passes * config.n_batches / n
    return Work(
        flops=per_step * float(real[:, 0].sum()),
        padded_flops=per_step * float(with_padding.sum()),
        optimizer_flops=muon_flops(model) if config.optimizer == "muon" else 0,
        n_tokens=config.n_batches / n * float(lengths[examples][:, -1].sum()),
        n_examples=config.n_batches / n * float(counts.sum()),
        steps_per_epoch=max(1, round(scale * len(order)) // config.n_batches),
        heaviest=heaviest if numbers is None else numbers[heaviest],
        heaviest_flops=passes * float(with_padding.max()),
    )


def muon_flops(model: nn.Module) -> int:
    """Of the Newton–Schulz iterations of one step: X Xᵀ, its square, and its product with X, for R × C matrices."""
    total = 0
    for parameter, n_parts in declared_matrices(model).items():
        rows, columns = sorted((parameter.shape[0] // n_parts, parameter.shape[1]))
        total += n_parts * NEWTON_SCHULZ_STEPS * (4 * rows**2 * columns + 2 * rows**3)
    return total


def _costs(model: Model, lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n, sides) → (n, 2): FLOPs of training with an example of these lengths, and those of its outputs alone."""
    different, inverse = np.unique(lengths, axis=0, return_inverse=True)
    if len(different) <= MAX_LENGTHS:
        return _computed(model, different)[inverse.reshape(-1)]
    # the formulas are polynomials of degree 2, or nearly so
    known = np.concatenate([different[:: len(different) // MAX_LENGTHS], different.max(0)[None]])
    coefficients, *_ = np.linalg.lstsq(_powers(known), _computed(model, known), rcond=None)
    return np.asarray(_powers(lengths) @ coefficients)


def _computed(model: Model, lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    costs = [model.cost(*map(int, shape)) for shape in lengths]
    return np.array([(cost.training_flops, 3 * cost.output) for cost in costs], dtype=np.float64)


def _powers(lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    x = lengths.astype(np.float64)
    products = [x[:, i] * x[:, j] for i in range(x.shape[1]) for j in range(i + 1)]
    return np.stack([np.ones(len(x)), *x.T, *products], 1)


def is_sequential(model: Model, shape: Shape) -> bool:
    """Whether longer texts take more steps that wait for one another, as in a recurrence."""
    return model.cost(*(2 * n for n in shape)).sequential > model.cost(*shape).sequential

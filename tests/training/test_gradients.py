"""Forward and backward in two halves: the same gradient, the same every time, and errors that arrive."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data import Batch, Cursor, updates
from regard.errors import RunError
from regard.models import Transformer, TransformerConfig
from regard.training import Training, TrainingConfig
from regard.training.gradients import Apart, Gradients, Together, make_gradients
from regard.training.objectives import Outcome, cross_entropy, r_drop

Maker = Callable[..., Training]
CPU = torch.device("cpu")


def first_batch(training: Training) -> Batch:
    return next(updates(training.store, training.stream, Cursor()))[0][0]


def one_row(batch: Batch) -> Batch:
    return Batch(
        batch.src[:1], batch.tgt_in[:1], batch.tgt_out[:1], int((batch.tgt_out[:1] != 0).sum()), batch.indices[:1]
    )


def found_by(
    gradients: Gradients, model: Transformer, batch: Batch, times: int = 1
) -> tuple[float, float, list[Tensor]]:
    model.zero_grad(set_to_none=True)
    torch.manual_seed(5)
    for _ in range(times):
        sums = gradients(batch, batch.n_tokens)
    return *sums, [one.grad for one in model.parameters() if one.grad is not None]


@pytest.mark.parametrize("objective", [cross_entropy(0.1), r_drop(0.1, 5.0)])
@pytest.mark.parametrize("rows", ["all", "one"])
@pytest.mark.parametrize("times", [1, 2])  # 2: of an update of two batches
def test_two_halves_find_the_gradient_of_the_whole(
    make_training: Maker, objective: Callable[..., Outcome], rows: str, times: int
) -> None:
    training = make_training("a")
    batch, model = first_batch(training), training.model
    batch = batch if rows == "all" else one_row(batch)
    loss, nll, gradients = found_by(Together(training.config, model, objective, CPU), model, batch, times)
    loss_apart, nll_apart, apart = found_by(Apart(training.config, model, objective, 1), model, batch, times)
    assert (loss_apart, nll_apart) == pytest.approx((loss, nll), rel=1e-5)
    assert len(apart) == len(gradients) > 10
    for one, other in zip(gradients, apart, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-6)


def test_with_dropout_two_halves_find_the_same_gradient_every_time(make_training: Maker) -> None:
    training = make_training("a", dropout=0.3)
    batch, model = first_batch(training), training.model
    gradients = Apart(training.config, model, cross_entropy(0.1), 1)
    first = found_by(gradients, model, batch)
    for _ in range(10):
        again = found_by(gradients, model, batch)
        assert again[:2] == first[:2]
        assert all(torch.equal(one, other) for one, other in zip(again[2], first[2], strict=True))


def test_the_halves_do_not_share_a_mask() -> None:
    """Two equal sentences, one in each half: had they the same mask they would have the same loss."""
    torch.manual_seed(1)
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=16, d_ff=32, n_heads=2, dropout=0.5)
    model = Transformer(config, 20, 20).train()
    ids = torch.tensor([[4, 5, 6, 3]] * 2)
    batch = Batch(ids, ids, ids, 8, torch.arange(2).numpy())
    seen: list[float] = []

    def watched(model: Any, batch: Batch) -> Outcome:
        outcome = cross_entropy(0.0)(model, batch)
        seen.append(float(outcome.nll))
        return outcome

    Apart(TrainingConfig(), model, watched, 1)(batch, 8)
    assert len(seen) == 2
    assert seen[0] != seen[1]


@pytest.mark.parametrize(
    ("d_model", "n_threads", "kind"), [(256, 2, Apart), (256, 1, Together), (256, 3, Together), (128, 2, Together)]
)
def test_wide_models_are_trained_apart_where_the_threads_can_be_halved(
    monkeypatch: pytest.MonkeyPatch, d_model: int, n_threads: int, kind: type
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=d_model, d_ff=4, n_heads=2)
    model, objective = Transformer(config, 20, 20), cross_entropy(0.1)
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    assert type(make_gradients(TrainingConfig(), model, objective, CPU)) is kind
    assert type(make_gradients(TrainingConfig(), model, objective, torch.device("meta"))) is Together


def test_each_half_has_its_threads_and_everybody_else_the_usual_number(make_training: Maker) -> None:
    training = make_training("a")
    n_threads = torch.get_num_threads()
    seen: list[int] = []

    def watched(model: Any, batch: Batch) -> Outcome:
        outcome = cross_entropy(0.1)(model, batch)
        seen.append(torch.get_num_threads())
        return outcome

    gradients = Apart(training.config, training.model, watched, n_threads_each=n_threads + 1)
    gradients(first_batch(training), 10)
    assert seen == [n_threads + 1] * 2
    with ThreadPoolExecutor(1) as newcomer:
        assert newcomer.submit(torch.get_num_threads).result() == torch.get_num_threads() == n_threads


@pytest.fixture(params=["together", "apart"])
def failing(request: pytest.FixtureRequest, make_training: Maker) -> Callable[[RuntimeError], None]:
    """Takes the gradient of a batch with an objective that raises this."""

    def take(error: RuntimeError) -> None:
        def objective(*_: Any) -> Outcome:
            raise error

        training = make_training("a")
        gradients: Gradients = Together(training.config, training.model, objective, CPU)
        if request.param == "apart":
            gradients = Apart(training.config, training.model, objective, 1)
        gradients(first_batch(training), 10)

    return take


@pytest.mark.parametrize(
    "error", [RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), torch.OutOfMemoryError("full")]
)
def test_too_little_memory_is_said_in_one_line(failing: Callable[[RuntimeError], None], error: RuntimeError) -> None:
    with pytest.raises(
        RunError, match=r"not enough memory on the cpu .*; hint: lower training.max_tokens \(it is 100\)"
    ):
        failing(error)


def test_another_error_of_torch_is_not_taken_for_too_little_memory(failing: Callable[[RuntimeError], None]) -> None:
    with pytest.raises(RuntimeError, match="mat1"):
        failing(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))

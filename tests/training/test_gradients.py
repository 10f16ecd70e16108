"""Forward and backward in two halves: the same gradient, the same every time, and errors that arrive."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data import Batch, Cursor, updates
from regard.errors import RunError
from regard.models import Transformer, TransformerConfig
from regard.training import Training, TrainingConfig
from regard.training.gradients import two_processes
from regard.training.gradients.gradients import (
    APART_FROM,
    Apart,
    Gradients,
    Sums,
    Together,
    _every_second,
    make_gradients,
)
from regard.training.gradients.two_processes import Helper
from regard.training.gradients.worker import answer
from regard.training.objectives import Outcome, make_objective

Maker = Callable[..., Training]
CPU = torch.device("cpu")
helped = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="batches are not halved on this system")


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


@helped
@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_two_halves_find_the_gradient_of_the_whole(make_training: Maker, r_drop: float) -> None:
    training = make_training("a", r_drop=r_drop)
    whole, model = first_batch(training), training.model
    together = Together(training.config, model, make_objective(training.config), CPU)
    with closing(Apart(training.config, model, 1)) as halves:
        for batch in (whole, one_row(whole)):
            for times in (1, 2):  # 2: of an update of two batches
                loss, nll, gradients = found_by(together, model, batch, times)
                loss_apart, nll_apart, apart = found_by(halves, model, batch, times)
                assert (loss_apart, nll_apart) == pytest.approx((loss, nll), rel=1e-5)
                assert len(apart) == len(gradients) > 10
                for one, other in zip(gradients, apart, strict=True):
                    torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-6)


@helped
@pytest.mark.parametrize("shape", [{"tie": "none"}, {"tie": "target"}, {"positions": "learned", "norm": "pre"}])
def test_the_other_half_has_the_same_model_of_every_kind(shape: dict[str, str]) -> None:
    sizes = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2, "dropout": 0.0}
    n_src, n_tgt = (30, 20) if shape.get("tie") else (20, 20)
    model = Transformer(TransformerConfig.model_validate(sizes | shape), n_src, n_tgt).train()
    ids = torch.tensor([[4, 5, 6, 3], [7, 8, 3, 0], [9, 3, 0, 0]])
    batch, config = Batch(ids, ids, ids, 9, torch.arange(3).numpy()), TrainingConfig()
    whole = found_by(Together(config, model, make_objective(config), CPU), model, batch)
    with closing(Apart(config, model, 1)) as gradients:
        halves = found_by(gradients, model, batch)
    assert halves[:2] == pytest.approx(whole[:2], rel=1e-5)
    for one, other in zip(whole[2], halves[2], strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-6)


@helped
def test_both_halves_are_in_bfloat16_and_find_the_gradient_of_the_whole(make_training: Maker) -> None:
    training = make_training("a", precision="bfloat16")
    batch, model = first_batch(training), training.model
    exact, rounded = (
        Together(config, model, make_objective(config), CPU) for config in (TrainingConfig(), training.config)
    )

    def found(way: Gradients, part: Batch) -> Tensor:
        model.zero_grad(set_to_none=True)
        way(part, batch.n_tokens)
        return torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])

    with closing(Apart(training.config, model, 1)) as halves:
        whole, apart = found(exact, batch), found(halves, batch)
    mine, theirs = (_every_second(batch, first, model.pad_id) for first in range(2))
    both, one_alone = (found(rounded, mine) + found(way, theirs) for way in (rounded, exact))
    assert apart.dtype == torch.float32
    assert torch.cosine_similarity(whole, apart, dim=0) > 0.99
    assert float((apart - both).norm()) < 0.01 * float((apart - one_alone).norm())


@helped
def test_with_dropout_two_halves_find_the_same_gradient_every_time(make_training: Maker) -> None:
    training = make_training("a", dropout=0.3)
    batch, model = first_batch(training), training.model
    with closing(Apart(training.config, model, 1)) as gradients:
        first = found_by(gradients, model, batch)
        for _ in range(10):
            again = found_by(gradients, model, batch)
            assert again[:2] == first[:2]
            assert all(torch.equal(one, other) for one, other in zip(again[2], first[2], strict=True))


@helped
def test_the_halves_do_not_share_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two equal sentences, one in each half: had they the same mask they would have the same loss."""
    torch.manual_seed(1)
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=16, d_ff=32, n_heads=2, dropout=0.5)
    model = Transformer(config, 20, 20).train()
    ids = torch.tensor([[4, 5, 6, 3]] * 2)
    own: list[Sums] = []

    def watched(self: Together, batch: Batch, n_tokens: int, of: Any = Together.__call__) -> Sums:
        own.append(of(self, batch, n_tokens))
        return own[-1]

    monkeypatch.setattr(Together, "__call__", watched)
    with closing(Apart(TrainingConfig(), model, 1)) as gradients:
        both = gradients(Batch(ids, ids, ids, 8, torch.arange(2).numpy()), 8)
    assert len(own) == 1
    assert abs(both.nll - 2 * own[0].nll) > 1e-3


@helped
def test_the_other_half_sees_the_weights_as_they_are_now(make_training: Maker) -> None:
    training = make_training("a")
    batch, model = first_batch(training), training.model
    with closing(Apart(training.config, model, 1)) as gradients:
        before = found_by(gradients, model, batch)[0]
        with torch.no_grad():
            for one in model.parameters():
                one.mul_(0.5)
        after = found_by(gradients, model, batch)[0]
    together = Together(training.config, model, make_objective(training.config), CPU)
    assert after == pytest.approx(found_by(together, model, batch)[0], rel=1e-5)
    assert after != pytest.approx(before, rel=1e-3)


@helped
@pytest.mark.parametrize(
    ("n_parameters", "n_threads", "kind"),
    [(APART_FROM, 2, Apart), (APART_FROM, 1, Together), (APART_FROM, 3, Together), (APART_FROM - 1, 2, Together)],
)
def test_models_of_some_size_are_trained_apart_where_the_threads_can_be_halved(
    monkeypatch: pytest.MonkeyPatch, n_parameters: int, n_threads: int, kind: type
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(Transformer, "n_parameters", n_parameters)
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=4, d_ff=4, n_heads=2)
    model = Transformer(config, 20, 20)
    with closing(make_gradients(TrainingConfig(), model, CPU)) as gradients:
        assert type(gradients) is kind
    with closing(make_gradients(TrainingConfig(), model, torch.device("meta"))) as gradients:
        assert type(gradients) is Together


def of_some_size(monkeypatch: pytest.MonkeyPatch) -> Transformer:
    """Says that it is worth a helper, on a machine that says it has two cores."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(Transformer, "n_parameters", APART_FROM)
    return Transformer(TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=4, d_ff=4, n_heads=2), 20, 20)


@helped
@pytest.mark.parametrize("oddity", ["frozen", "double", "one core", "no process"])
def test_where_no_helper_can_help_all_threads_go_together(monkeypatch: pytest.MonkeyPatch, oddity: str) -> None:
    model = of_some_size(monkeypatch)
    if oddity == "frozen":
        next(model.parameters()).requires_grad_(False)
    elif oddity == "double":
        model.double()
    elif oddity == "one core":
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    else:

        def refuse(*_: Any, **__: Any) -> None:
            raise BlockingIOError("too many processes")

        monkeypatch.setattr(subprocess, "Popen", refuse)
    with closing(make_gradients(TrainingConfig(), model, CPU)) as gradients:
        assert type(gradients) is Together


@helped
def test_each_half_has_its_threads_and_everybody_else_the_usual_number(
    monkeypatch: pytest.MonkeyPatch, make_training: Maker
) -> None:
    training = make_training("a")
    n_threads = torch.get_num_threads()
    seen: list[int] = []

    def watched(self: Together, batch: Batch, n_tokens: int, of: Any = Together.__call__) -> Sums:
        seen.append(torch.get_num_threads())
        return of(self, batch, n_tokens)

    monkeypatch.setattr(Together, "__call__", watched)
    with closing(Apart(training.config, training.model, n_threads_each=n_threads + 1)) as gradients:
        gradients(first_batch(training), 10)
    assert seen == [n_threads + 1]
    assert torch.get_num_threads() == n_threads


@helped
def test_a_helper_that_was_killed_is_said_in_one_line(make_training: Maker) -> None:
    training = make_training("a")
    batch = first_batch(training)
    with closing(Apart(training.config, training.model, 1)) as gradients:
        gradients(batch, batch.n_tokens)
        os.kill(gradients.helper_pid, signal.SIGKILL)
        with pytest.raises(
            RunError, match=r"half of every batch has ended \(signal 9\); hint: .*goes on from the last"
        ):
            for _ in range(2):  # what it was asked before it died may still go through
                gradients(batch, batch.n_tokens)


@helped
def test_signals_for_the_whole_group_leave_the_helper_to_the_training(
    monkeypatch: pytest.MonkeyPatch, make_training: Maker
) -> None:
    """Ctrl-C reaches both, and so does a service manager's SIGTERM: the training still takes and saves its step."""
    training = make_training("a")
    batch = first_batch(training)
    started: list[int] = []

    def interrupted(self: Helper, of: Any = Helper._start) -> None:
        of(self)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(self.pid, number)  # at once, while it still loads torch
        started.append(self.pid)

    monkeypatch.setattr(Helper, "_start", interrupted)
    with closing(Apart(training.config, training.model, 1)) as gradients:
        os.kill(started[0], signal.SIGINT)
        assert gradients(batch, batch.n_tokens).loss > 0


PARENT = """
import os, sys, torch
from regard.models import Transformer, TransformerConfig
from regard.training import TrainingConfig
from regard.training.gradients.gradients import Apart
config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=16, d_ff=32, n_heads=2)
gradients = Apart(TrainingConfig(), Transformer(config, 20, 20), 1)
print(gradients.helper_pid, flush=True)
sys.stdin.read()
"""


@helped
def test_a_helper_does_not_outlive_a_training_that_was_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    give_up_at = monotonic() + 30
    while _runs(pid) and monotonic() < give_up_at:
        sleep(0.05)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] != "Z"
    except OSError:
        return False


@helped
def test_a_helper_that_fails_says_why_in_one_line(monkeypatch: pytest.MonkeyPatch, make_training: Maker) -> None:
    training = make_training("a")
    monkeypatch.setattr(TrainingConfig, "model_dump", lambda self, mode: {"steps": "many"})
    with pytest.raises(RunError, match="half of every batch failed: ValidationError") as error:
        Apart(training.config, training.model, 1)
    assert "\n" not in str(error.value)


@helped
def test_after_an_error_in_its_own_half_no_old_answer_is_taken_for_a_new_one(
    monkeypatch: pytest.MonkeyPatch, make_training: Maker
) -> None:
    training = make_training("a")
    batch = first_batch(training)
    gradients = Apart(training.config, training.model, 1)

    def full(*_: Any) -> Sums:
        raise RunError("full")

    with monkeypatch.context() as patched, pytest.raises(RunError, match="full"):
        patched.setattr(Together, "__call__", full)
        gradients(batch, batch.n_tokens)
    with pytest.raises(RunError, match="has ended"):
        gradients(batch, batch.n_tokens)


def test_what_the_helper_can_not_do_it_says(make_training: Maker) -> None:
    training = make_training("a")

    def full(batch: Batch, n_tokens: int) -> Sums:
        raise RunError("there is no memory", hint="take less")

    asked = {"seed": 1, "n_tokens": 3, "shapes": [[1, 1]] * 3}
    ids = torch.tensor([4, 2, 5]).numpy().tobytes()
    assert answer(asked, ids, training.model, full) == {"message": "there is no memory", "hint": "take less"}


@pytest.fixture
def failing(make_training: Maker) -> Callable[[RuntimeError], None]:
    """Takes the gradient of a batch with an objective that raises this."""

    def take(error: RuntimeError) -> None:
        def objective(*_: Any) -> Outcome:
            raise error

        training = make_training("a")
        Together(training.config, training.model, objective, CPU)(first_batch(training), 10)

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


@helped
def test_the_other_half_multiplies_as_the_training_does(make_training: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    training = make_training("a")
    monkeypatch.setattr(two_processes, "MATMUL", SimpleNamespace(fp32_precision="by hand"))
    with pytest.raises(RunError, match=r"failed: RuntimeError: .*by hand"):
        Apart(training.config, training.model, 1)

"""A loss of several terms: each is the mean over its own targets, also where a batch, or half of it, has none."""

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from math import isfinite
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data import NO_TARGET, Batch, Place
from regard.models import ARCHITECTURES, Model, ModelSpec
from regard.training import TrainingConfig
from regard.training.gradients import BatchLoss, Gradients
from regard.training.gradients.one_process import OneProcess
from regard.training.gradients.sums import InPlace
from regard.training.gradients.two_processes import TwoProcesses
from regard.training.loop import train_step
from regard.training.objectives import term_sums
from regard.training.ranks.workers import Workers
from regard.training.validation import score_terms

CPU = torch.device("cpu")
N_ROWS, N_CLASSES = 6, 7
SCALES = {"class": 1.0, "tags": 0.25}
EMPTY: dict[str, list[int]] = {  # rows without tags; the first process takes rows 0, 2, 4, the second 1, 3, 5
    "nowhere": [],
    "the first half": [0, 2, 4],
    "the second half": [1, 3, 5],
    "the whole batch": [0, 1, 2, 3, 4, 5],
}
needs_two_processes = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no memfd_create")


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelSpec]:
    """Of the model in two_terms.py, which the worker process imports by name."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    config = import_module("two_terms").TwoTermsConfig(dropout=0.0)
    yield ModelSpec("toy", "two-terms", config, {"n_classes": N_CLASSES})
    del sys.modules["two_terms"], ARCHITECTURES["two-terms"]


def build(spec: ModelSpec) -> Model:
    torch.manual_seed(1)
    return spec.build().train()


def make_batch(rows_without_tags: list[int], part: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(2 + part)
    values = torch.randn(N_ROWS, 5, generator=generator)
    classes = torch.randint(N_CLASSES, (N_ROWS,), generator=generator)
    tags = torch.randint(4, (N_ROWS, 3), generator=generator)
    tags[2, 1] = NO_TARGET
    tags[rows_without_tags] = NO_TARGET
    n_targets = (N_ROWS, int((tags != NO_TARGET).sum()))
    return Batch((values,), (classes, tags), n_targets, Place(1, 1, part=part), np.arange(N_ROWS))


def gradients_of(gradients: Gradients, model: Model, update: list[Batch]) -> tuple[BatchLoss, dict[str, Tensor]]:
    """The loss of an update and its gradients, all of them: None would fail here."""
    model.zero_grad(set_to_none=True)
    n_targets = tuple(map(sum, zip(*(batch.n_targets for batch in update), strict=True)))
    losses = [gradients(batch, n_targets) for batch in update]
    total = losses[0]
    for loss in losses[1:]:
        total = total.plus(loss)
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
    return total, {name: parameter.grad.clone() for name, parameter in model.named_parameters()}  # type: ignore[union-attr]


def expected_loss(model: Model, update: list[Batch], smoothing: float) -> Tensor:
    """By PyTorch: the mean of all targets of each term, times its scale."""
    loss = torch.zeros(())
    for number, scale in enumerate(SCALES.values()):
        terms = [model.terms(batch)[number] for batch in update]
        logits = torch.cat([F.linear(term.hidden, term.weight, term.bias).flatten(0, -2) for term in terms])
        targets = torch.cat([term.targets.flatten() for term in terms])
        if bool((targets != NO_TARGET).any()):
            loss = loss + scale * F.cross_entropy(logits, targets, label_smoothing=smoothing, ignore_index=NO_TARGET)
    return loss


@pytest.mark.parametrize("r_drop", [0.0, 3.0])
@pytest.mark.parametrize("empty", EMPTY)
def test_each_term_is_the_mean_over_its_targets_in_the_update(spec: ModelSpec, empty: str, r_drop: float) -> None:
    model, config = build(spec), TrainingConfig(r_drop=r_drop)
    update = [make_batch(EMPTY[empty]), make_batch([1], part=1)]
    actual, gradients = gradients_of(OneProcess(config, model, CPU), model, update)
    model.zero_grad()
    expected = expected_loss(model, update, config.smoothing)
    expected.backward()
    assert actual.loss == pytest.approx(expected.item(), rel=1e-5)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, atol=1e-6, rtol=1e-5, msg=name)


@needs_two_processes
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_two_processes_compute_the_gradient_where_a_term_has_no_targets(
    spec: ModelSpec, r_drop: float, precision: str
) -> None:
    model, config = build(spec), TrainingConfig.model_validate({"r_drop": r_drop, "precision": precision})
    single, tolerance = OneProcess(config, model, CPU), 1e-6 if precision == "float32" else 5e-3
    with closing(TwoProcesses(config, spec, model, 1)) as halves:
        for rows in EMPTY.values():
            for update in ([make_batch(rows)], [make_batch(rows), make_batch(rows, part=1)]):
                one, expected = gradients_of(single, model, update)
                two, actual = gradients_of(halves, model, update)
                assert two.nll.keys() == one.nll.keys() == SCALES.keys()
                assert two.loss == pytest.approx(one.loss, rel=tolerance)
                for name, gradient in expected.items():
                    torch.testing.assert_close(actual[name], gradient, atol=tolerance, rtol=0, msg=name)


@needs_two_processes
@pytest.mark.parametrize("n_processes", [1, 2])
def test_a_term_without_targets_in_the_update_has_a_gradient_of_zero(spec: ModelSpec, n_processes: int) -> None:
    model, config = build(spec), TrainingConfig()
    update = [make_batch(EMPTY["the whole batch"], part) for part in range(2)]
    gradients = OneProcess(config, model, CPU) if n_processes == 1 else TwoProcesses(config, spec, model, 1)
    with closing(gradients):
        loss, by_name = gradients_of(gradients, model, update)
    assert loss.nll["tags"] == 0
    assert {name for name, gradient in by_name.items() if not gradient.any()} == {
        "spread.weight", "spread.bias", "tags.weight",
    }  # fmt: skip
    assert all(bool(gradient.isfinite().all()) for gradient in by_name.values())


def make_training(spec: ModelSpec) -> Any:
    """As much of a Training as one step needs."""
    model, config = build(spec), TrainingConfig()
    return SimpleNamespace(
        config=config, model=model, gradients=OneProcess(config, model, CPU), workers=Workers(), ema=None,
        sums=InPlace(), optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    )  # fmt: skip


@pytest.mark.parametrize("empty", ["nowhere", "the whole batch"])
def test_a_step_reports_the_mean_of_every_term(spec: ModelSpec, empty: str) -> None:
    training, update = make_training(spec), [make_batch(EMPTY[empty], part) for part in range(2)]
    sums = [term_sums(training.model, batch) for batch in update]
    before = training.model.tags.weight.detach().clone()
    report = train_step(training, update, 1)
    for number, name in enumerate(SCALES):
        nll, n = (sum(float(getattr(terms[number], field)) for terms in sums) for field in ("nll", "n_targets"))
        assert report["losses"][name] == pytest.approx(nll / n if n else 0.0)
    assert report["nll"] == report["losses"]["class"]
    assert report["n_tokens"] == 2 * N_ROWS
    assert isfinite(report["loss"]) and isfinite(report["norm"])
    assert torch.equal(training.model.tags.weight, before) == (empty == "the whole batch")


def test_validation_scores_every_term_over_all_batches(spec: ModelSpec) -> None:
    model = build(spec)
    batches = [make_batch(EMPTY["the whole batch"]), make_batch([1], part=1)]
    scores = score_terms(model, batches, CPU)
    [class_sums, tag_sums] = term_sums(model, batches[1])
    other_class_sums = term_sums(model, batches[0])[0]
    assert scores["tags"].loss == pytest.approx(float(tag_sums.nll) / tag_sums.n_targets)
    assert scores["tags"].accuracy == float(tag_sums.n_correct) / tag_sums.n_targets
    assert scores["class"].loss == pytest.approx(float(class_sums.nll + other_class_sums.nll) / (2 * N_ROWS))
    assert score_terms(model, batches[:1], CPU)["tags"] == (0.0, 0.0)

"""Muon: orthogonal steps for the matrices, Adam for everything else."""

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from regard.data import Cursor, updates
from regard.models import Transformer, TransformerConfig
from regard.training import Training, TrainingConfig
from regard.training.loop import take_step
from regard.training.optimizers import Muon, make_optimizer, orthogonal

Maker = Callable[..., Training]
MUON = TrainingConfig(optimizer="muon", beta1=0.9, beta2=0.98)


def make_model() -> Transformer:
    torch.manual_seed(1)
    shape = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2}
    return Transformer(TransformerConfig.model_validate(shape), 20, 20)


def with_gradients(model: nn.Module, seed: int = 2) -> dict[str, Tensor]:
    """Random gradients; they are returned as well."""
    generator = torch.Generator().manual_seed(seed)
    gradients = {}
    for name, parameter in model.named_parameters():
        gradients[name] = torch.randn(parameter.shape, generator=generator)
        parameter.grad = gradients[name].clone()
    return gradients


@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 8, 64), (2, 1, 5)])
def test_singular_values_are_drawn_towards_one_and_directions_stay(shape: tuple[int, ...]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    found = orthogonal(matrices)
    u, _, vh = torch.linalg.svd(matrices, full_matrices=False)
    values = torch.linalg.svdvals(found)
    assert float(values.min()) > 0.5 and float(values.max()) < 1.3  # what the polynomial promises
    across = u.mT @ found @ vh.mT  # diagonal where the singular vectors are the same
    assert torch.allclose(across, torch.diag_embed(torch.diagonal(across, dim1=1, dim2=2)), atol=1e-4)


def test_nothing_moves_where_there_is_no_gradient_at_all() -> None:
    assert torch.equal(orthogonal(torch.zeros(2, 4, 8)), torch.zeros(2, 4, 8))
    model = make_model()
    optimizer = make_optimizer(MUON, model)
    before = deepcopy(model.state_dict())
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    optimizer.step()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_embeddings_and_vectors_move_as_adam_moves_them_and_matrices_do_not() -> None:
    ours, theirs = make_model(), make_model()
    muon, adam = make_optimizer(MUON, ours), make_optimizer(MUON.model_copy(update={"optimizer": "adam"}), theirs)
    for step in range(3):
        for model, optimizer in ((ours, muon), (theirs, adam)):
            with_gradients(model, step)
            for group in optimizer.param_groups:
                group["lr"] = 0.01
            optimizer.step()
    other = dict(theirs.named_parameters())
    same = {name for name, parameter in ours.named_parameters() if torch.equal(parameter, other[name])}
    matrices = {name for name, parameter in ours.named_parameters() if parameter.dim() == 2 and "embedding" not in name}
    assert matrices and same == set(other) - matrices


def test_a_step_is_the_one_that_the_formula_gives_queries_keys_and_values_apart() -> None:
    model = make_model()
    optimizer = make_optimizer(MUON, model)
    assert isinstance(optimizer, Muon)
    attention, inner = model.encoder[0].self_attention.qkv.weight, model.encoder[0].feed_forward.inner.weight
    before = {"qkv": attention.detach().clone(), "inner": inner.detach().clone()}
    gradients = with_gradients(model)
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    optimizer.step()
    # at the first step the momentum is 0.05 of the gradient, so Nesterov's direction is the gradient's own
    for part in range(3):
        rows = slice(16 * part, 16 * part + 16)
        gradient = gradients["encoder.0.self_attention.qkv.weight"][rows]
        expected = before["qkv"][rows] - 0.1 * 0.2 * 16**0.5 * orthogonal(gradient[None])[0]
        assert torch.allclose(attention[rows], expected, atol=1e-6)
    gradient = gradients["encoder.0.feed_forward.inner.weight"]  # (32, 16): taller than wide
    expected = before["inner"] - 0.1 * 0.2 * 32**0.5 * orthogonal(gradient.mT[None])[0].mT
    assert torch.allclose(inner, expected, atol=1e-6)


def test_in_bfloat16_directions_are_nearly_the_same_and_what_is_kept_is_float32() -> None:
    exact, rounded = make_model(), make_model()
    for model, precision in ((exact, "float32"), (rounded, "bfloat16")):
        optimizer = make_optimizer(MUON.model_copy(update={"precision": precision}), model)
        with_gradients(model)
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        optimizer.step()
        kept = [tensor for state in optimizer.state.values() for tensor in state.values()]
        assert {one.dtype for one in [*model.parameters(), *kept]} == {torch.float32}
    first, other = dict(make_model().named_parameters()), dict(exact.named_parameters())
    off = {}
    for name, parameter in rounded.named_parameters():
        moved, expected = (one.detach() - first[name].detach() for one in (parameter, other[name]))
        off[name] = float((moved - expected).norm() / expected.norm())
    assert 0 < max(off.values()) < 0.1, off


def test_muon_lowers_the_loss(make_training: Maker) -> None:
    training = make_training("a", optimizer="muon", dropout=0.0)
    update, _ = next(updates(training.store, training.stream, Cursor()))
    losses = []
    for step in range(1, 31):
        for group in training.optimizer.param_groups:
            group["lr"] = 0.01
        losses.append(take_step(training, update, step)["nll"])
    assert losses[-1] < 0.5 * losses[0]

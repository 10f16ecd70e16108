"""Muon's orthogonalised updates, SGD, weight decay, rate factors, and the state of all optimizers in checkpoints."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from regard.data import Cursor
from regard.errors import RecipeError
from regard.models import Transformer, TransformerConfig
from regard.training import Checkpoints, Training, TrainingConfig
from regard.training.checkpoints import load_optimizer_tensors, optimizer_tensors
from regard.training.loop import train_step
from regard.training.optimizers import Muon, declared_matrices, make_optimizer, orthogonalize, set_rate

Maker = Callable[..., Training]
MUON = TrainingConfig(optimizer="muon", beta1=0.9, beta2=0.98)


def make_model() -> Transformer:
    torch.manual_seed(1)
    shape = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2}
    return Transformer(TransformerConfig.model_validate(shape), 20, 20)


def with_gradients(model: nn.Module, seed: int = 2) -> dict[str, Tensor]:
    """Sets random gradients, and returns them."""
    generator = torch.Generator().manual_seed(seed)
    gradients = {}
    for name, parameter in model.named_parameters():
        gradients[name] = torch.randn(parameter.shape, generator=generator)
        parameter.grad = gradients[name].clone()
    return gradients


@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 8, 64), (2, 1, 5)])
def test_orthogonalize_moves_singular_values_towards_one_and_keeps_directions(shape: tuple[int, ...]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    result = orthogonalize(matrices)
    u, _, vh = torch.linalg.svd(matrices, full_matrices=False)
    values = torch.linalg.svdvals(result)
    assert float(values.min()) > 0.5 and float(values.max()) < 1.3  # the range of the polynomial
    projected = u.mT @ result @ vh.mT  # diagonal if the singular vectors are the same
    assert torch.allclose(projected, torch.diag_embed(torch.diagonal(projected, dim1=1, dim2=2)), atol=1e-4)


def test_parameters_without_gradient_do_not_change() -> None:
    assert torch.equal(orthogonalize(torch.zeros(2, 4, 8)), torch.zeros(2, 4, 8))
    model = make_model()
    optimizer = make_optimizer(MUON, model)
    before = deepcopy(model.state_dict())
    set_rate(optimizer, 0.1)
    optimizer.step()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_embeddings_and_vectors_are_updated_by_adam_and_matrices_are_not() -> None:
    with_muon, with_adam = make_model(), make_model()
    muon = make_optimizer(MUON, with_muon)
    adam = make_optimizer(MUON.model_copy(update={"optimizer": "adam"}), with_adam)
    for step in range(3):
        for model, optimizer in ((with_muon, muon), (with_adam, adam)):
            with_gradients(model, step)
            set_rate(optimizer, 0.01)
            optimizer.step()
    by_adam = dict(with_adam.named_parameters())
    same = {name for name, parameter in with_muon.named_parameters() if torch.equal(parameter, by_adam[name])}
    matrices = {name for name, weight in with_muon.named_parameters() if weight.dim() == 2 and "embedding" not in name}
    assert matrices and same == set(by_adam) - matrices


def test_first_step_matches_the_formula_with_separate_queries_keys_and_values() -> None:
    model = make_model()
    optimizer = make_optimizer(MUON, model)
    assert isinstance(optimizer, Muon)
    attention, inner = model.encoder[0].self_attention.qkv.weight, model.encoder[0].feed_forward.inner.weight
    before = {"qkv": attention.detach().clone(), "inner": inner.detach().clone()}
    gradients = with_gradients(model)
    set_rate(optimizer, 0.1)
    optimizer.step()
    # at the first step the momentum is 0.05 of the gradient, so the Nesterov direction is that of the gradient
    for part in range(3):
        rows = slice(16 * part, 16 * part + 16)
        gradient = gradients["encoder.0.self_attention.qkv.weight"][rows]
        expected = before["qkv"][rows] - 0.1 * 0.2 * 16**0.5 * orthogonalize(gradient[None])[0]
        assert torch.allclose(attention[rows], expected, atol=1e-6)
    gradient = gradients["encoder.0.feed_forward.inner.weight"]  # (32, 16): more rows than columns
    expected = before["inner"] - 0.1 * 0.2 * 32**0.5 * orthogonalize(gradient.mT[None])[0].mT
    assert torch.allclose(inner, expected, atol=1e-6)


def test_bfloat16_gives_nearly_the_same_update_and_keeps_float32_state() -> None:
    exact, rounded = make_model(), make_model()
    for model, precision in ((exact, "float32"), (rounded, "bfloat16")):
        optimizer = make_optimizer(MUON.model_copy(update={"precision": precision}), model)
        with_gradients(model)
        set_rate(optimizer, 0.1)
        optimizer.step()
        state_tensors = [tensor for state in optimizer.state.values() for tensor in state.values()]
        assert {tensor.dtype for tensor in [*model.parameters(), *state_tensors]} == {torch.float32}
    before, by_float32 = dict(make_model().named_parameters()), dict(exact.named_parameters())
    errors = {}
    for name, parameter in rounded.named_parameters():
        update, expected = (after.detach() - before[name].detach() for after in (parameter, by_float32[name]))
        errors[name] = float((update - expected).norm() / expected.norm())
    assert 0 < max(errors.values()) < 0.1, errors


def test_muon_lowers_the_loss(make_training: Maker) -> None:
    training = make_training("a", optimizer="muon", dropout=0.0)
    update, _ = next(training.loader.updates(Cursor()))
    losses = []
    for step in range(1, 31):
        set_rate(training.optimizer, 0.01)
        losses.append(train_step(training, update, step)["nll"])
    assert losses[-1] < 0.5 * losses[0]


def reference_matrices(model: Transformer) -> dict[str, list[nn.Parameter]]:
    """Copies of the weight matrices for `torch.optim.Muon`, with W_Q, W_K and W_V as three parameters each."""
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    weights = {f"{name}.weight": model.get_parameter(f"{name}.weight").detach() for name in linear}
    return {
        name: [nn.Parameter(part.clone()) for part in weight.chunk(3 if name.endswith("qkv.weight") else 1)]
        for name, weight in weights.items()
    }


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize("momentum", [None, 0.5, 0.0])
def test_muon_matches_torch_optim_muon(
    momentum: float | None, weight_decay: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six steps on the same gradients, with a learning rate that changes from step to step.

    Momentum, Nesterov, and the defaults of the Newton-Schulz iteration are the same. The differences, removed here:
    ours splits the fused W_Q, W_K, W_V; scales updates to the RMS of Adam ("match_rms_adamw" in PyTorch); and
    orthogonalises in float32, where PyTorch casts to bfloat16. In float32 the updates agree to 0.01%, while e.g. a
    momentum of 0.9 instead of 0.95 changes them by 3% to 30%.
    """
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    model = make_model()
    config = MUON.model_copy(update={"momentum": momentum, "weight_decay": weight_decay})
    ours, reference = make_optimizer(config, model), reference_matrices(model)
    theirs = torch.optim.Muon(
        [part for parts in reference.values() for part in parts],
        momentum=0.95 if momentum is None else momentum,
        nesterov=True,
        weight_decay=weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    before = {name: torch.cat(parts).detach().clone() for name, parts in reference.items()}
    for step in range(6):
        gradients = with_gradients(model, seed=step)
        for name, parts in reference.items():
            for part, gradient in zip(parts, gradients[name].chunk(len(parts)), strict=True):
                part.grad = gradient.clone()
        for optimizer in (ours, theirs):
            for group in optimizer.param_groups:
                group["lr"] = 0.01 * (1 + step)
            optimizer.step()
        for name, parts in reference.items():
            expected = torch.cat(parts).detach() - before[name]
            actual = model.get_parameter(name).detach() - before[name]
            assert float((actual - expected).norm() / expected.norm()) < 1e-4, (step, name)


class Recurrent(nn.Module):
    """A module of PyTorch with its matrices: for each of three gates, one for the input and one for the past."""

    matrices: ClassVar[dict[str, int]] = {"gru.weight_ih_l0": 3, "gru.weight_hh_l0": 3}

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.gru, self.out = nn.GRU(6, 8), nn.Linear(8, 5)


def updated(model: nn.Module, seeds: range = range(3), **values: object) -> dict[str, Tensor]:
    """The parameters after steps with random gradients."""
    optimizer = make_optimizer(TrainingConfig.model_validate(values), model)
    for seed in seeds:
        with_gradients(model, seed)
        set_rate(optimizer, 0.01 * (1 + seed))
        optimizer.step()
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def test_matrices_of_a_foreign_module_are_orthogonalised_as_declared() -> None:
    before = dict(Recurrent().named_parameters())
    by_muon, by_adam = (updated(Recurrent(), range(1), optimizer=name) for name in ("muon", "adam"))
    gradients = with_gradients(Recurrent(), seed=0)
    for name, after in by_muon.items():
        if name not in ("gru.weight_ih_l0", "gru.weight_hh_l0"):  # "out.weight" is a matrix, but nobody declares it
            assert torch.equal(after, by_adam[name]), name
            continue
        gates = (tensor.chunk(3) for tensor in (after, before[name], gradients[name]))
        for part, old, gradient in zip(*gates, strict=True):
            direction = orthogonalize(gradient.mT[None])[0].mT  # (8, 6) or (8, 8)
            assert torch.allclose(part, old - 0.01 * 0.2 * 8**0.5 * direction, atol=1e-6), name


def test_transformer_declares_the_weights_of_all_linear_layers() -> None:
    model = make_model()
    names = {parameter: name for name, parameter in model.named_parameters()}
    declared = {names[parameter]: n_parts for parameter, n_parts in declared_matrices(model).items()}
    assert declared == {name: len(parts) for name, parts in reference_matrices(model).items()}


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        ({"gru.weight_ih_l1": 3}, "Recurrent.matrices: 'gru.weight_ih_l1' is not a parameter"),
        ({"lstm.weight_ih_l0": 3}, "'lstm.weight_ih_l0' is not a parameter"),
        ({"gru": 3}, "'gru' is not a parameter"),
        ({"gru.weight_ih_l0": 5}, r"'gru.weight_ih_l0' of shape \(24, 6\) cannot be split into 5 matrices"),
        ({"gru.weight_ih_l0": 0}, "cannot be split into 0 matrices"),
        ({"gru.bias_ih_l0": 3}, r"'gru.bias_ih_l0' of shape \(24,\) cannot be split into 3 matrices"),
    ],
)
def test_wrong_declaration_raises_an_error(
    matrices: dict[str, int], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recurrent, "matrices", matrices)
    with pytest.raises(ValueError, match=message):
        make_optimizer(MUON, Recurrent())


@pytest.mark.parametrize("momentum", [None, 0.9])
def test_sgd_is_that_of_torch(momentum: float | None) -> None:
    actual, reference = updated(Recurrent(), optimizer="sgd", momentum=momentum), Recurrent()
    theirs = torch.optim.SGD(reference.parameters(), momentum=momentum or 0.0)
    for seed in range(3):
        with_gradients(reference, seed)
        theirs.param_groups[0]["lr"] = 0.01 * (1 + seed)
        theirs.step()
    assert all(torch.equal(actual[name], parameter) for name, parameter in reference.named_parameters())


@pytest.mark.parametrize("optimizer", ["adam", "muon", "sgd"])
def test_weight_decay_shrinks_matrices_and_embeddings_by_the_rate_times_the_decay(optimizer: str) -> None:
    values = {"optimizer": optimizer, "rate_factors": {"decoder": 0.5}}
    before = {name: parameter.detach().clone() for name, parameter in make_model().named_parameters()}
    without = updated(make_model(), range(1), **values)
    decayed = updated(make_model(), range(1), weight_decay=2.0, **values)
    assert {before[name].dim() for name in before} == {1, 2}
    for name, tensor in decayed.items():
        shrunk = 0.01 * 2.0 * (0.5 if name.startswith("decoder") else 1) * before[name]
        expected = without[name] - shrunk if tensor.dim() == 2 else without[name]
        assert torch.allclose(tensor, expected, rtol=0, atol=1e-6), name


@pytest.mark.parametrize("optimizer", ["adam", "muon", "sgd"])
def test_weight_decay_does_not_enter_the_state(optimizer: str) -> None:
    """Decoupled: the moving averages are those of the gradients alone."""
    states = []
    for decay in (0.0, 2.0):
        model = make_model()
        config = TrainingConfig(optimizer=optimizer, weight_decay=decay, momentum=0.9)  # type: ignore[arg-type]
        made = make_optimizer(config, model)
        for seed in range(3):
            with_gradients(model, seed)
            set_rate(made, 0.01)
            made.step()
        states.append(optimizer_tensors(made, model))
    assert states[0] and states[0].keys() == states[1].keys()
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())


def test_adam_with_weight_decay_is_adamw_of_torch() -> None:
    actual, reference = updated(Recurrent(), weight_decay=0.5), Recurrent()
    groups = [
        {"params": [parameter], "weight_decay": 0.5 * (parameter.dim() == 2)} for parameter in reference.parameters()
    ]
    theirs = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-9)
    for seed in range(3):
        with_gradients(reference, seed)
        for group in theirs.param_groups:
            group["lr"] = 0.01 * (1 + seed)
        theirs.step()
    assert all(torch.allclose(actual[name], parameter) for name, parameter in reference.named_parameters())


@pytest.mark.parametrize("optimizer", ["adam", "muon", "sgd"])
def test_rate_factor_of_the_longest_name_scales_the_updates(optimizer: str) -> None:
    factors = {"decoder": 0.5, "decoder.0.feed_forward": 2.0, "decoder.0.feed_forward.inner.bias": 0.0, "source": 0.25}
    before = {name: parameter.detach().clone() for name, parameter in make_model().named_parameters()}
    plain = updated(make_model(), range(1), optimizer=optimizer)
    scaled = updated(make_model(), range(1), optimizer=optimizer, rate_factors=factors)
    used = set()
    for name, tensor in scaled.items():
        matching = [prefix for prefix in factors if name.startswith(prefix)]
        factor = factors[max(matching, key=len)] if matching else 1.0
        used.add(factor)
        assert torch.allclose(tensor - before[name], factor * (plain[name] - before[name]), rtol=1e-3, atol=1e-6), name
    assert used == {*factors.values(), 1.0}


@pytest.mark.parametrize("name", ["encodr", "encoder.", "encoder.00", "enc", ""])
def test_rate_factor_of_an_unknown_part_is_an_error_that_names_it(name: str) -> None:
    config = TrainingConfig(rate_factors={"encoder": 0.5, name: 2.0})
    with pytest.raises(RecipeError, match=f"no part '{name}'") as raised:
        make_optimizer(config, make_model())
    assert "encoder, decoder" in str(raised.value.hint)


@pytest.mark.parametrize(
    "values",
    [{"optimizer": "sgd"}, {"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "muon"}, {"optimizer": "adam"}],
)
def test_resumed_training_is_bit_equal_for_any_groups(values: dict[str, object], tmp_path: Path) -> None:
    """Also with other groups than those that were saved: the names in a checkpoint do not depend on them."""
    grouped = {**values, "weight_decay": 1e-30}  # two groups where there was one; 1 − rate · decay is still 1
    whole, parts = make_model(), make_model()
    expected = updated(whole, range(6), **values)
    first = make_optimizer(TrainingConfig.model_validate(values), parts)
    second = make_optimizer(TrainingConfig.model_validate(grouped), parts)
    for optimizer, seeds in ((first, range(3)), (second, range(3, 6))):
        if optimizer is second:
            checkpoints = Checkpoints(tmp_path, keep_last=1, keep_best=0)
            checkpoints.save(3, {"optimizer": optimizer_tensors(first, parts)}, {})
            load_optimizer_tensors(second, parts, checkpoints.open(3).tensors("optimizer"))
        for seed in seeds:
            with_gradients(parts, seed)
            set_rate(optimizer, 0.01 * (1 + seed))
            optimizer.step()
    assert all(torch.equal(expected[name], parameter) for name, parameter in parts.named_parameters())
    kinds = {name.partition("/")[0] for name in optimizer_tensors(second, parts)}
    assert ("momentum_buffer" in kinds) == ("momentum" in values)
    assert bool(kinds) == (values != {"optimizer": "sgd"})

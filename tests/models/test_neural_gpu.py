"""The Neural GPU: its convolutional GRU against a plain definition, and what each form may depend on."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data import Batch, Place, collate_pairs
from regard.models import ARCHITECTURES, ModelSpec, load_weights, named_weights
from regard.models.neural_gpu import ConvolutionalGRU, NeuralGPU, NeuralGPUConfig, hard_sigmoid
from regard.nn import Dropout, Trace
from regard.training.objectives import term_sums
from regard.training.optimizers import declared_matrices

CLOSE = {"atol": 1e-5, "rtol": 1e-4}
PLAIN = {"form": "plain", "d_model": 12, "n_rows": 4, "dropout": 0.0}
KEEP = Dropout(0.0)


def make(**config: Any) -> NeuralGPU:
    torch.manual_seed(2)
    sizes = {"n_src_symbols": 12, "n_tgt_symbols": 12, "pad_id": 0}
    model = ModelSpec("translation", "neural-gpu", NeuralGPUConfig(**({"d_model": 8} | config)), sizes).build().eval()
    assert isinstance(model, NeuralGPU)
    return model


def make_batch() -> Batch:
    return collate_pairs([([4, 5, 6, 7, 8], [9, 8, 7]), ([5], [4, 4]), ([7, 6, 9], [5])], pad_id=0, bos_id=2, eos_id=3)


def by_definition(layer: ConvolutionalGRU, s: Tensor, tape: Tensor | None, number: int) -> Tensor:
    """(B, N, R, D): one cell, one tap of a kernel after the other; cells outside are 0."""
    d, n_rows = layer.d_model, layer.n_rows
    reach = 1 if n_rows > 1 else 0

    def convolve(x: Tensor, kernel: Tensor) -> Tensor:
        taps = kernel.view(len(kernel), 3, 2 * reach + 1, d)
        y = x.new_zeros(*x.shape[:3], len(kernel))
        for n in range(x.shape[1]):
            for r in range(n_rows):
                for dn in (-1, 0, 1):
                    for dr in range(-reach, reach + 1):
                        if 0 <= n + dn < x.shape[1] and 0 <= r + dr < n_rows:
                            y[:, n, r] += x[:, n + dn, r + dr] @ taps[:, dn + 1, dr + reach].T
        return y

    def part(parameter: Tensor, i: int, n_parts: int) -> Tensor:
        """Part i of the set of weights that this step uses."""
        return parameter[(number % layer.n_sets * n_parts + i) * d :][:d]

    from_tape = [0.0] * 3 if tape is None else [convolve(tape, layer.tape[i * d :][:d]) for i in range(3)]
    r, u = (
        (1.2 / (1 + (-convolve(s, part(layer.gates, i, 2)) - part(layer.gates_bias, i, 2) - from_tape[i]).exp()) - 0.1)
        .clamp(0, 1)
        for i in range(2)
    )  # fmt: skip
    candidate = convolve(r * s, part(layer.candidate, 0, 1)) + part(layer.candidate_bias, 0, 1) + from_tape[2]
    return u * s + (1 - u) * candidate.tanh()


@pytest.mark.parametrize("n_rows", [1, 4])
@pytest.mark.parametrize("has_tape", [False, True])
def test_the_convolutional_gru_is_that_of_the_paper(n_rows: int, has_tape: bool) -> None:
    torch.manual_seed(1)
    layer = ConvolutionalGRU(5, n_rows, n_sets=2, has_tape=has_tape).double()
    assert bool((layer.gates_bias == 1).all())
    for bias in (layer.gates_bias, layer.candidate_bias):
        torch.nn.init.normal_(bias)
    s = torch.randn(2, 6, n_rows, 5, dtype=torch.float64)
    symbols, added, tape = torch.randn(2, 6, 5, dtype=torch.float64), None, None
    if has_tape:
        tape = symbols[:, :, None].expand(-1, -1, n_rows, -1)
        added = s.new_zeros(2, 8, n_rows, 15)
        for n in range(6):
            added = added.index_add(1, torch.arange(n, n + 3), layer.from_tape(symbols[:, n]))
        added = added[:, 1:-1]
    for number in (0, 1):
        expected = by_definition(layer, s, tape, number)
        torch.testing.assert_close(layer(s, KEEP, number, added), expected, atol=1e-6, rtol=0)


def test_hard_gates_open_and_close_completely() -> None:
    assert hard_sigmoid(torch.tensor([-9.0, 0.0, 9.0])).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("config", [{}, PLAIN])
def test_a_sentence_stops_after_its_own_steps_and_its_padding_stays_empty(config: dict[str, Any]) -> None:
    model, batch, trace = make(**config), make_batch(), Trace()
    model.encode(batch.inputs[0], trace)
    memory = trace["encoder.memory"]  # (B, steps + 1, N, R, D)
    n_symbols = (batch.inputs[0] != 0).sum(1)
    for row, n in enumerate(n_symbols.tolist()):
        n_columns = n if config else (6 * n + 4) // 5 + 2
        assert not bool(memory[row, :, n_columns:].any())
        assert torch.equal(memory[row, n], memory[row, -1])
        assert all(not torch.equal(memory[row, step], memory[row, step + 1]) for step in range(n))


def test_symbols_start_in_the_first_row_and_spread_by_four_columns_per_step() -> None:
    model, trace = make(n_rows=2), Trace()
    first, second = torch.tensor([[4, 5, 6, 7, 8, 9, 4, 3]]), torch.tensor([[9, 5, 6, 7, 8, 9, 4, 3]])
    model.encode(first, trace)
    memory = trace["encoder.memory"][0]
    model.encode(second, trace)
    differs = (memory != trace["encoder.memory"][0]).any(-1)  # (steps + 1, N, R)
    assert not bool(memory[0, :, 1].any())
    for step in range(3):  # each of the two layers has a convolution for its gates, and then one for the candidate
        assert bool(differs[step, : 1 + 4 * step].any(-1).all())
        assert not bool(differs[step, 1 + 4 * step :].any())


def test_steps_use_the_sets_of_weights_in_turn_and_the_penalty_draws_them_together() -> None:
    model = make(n_sets=3, pull=0.5)
    layers = [module for module in model.modules() if isinstance(module, ConvolutionalGRU)]
    expected = 0.0
    for layer in layers:
        for parameter in (layer.gates, layer.candidate, layer.gates_bias, layer.candidate_bias):
            sets = parameter.detach().reshape(3, -1)
            expected += 0.25 * float(sum(((each - sum(sets) / 3) ** 2).sum() for each in sets))
    penalty = model.penalty(Place())
    assert penalty is not None
    assert float(penalty.detach()) == pytest.approx(expected, rel=1e-5)
    term_sums(model.train(), collate_pairs([([5, 6], [4])], pad_id=0, bos_id=2, eos_id=3))[0].loss.backward()
    thirds = model.encoder.layers[0].candidate.grad.chunk(3)
    assert all(bool(third.any()) for third in thirds)  # three source symbols, three steps
    assert make().penalty(Place()) is None


def test_dropout_falls_with_the_number_of_steps() -> None:
    model = make(dropout=0.4)
    assert [model._dropout(n).p for n in (1, 8, 16, 80)] == pytest.approx([0.4, 0.4, 0.2, 0.04])


def test_steps_that_are_computed_again_have_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = []
    for first in (100, 1):
        monkeypatch.setattr("regard.models.neural_gpu.RECOMPUTED_FROM", first)
        model = make(dropout=0.3).train()
        torch.manual_seed(4)
        term_sums(model, make_batch())[0].loss.backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for stored, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(recomputed, stored, **CLOSE)


def test_matrices_are_declared_for_muon() -> None:
    model = make(n_sets=2, n_rows=2)
    declared = {
        name: declared_matrices(model)[p]
        for name, p in model.named_parameters()
        if p.dim() == 2 and p in declared_matrices(model)
    }
    assert declared == {
        **{
            f"{side}.layers.{i}.{name}": n
            for side in ("encoder", "decoder")
            for i in (0, 1)
            for name, n in (("gates", 4), ("candidate", 2))
        },
        **{f"decoder.layers.{i}.tape": 3 for i in (0, 1)},
    }


# What training and decoding need of the plain form, which no symbol of the target can change.


def test_the_plain_form_equals_its_steps_alone_and_in_a_batch_and_ignores_the_target() -> None:
    model, batch = make(**PLAIN), make_batch()
    src, tgt = batch.inputs
    longer = F.pad(tgt, (0, 4), value=5)  # longer than the source: the columns after it are empty
    logits = model(src, longer)
    state = model.start(model.encode(src))
    for t in range(longer.shape[1]):
        log_probs, state = model.step(longer[:, t], state)
        torch.testing.assert_close(log_probs, logits[:, t].log_softmax(-1), **CLOSE)
    assert torch.equal(model(src, torch.full_like(longer, 7)), logits)
    for row in range(len(src)):
        alone = model(src[row : row + 1, : int((src[row] != 0).sum())], longer[row : row + 1])
        torch.testing.assert_close(alone, logits[row : row + 1], **CLOSE)


def test_the_state_of_the_plain_form_can_be_selected() -> None:
    model, (src, _) = make(**PLAIN), make_batch().inputs
    _, state = model.step(src[:, 0], model.start(model.encode(src)))
    rows = torch.tensor([2, 0, 0])
    expected, _ = model.step(src[:, 0], state)
    torch.testing.assert_close(model.step(src[rows, 0], state.select(rows))[0], expected[rows], **CLOSE)


def test_every_parameter_of_the_plain_form_learns_and_one_batch_can_be_overfitted() -> None:
    model, batch = make(**PLAIN, n_sets=2, tie="none").train(), make_batch()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(150):
        optimizer.zero_grad()
        [sums] = term_sums(model, batch)
        sums.loss.backward()
        if step == 0:
            assert [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())] == []
        optimizer.step()
    assert int(sums.n_correct) == batch.n_targets[0]


def test_weights_of_the_plain_form_can_be_copied() -> None:
    model, (src, tgt) = make(**PLAIN), make_batch().inputs
    copy = ARCHITECTURES["neural-gpu"].models["translation"](model.config, n_src_symbols=12, n_tgt_symbols=12)
    load_weights(copy, named_weights(model))
    assert torch.equal(model(src, tgt), copy.eval()(src, tgt))

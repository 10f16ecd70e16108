"""Recurrent layers: one step at a time equals torch's fused layers and the written-out equations."""

import pytest
import torch
from torch import Tensor, nn

from regard.nn import CellName, Recurrence, States, Trace

CLOSE = {"atol": 1e-6, "rtol": 1e-5}
CELLS: tuple[CellName, ...] = ("rnn", "lstm", "gru")


def layers(cell: CellName, d_input: int = 5, d_hidden: int = 6, n_layers: int = 1, **more: bool) -> Recurrence:
    """Layers whose weights and biases are all non-zero."""
    torch.manual_seed(1)
    recurrence = Recurrence(cell, d_input, d_hidden, n_layers, **more)
    for parameter in recurrence.parameters():
        nn.init.normal_(parameter, std=0.4)
    return recurrence


def sequences(n_rows: int, length: int, size: int = 5) -> Tensor:
    return torch.randn(n_rows, length, size, generator=torch.Generator().manual_seed(2))


def zeros(recurrence: Recurrence, n_rows: int) -> States:
    n_tensors = 2 if isinstance(recurrence.layers[0], nn.LSTM) else 1
    return tuple(tuple(torch.zeros(n_rows, 6) for _ in range(n_tensors)) for _ in recurrence.layers)


def steps(recurrence: Recurrence, x: Tensor) -> tuple[Tensor, States]:
    """(B, T, I) → (B, T, D), one call of `step` per position."""
    w_ih, _, b_ih, _ = recurrence.rnns[0].all_weights[0]
    outputs, states = [], zeros(recurrence, len(x))
    for t in range(x.shape[1]):
        h, states = recurrence.step(x[:, t] @ w_ih.T + b_ih, states)
        outputs.append(h)
    return torch.stack(outputs, 1), states


@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("cell", CELLS)
def test_steps_equal_the_fused_layers_of_torch(cell: CellName, n_layers: int) -> None:
    recurrence, x = layers(cell, n_layers=n_layers), sequences(3, 7)
    fused = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[cell](5, 6, n_layers, batch_first=True)
    for i, layer in enumerate(recurrence.rnns):
        for name, parameter in layer.named_parameters():
            fused.get_parameter(name.replace("_l0", f"_l{i}")).data.copy_(parameter)
    outputs, states = steps(recurrence, x)
    expected, last = fused(x)
    torch.testing.assert_close(outputs, expected, **CLOSE)
    for number, part in enumerate(last if cell == "lstm" else (last,)):
        torch.testing.assert_close(torch.stack([state[number] for state in states]), part, **CLOSE)
    torch.testing.assert_close(recurrence(x)[0], expected, **CLOSE)


def written_out(cell: CellName, weights: list[Tensor], x: Tensor, h: Tensor, c: Tensor) -> dict[str, Tensor]:
    """One step for one sequence: (I,), (D,), (D,) → its new state, and the gates."""
    w_ih, w_hh, b_ih, b_hh = (weight.view(-1, 6, *weight.shape[1:]) for weight in weights)  # G parts of D rows

    def product(part: int) -> Tensor:
        return w_ih[part] @ x + b_ih[part] + w_hh[part] @ h + b_hh[part]

    if cell == "rnn":
        return {"h": torch.tanh(product(0)), "c": c}
    if cell == "lstm":
        i, f, g, o = product(0).sigmoid(), product(1).sigmoid(), product(2).tanh(), product(3).sigmoid()
        c = f * c + i * g
        return {"h": o * c.tanh(), "c": c, "input_gate": i, "forget_gate": f, "output_gate": o}
    r, z = product(0).sigmoid(), product(1).sigmoid()
    n = torch.tanh(w_ih[2] @ x + b_ih[2] + r * (w_hh[2] @ h + b_hh[2]))
    return {"h": (1 - z) * n + z * h, "c": c, "reset_gate": r, "update_gate": z}


@pytest.mark.parametrize("cell", CELLS)
def test_states_and_recorded_gates_equal_the_written_out_equations(cell: CellName) -> None:
    recurrence, x, trace = layers(cell), sequences(1, 5), Trace()
    outputs, _ = recurrence(x, trace=trace.at("decoder", ("target",)))
    h = c = torch.zeros(6)
    for t in range(5):
        expected = written_out(cell, recurrence.rnns[0].all_weights[0], x[0, t], h, c)
        h, c = expected.pop("h"), expected.pop("c")
        torch.testing.assert_close(steps(recurrence, x)[0][0, t], h, **CLOSE)
        torch.testing.assert_close(outputs[0, t], h, **CLOSE)
        torch.testing.assert_close(trace["decoder.layers.0.states"][0, t], h, **CLOSE)
        for name, gate in expected.items():
            torch.testing.assert_close(trace[f"decoder.layers.0.{name}"][0, t], gate, **CLOSE)
    assert len(trace.sites("gates")) == len(expected)
    assert all(site.axes == ("target", "unit") for site in trace.sites())


def test_the_recorded_gates_of_the_second_direction_are_those_of_the_reversed_sequence() -> None:
    recurrence, x, trace, reversed_trace = layers("lstm", bidirectional=True), sequences(1, 5), Trace(), Trace()
    for forwards, backwards in zip(*recurrence.rnns[0].all_weights, strict=True):
        backwards.data.copy_(forwards)  # so that both directions do the same
    recurrence(x, trace=trace)
    recurrence(x.flip(1), trace=reversed_trace)
    for name in ("states", "input_gate", "forget_gate", "output_gate"):
        value, reversed_value = trace[f"layers.0.{name}"], reversed_trace[f"layers.0.{name}"]
        torch.testing.assert_close(value[..., 3:], reversed_value.flip(1)[..., :3], **CLOSE)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("reading", [{}, {"bidirectional": True}, {"backwards": True}], ids=str)
def test_padding_never_changes_an_output_or_the_last_state(cell: CellName, reading: dict[str, bool]) -> None:
    recurrence, x, lengths = layers(cell, n_layers=2, **reading), sequences(3, 6), torch.tensor([4, 6, 1])
    outputs, last = recurrence(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone, last_alone = recurrence(x[row : row + 1, :length])
        torch.testing.assert_close(outputs[row : row + 1, :length], alone, **CLOSE)
        assert not outputs[row, length:].any()
        for state, state_alone in zip(last, last_alone, strict=True):
            for part, part_alone in zip(state, state_alone, strict=True):
                torch.testing.assert_close(part[row : row + 1], part_alone, **CLOSE)


def test_backwards_reads_the_real_part_from_its_end() -> None:
    forwards, backwards, x = layers("gru"), layers("gru", backwards=True), sequences(1, 6)
    expected, last = forwards(x[:, :4].flip(1))
    outputs, last_backwards = backwards(x, torch.tensor([4]))
    torch.testing.assert_close(outputs[:, :4], expected.flip(1), **CLOSE)
    torch.testing.assert_close(last_backwards[0][0], last[0][0], **CLOSE)


@pytest.mark.parametrize("cell", CELLS)
def test_every_matrix_is_declared_for_muon_with_the_number_of_its_parts(cell: CellName) -> None:
    recurrence = layers(cell, n_layers=2, bidirectional=True)
    assert recurrence.matrices.keys() == {name for name, p in recurrence.named_parameters() if p.dim() == 2}
    assert all(len(recurrence.get_parameter(name)) // n == 3 for name, n in recurrence.matrices.items())

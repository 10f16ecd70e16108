"""ConvS2S: a layer and the whole model as plain loops, what an output can depend on, and the initialisation."""

from math import sqrt
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.lens.ablate import ablate
from regard.lens.interventions import Head, Interventions
from regard.models.convs2s import ConvS2S, ConvS2SConfig, DecoderLayer, GatedConvolution
from regard.nn import Trace
from regard.training.optimizers import declared_matrices

SRC, TGT = torch.tensor([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0]]), torch.tensor([[2, 5, 7, 8], [2, 6, 6, 9]])


def make(n_symbols: int = 12, **config: Any) -> ConvS2S:
    """In float64, with no bias 0 and embeddings of variance 1."""
    torch.manual_seed(3)
    sizes = {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 6, "max_positions": 50}
    model = ConvS2S(ConvS2SConfig(**(sizes | config)), n_symbols, n_symbols).double().eval()
    for name, parameter in model.named_parameters():
        if name.endswith(("bias", "table", "embedding.weight")):
            nn.init.normal_(parameter)
    return model


def linear(module: nn.Linear, x: list[Tensor]) -> list[Tensor]:
    return [module.weight @ y + module.bias for y in x]


def gated_as_loop(module: GatedConvolution, x: list[Tensor], n_before: int) -> list[Tensor]:
    """A window of k inputs, with zeros outside the sentence → a · σ(b)."""
    d, outputs = len(x[0]), []
    for t in range(len(x)):
        both = module.convolution.bias
        for i in range(module.convolution.kernel):
            position = t + i - n_before
            if 0 <= position < len(x):
                both = both + module.convolution.weight[:, d * i : d * (i + 1)] @ x[position]
        outputs.append(both[:d] * torch.sigmoid(both[d:]))
    return outputs


def layer_as_loop(
    layer: DecoderLayer, x: list[Tensor], g: list[Tensor], z: list[Tensor], y: list[Tensor]
) -> tuple[list[Tensor], Tensor]:
    """A decoder layer for one sentence, and its attention (T, S): z and y are the keys and values of the m words."""
    m, outputs, all_weights = len(z), [], []
    for h, inputs, embedding in zip(
        gated_as_loop(layer.gated, x, layer.gated.convolution.kernel - 1), x, g, strict=True
    ):
        [projected] = linear(layer.attention.query, [h])
        q = (projected + embedding) * sqrt(0.5)
        weights = torch.stack([q @ key for key in z]).softmax(0)
        context = sum(weight * value for weight, value in zip(weights, y, strict=True)) * m * sqrt(1 / m)
        [attended] = linear(layer.attention.out, [context])
        outputs.append(((attended + h) * sqrt(0.5) + inputs) * sqrt(0.5))
        all_weights.append(weights)
    return outputs, torch.stack(all_weights)


def model_as_loop(model: ConvS2S, src: list[int], tgt: list[int]) -> tuple[Tensor, list[Tensor]]:
    """Sections 3.1–3.4 for one sentence, without padding: features (T, D) and the attention of each layer."""
    embedded = [model.source.embedding.weight[s] + model.source.positions.table[i] for i, s in enumerate(src)]
    x = linear(model.encoder_in, embedded)
    for layer in model.encoder:
        gated = gated_as_loop(layer, x, (layer.convolution.kernel - 1) // 2)
        x = [(a + b) * sqrt(0.5) for a, b in zip(gated, x, strict=True)]
    z = linear(model.encoder_out, x)
    y = [(a + b) * sqrt(0.5) for a, b in zip(z, embedded, strict=True)]
    g = [model.target.embedding.weight[s] + model.target.positions.table[i] for i, s in enumerate(tgt)]
    x, attention = linear(model.decoder_in, g), []
    for layer in model.decoder:
        x, weights = layer_as_loop(layer, x, g, z, y)
        attention.append(weights)
    return torch.stack(linear(model.decoder_out, x)), attention


@pytest.mark.parametrize("kernel", [1, 3, 4])
def test_the_model_is_its_definition(kernel: int) -> None:
    """Also for a shorter sentence in a batch: m is its own length."""
    model, trace = make(kernel=kernel), Trace()
    features = model.features(SRC, TGT, trace)
    for row in (0, 1):
        src = [symbol for symbol in SRC[row].tolist() if symbol]
        expected, attention = model_as_loop(model, src, TGT[row].tolist())
        torch.testing.assert_close(features[row], expected, atol=1e-6, rtol=0)
        for i, weights in enumerate(attention):
            recorded = trace[f"decoder.{i}.attention.weights"][row, 0]
            torch.testing.assert_close(recorded[:, : len(src)], weights, atol=1e-6, rtol=0)
            assert not recorded[:, len(src) :].any()


@pytest.mark.parametrize("n_layers", [1, 3])
def test_an_output_depends_on_exactly_the_positions_in_reach(n_layers: int) -> None:
    """A position of z on 1 + l (k - 1) source tokens, a state of the last decoder layer on as many target tokens."""
    model, n, t = make(n_encoder_layers=n_layers, n_decoder_layers=n_layers), 30, 15
    trace, ids = Trace(gradient=True), torch.randint(4, 12, (1, n))
    z = model.encode(ids, trace).source.k[0, 0]
    (source,) = torch.autograd.grad(z[t].sum(), trace["source.embedding"])
    (target,) = torch.autograd.grad(model.features(ids, ids, trace)[0, t].sum(), trace["target.embedding"])

    def reached(gradient: Tensor) -> list[int]:
        return gradient[0].abs().sum(-1).nonzero().flatten().tolist()

    assert reached(source) == list(range(t - n_layers, t + n_layers + 1))
    assert reached(target) == list(range(t - 2 * n_layers, t + 1))


def test_the_initialisation_keeps_the_variance_from_layer_to_layer() -> None:
    torch.manual_seed(1)
    config = ConvS2SConfig(n_encoder_layers=6, n_decoder_layers=1, d_model=256, dropout=0.2, max_positions=64)
    model, trace = ConvS2S(config, 500, 500), Trace()
    model.features(torch.randint(4, 500, (8, 40)), torch.randint(4, 500, (8, 40)), trace)  # in training mode
    variances = [float(trace[name].var()) for name in ("source.sum", "encoder.0.after", "encoder.5.after")]
    assert variances[0] == pytest.approx(0.02, rel=0.1)  # of two normal distributions with a deviation of 0.1
    assert all(0.3 < variance / 0.02 < 1.5 for variance in variances[1:])


def test_the_gradient_of_the_encoder_is_divided_by_the_number_of_attentions() -> None:
    """Section 3.5, in training only; the forward pass and the gradient of the embeddings used as values stay."""
    model = make(n_decoder_layers=2)
    gradients = []
    for is_training in (False, True):
        model.zero_grad()
        model.train(is_training)
        for module in model.modules():
            if hasattr(module, "p"):
                module.p = 0.0  # dropout
        model.features(SRC, TGT).square().sum().backward()
        gradients.append([model.encoder_out.weight.grad.clone(), model.decoder_out.weight.grad.clone()])
    torch.testing.assert_close(gradients[1][0], gradients[0][0] / 2)
    torch.testing.assert_close(gradients[1][1], gradients[0][1])


def test_without_its_head_a_layer_gets_nothing_from_the_source() -> None:
    model = make()
    heads = frozenset([Head("cross", 0, 0), Head("cross", 1, 0)])
    ablated = ablate(model, Interventions(heads_off=heads), 5)
    assert torch.equal(ablated.features(SRC[:1], TGT[:1]), ablated.features(SRC[:1].flip(1), TGT[:1]))
    assert not torch.equal(model.features(SRC[:1], TGT[:1]), model.features(SRC[:1].flip(1), TGT[:1]))
    one_off = ablate(model, Interventions(heads_off=frozenset([Head("cross", 1, 0)])), 5)
    assert not torch.equal(one_off.features(SRC[:1], TGT[:1]), one_off.features(SRC[:1].flip(1), TGT[:1]))


def test_muon_gets_every_matrix_of_the_layers() -> None:
    model = make()
    declared = {id(parameter) for parameter in declared_matrices(model)}
    others = {name for name, p in model.named_parameters() if p.dim() == 2 and id(p) not in declared}
    assert others == {"source.positions.table", "target.positions.table", "target.embedding.weight"}

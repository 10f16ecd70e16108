"""ByteNet: a block and the whole model as plain loops, what an output can depend on, and the unfolded source."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.models.bytenet import ByteNet, ByteNetConfig, ResidualBlock
from regard.nn import Trace
from regard.training.optimizers import declared_matrices

SRC, TGT = (
    torch.tensor([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0]]),
    torch.tensor([[2, 5, 7, 8, 4, 4, 9], [2, 6, 6, 9, 5, 7, 8]]),
)


def make(**config: Any) -> ByteNet:
    """In float64, with no bias 0."""
    torch.manual_seed(3)
    model = ByteNet(ByteNetConfig(**({"d_model": 8, "n_sets": 1, "n_dilations": 3} | config)), 12, 12).double().eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter, std=0.3)
    return model


def normalised(norm: nn.Module, x: Tensor) -> Tensor:
    """ReLU(LayerNorm(x)) of one vector."""
    deviation = x - x.mean()
    return (deviation / (deviation.square().mean() + 1e-5).sqrt() * norm.weight + norm.bias).relu()


def block_as_loop(block: ResidualBlock, x: Tensor, causal: bool) -> Tensor:
    """Figure 3, one position after the other: (T, D) → (T, D)."""
    kernel, dilation, d = block.convolution.kernel, block.convolution.dilation, x.shape[1] // 2
    centre = kernel - 1 if causal else (kernel - 1) // 2
    inner = [
        normalised(block.norms[1], block.reduce.weight @ normalised(block.norms[0], y) + block.reduce.bias) for y in x
    ]
    outputs = []
    for t, y in enumerate(x):
        convolved = block.convolution.bias
        for i in range(kernel):
            position = t + (i - centre) * dilation
            if 0 <= position < len(x):
                convolved = convolved + block.convolution.weight[:, d * i : d * (i + 1)] @ inner[position]
        outputs.append(y + block.expand.weight @ normalised(block.norms[2], convolved) + block.expand.bias)
    return torch.stack(outputs)


def model_as_loop(model: ByteNet, src: list[int], tgt: list[int], n_columns: int) -> Tensor:
    """Embeddings with unit variance, encoder, one column per target position, decoder, two more layers: (T, D)."""
    scale = model.target.weight.shape[1] ** 0.5
    x = torch.stack([model.source.weight[s] * scale for s in src])
    x = torch.cat([x, x.new_zeros(n_columns - len(src), x.shape[1])])
    for block in model.encoder:
        x = block_as_loop(block, x, causal=False)
    y = []
    for t, symbol in enumerate(tgt):
        column = model.encoder_norm(x[t]) if t < n_columns else torch.zeros_like(x[0])
        y.append(model.join.weight @ torch.cat([model.target.weight[symbol] * scale, column]) + model.join.bias)
    y = torch.stack(y)
    for block in model.decoder:
        y = block_as_loop(block, y, causal=True)
    return torch.stack(
        [(model.readout.weight @ normalised(model.decoder_norm, z) + model.readout.bias).relu() for z in y]
    )


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dilation", [1, 2, 4])
def test_a_block_is_its_definition(dilation: int, causal: bool) -> None:
    torch.manual_seed(1)
    block = ResidualBlock(ByteNetConfig(d_model=8, dropout=0), dilation, causal).double()
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    for out, row in zip(block(x), x, strict=True):
        torch.testing.assert_close(out, block_as_loop(block, row, causal), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("ratio", "n_columns"), [(1.0, (5, 3)), (1.2, (6, 4)), (3.0, (15, 9))])
def test_the_model_is_its_definition(ratio: float, n_columns: tuple[int, int]) -> None:
    """With columns for fewer target positions than there are, and for more."""
    model = make(unfold_ratio=ratio)
    features = model.features(SRC, TGT)
    for row in (0, 1):
        src = [symbol for symbol in SRC[row].tolist() if symbol]
        expected = model_as_loop(model, src, TGT[row].tolist(), n_columns[row])
        torch.testing.assert_close(features[row], expected, atol=1e-6, rtol=0)


def test_the_estimated_length_is_rounded_up() -> None:
    lengths = torch.tensor([1, 5, 10, 11])
    assert make().unfolded_lengths(lengths).tolist() == [2, 6, 12, 14]
    assert make(unfold_ratio=1.1, unfold_extra=3).unfolded_lengths(lengths).tolist() == [5, 9, 14, 16]


@pytest.mark.parametrize("n_dilations", [1, 2, 3])
def test_an_output_depends_on_exactly_the_positions_in_reach(n_dilations: int) -> None:
    """A set of dilations 1, 2, 4 … reaches 2 (2^n - 1) positions back in the decoder, and half of it to both sides
    in the encoder; what the decoder reaches of the source is one column per target position."""
    model, n, t = make(n_dilations=n_dilations, unfold_ratio=1.0), 40, 25
    trace, ids = Trace(gradient=True), torch.randint(4, 12, (1, n))
    back = 2 * (2**n_dilations - 1)
    features = model.features(ids, ids, trace)
    source, target = torch.autograd.grad(features[0, t].sum(), [trace["source.embedding"], trace["target.embedding"]])

    def reached(gradient: Tensor) -> list[int]:
        return gradient[0].abs().sum(-1).nonzero().flatten().tolist()

    assert reached(target) == list(range(t - back, t + 1))
    assert reached(source) == list(range(t - back - back // 2, t + back // 2 + 1))


def test_muon_gets_every_matrix_of_the_layers() -> None:
    model = make()
    declared = {id(parameter) for parameter in declared_matrices(model)}
    others = [
        name for name, parameter in model.named_parameters() if parameter.dim() == 2 and id(parameter) not in declared
    ]
    assert others == ["target.weight"]

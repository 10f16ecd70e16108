"""Do Regard's ConvS2S and fairseq's `fconv` compute the same with the same weights?

    git clone https://github.com/facebookresearch/fairseq
    python benchmarks/fairseq_parity.py --fairseq fairseq

fairseq does not install on current Python versions, so only the files of this model are loaded, with stand-ins for the
few names that they take from the rest. Prints the largest difference of the logits in float64.
"""

import argparse
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from regard.models.convs2s import ConvS2S, ConvS2SConfig

D_MODEL, N_ENCODER, N_DECODER, KERNEL, N_SYMBOLS, N_POSITIONS = 16, 4, 3, 3, 40, 50
BLOCKS = ("fairseq_dropout", "grad_multiply", "learned_positional_embedding", "conv_tbc", "linearized_convolution")
SRC = torch.tensor([[5, 6, 7, 8, 9, 10, 3], [9, 4, 3, 0, 0, 0, 0], [11, 12, 13, 14, 3, 0, 0]])
TGT = torch.tensor([[2, 5, 7, 8, 30], [2, 6, 6, 9, 31], [2, 22, 23, 24, 25]])


class Dictionary:
    """What fairseq asks of a vocabulary."""

    def __len__(self) -> int:
        return N_SYMBOLS

    def pad(self) -> int:
        return 0


class Half(nn.Module):
    """Stand-in for fairseq's base classes of encoders and decoders."""

    def __init__(self, dictionary: Dictionary) -> None:
        super().__init__()
        self.dictionary = dictionary


def make_positions(ids: Tensor, padding_idx: int, onnx_trace: bool = False) -> Tensor:
    """fairseq's positions: from padding_idx + 1 on, and padding_idx at padding."""
    is_token = ids.ne(padding_idx).long()
    return is_token.cumsum(1) * is_token + padding_idx


def stand_in(name: str, folder: Path | None = None, **names: Any) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(names, **({} if folder is None else {"__path__": [str(folder)]}))
    sys.modules[name] = module
    return module


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_fconv(package: Path) -> Any:
    """fairseq's models/fconv.py."""
    utils = stand_in(
        "fairseq.utils",
        make_positions=make_positions,
        get_incremental_state=lambda *_: None,
        set_incremental_state=lambda *_: None,
    )
    stand_in("fairseq", package, utils=utils)
    bases = dict.fromkeys(("FairseqEncoder", "FairseqIncrementalDecoder", "FairseqEncoderDecoderModel"), Half)
    registers = dict.fromkeys(
        ("register_model", "register_model_architecture"), lambda *_: lambda registered: registered
    )
    stand_in("fairseq.models", **bases, **registers)
    load("fairseq.incremental_decoding_utils", package / "incremental_decoding_utils.py")
    modules = stand_in("fairseq.modules", package / "modules", AdaptiveSoftmax=None, BeamableMM=None)
    for block in BLOCKS:
        loaded = load(f"fairseq.modules.{block}", package / "modules" / f"{block}.py")
        modules.__dict__.update({name: value for name, value in vars(loaded).items() if name[0].isupper()})
    return load("fconv", package / "models" / "fconv.py")


def make_theirs(fconv: Any) -> tuple[Any, Any]:
    """Encoder and decoder, with random biases and norms of weights."""
    encoder = fconv.FConvEncoder(Dictionary(), D_MODEL, None, N_POSITIONS + 1, ((D_MODEL, KERNEL),) * N_ENCODER)
    layers = ((D_MODEL, KERNEL),) * N_DECODER
    decoder = fconv.FConvDecoder(Dictionary(), D_MODEL, None, D_MODEL, N_POSITIONS + 1, layers, share_embed=True)
    encoder.num_attention_layers = N_DECODER
    for module in (encoder.eval(), decoder.eval()):
        for name, parameter in module.named_parameters():
            if name.endswith(("bias", "weight_g")):
                parameter.data += 0.3 * torch.randn_like(parameter)
            elif "embed" in name:
                parameter.data *= 8
    return encoder, decoder


def make_ours(encoder: Any, decoder: Any) -> ConvS2S:
    """With the same weights: those after weight normalisation, which fairseq computes in its forward pass."""
    sizes = {"n_encoder_layers": N_ENCODER, "n_decoder_layers": N_DECODER, "d_model": D_MODEL, "kernel": KERNEL}
    ours = ConvS2S(ConvS2SConfig(**sizes, max_positions=N_POSITIONS, tie="target"), N_SYMBOLS, N_SYMBOLS).eval()
    pairs = [(ours.encoder_in, encoder.fc1), (ours.encoder_out, encoder.fc2)]
    pairs += [(ours.decoder_in, decoder.fc1), (ours.decoder_out, decoder.fc2)]
    pairs += [(layer.convolution, theirs) for layer, theirs in zip(ours.encoder, encoder.convolutions, strict=True)]
    pairs += [(layer.gated.convolution, w) for layer, w in zip(ours.decoder, decoder.convolutions, strict=True)]
    for layer, attention in zip(ours.decoder, decoder.attention, strict=True):
        pairs += [(layer.attention.query, attention.in_projection), (layer.attention.out, attention.out_projection)]
    for module, theirs in pairs:
        weight = theirs.weight if theirs.weight.dim() == 2 else torch.cat([tap.T for tap in theirs.weight], 1)
        module.weight.data.copy_(weight)
        module.bias.data.copy_(theirs.bias)
    for side, theirs in ((ours.source, encoder), (ours.target, decoder)):
        side.embedding.weight.data.copy_(theirs.embed_tokens.weight)
        side.positions.table.data.copy_(theirs.embed_positions.weight[1:])
    ours.bias.data.copy_(decoder.fc3.bias)
    return ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fairseq", type=Path, required=True, help="a clone of the repository")
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    with torch.no_grad():
        encoder, decoder = make_theirs(load_fconv(args.fairseq / "fairseq"))
        decoder(TGT, encoder(SRC, None))
        ours = make_ours(encoder, decoder)
        for name, rows in (("one sentence", slice(0, 1)), ("with padding", slice(0, 3))):
            logits, _ = decoder(TGT[rows], encoder(SRC[rows], None))
            difference = (ours(SRC[rows], TGT[rows]) - logits).abs().max()
            print(f"{name}: logits up to {logits.abs().max():.1f}, largest difference {difference:.1e}")


if __name__ == "__main__":
    main()

"""Our beam search over a Hugging Face Marian model gives the results of its own `generate`.

Shapes: B batch, S source, T target, V vocabulary
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.decoding import DecodingOptions, decode
from regard.models import Transformer, TransformerConfig

transformers = pytest.importorskip("transformers")

PAD, BEGIN, END, VOCAB = 0, 2, 3, 40
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "decoder_vocab_size": VOCAB,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "activation_function": "relu",
    "scale_embedding": True,
    "dropout": 0.0,
    "init_std": 0.25,
    "pad_token_id": PAD,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
    "decoder_start_token_id": BEGIN,
    "forced_eos_token_id": None,
}


def make_marian(**changes: Any) -> Any:
    torch.manual_seed(3)
    return transformers.MarianMTModel(transformers.MarianConfig(**(SIZES | changes))).eval()


@dataclass(frozen=True)
class Uncached:
    """A state without a cache: the source and all tokens so far. Each step runs the whole decoder."""

    src: Tensor  # (B, S)
    tokens: Tensor  # (B, T)

    def select(self, rows: Tensor) -> Uncached:
        return Uncached(self.src[rows], self.tokens[rows])


def random_sources(n: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(4, VOCAB, (3 + i % 7,), generator=generator).tolist() for i in range(n)]


def padded(sources: list[list[int]]) -> Tensor:
    longest = max(map(len, sources)) + 1
    return torch.tensor([[*source, END, *[PAD] * (longest - len(source) - 1)] for source in sources])


@torch.inference_mode()
def test_beam_search_equals_hugging_face_generate() -> None:
    marian = make_marian(init_std=0.1)
    marian.final_logits_bias[0, END] = 1.2
    marian.final_logits_bias[0, PAD] = -1e4  # `generate` pads with it
    sources, n_best, limit = random_sources(12), 4, 20

    def step(last: Tensor, state: Uncached) -> tuple[Tensor, Uncached]:
        state = replace(state, tokens=torch.cat([state.tokens, last[:, None]], 1))
        visible = (state.src != PAD).long()
        logits = marian(input_ids=state.src, attention_mask=visible, decoder_input_ids=state.tokens).logits
        return logits[:, -1].log_softmax(-1), state

    lengths = set()
    for source in sources:
        src = padded([source])
        start = Uncached(src, src.new_empty(1, 0))
        options = DecodingOptions(beam=4, length_penalty=0.0, extra_length=limit - len(source), n_best=n_best)
        ours = decode(step, start, [source], options, begin_id=BEGIN, end_id=END)[0]
        theirs = marian.generate(
            input_ids=src,
            attention_mask=torch.ones_like(src),
            num_beams=4,
            num_return_sequences=n_best,
            length_penalty=0.0,
            early_stopping=True,
            do_sample=False,
            max_new_tokens=limit,
            return_dict_in_generate=True,
            output_scores=True,
        )
        their_ids = [row[1:][(row[1:] != PAD) & (row[1:] != END)].tolist() for row in theirs.sequences]
        assert [list(hypothesis.ids) for hypothesis in ours] == their_ids
        assert [each.score for each in ours] == pytest.approx(theirs.sequences_scores.tolist(), abs=1e-4)
        lengths.update(len(hypothesis.ids) for hypothesis in ours)
    assert len(lengths) > 5, lengths


@torch.inference_mode()
def test_logits_equal_marians_with_the_same_weights() -> None:
    marian = make_marian(init_std=0.5)
    marian.final_logits_bias.uniform_(-1, 1)
    ours = Transformer(
        TransformerConfig(n_encoder_layers=2, n_decoder_layers=2, d_model=32, d_ff=64, n_heads=4), VOCAB, VOCAB, PAD
    ).eval()
    copy_marian(marian, ours)
    sources = random_sources(8)
    src, tgt_in = padded(sources), torch.randint(4, VOCAB, (8, 11), generator=torch.Generator().manual_seed(1))
    theirs = marian(input_ids=src, attention_mask=(src != PAD).long(), decoder_input_ids=tgt_in).logits
    torch.testing.assert_close(ours(src, tgt_in) + marian.final_logits_bias, theirs, atol=1e-4, rtol=1e-4)


def copy_marian(marian: Any, ours: Transformer) -> None:
    """Copies Marian's weights, and its position table: sines, then cosines, which alternate in the paper."""
    body = marian.model
    ours.target.embedding.weight.copy_(body.shared.weight)
    for side, inner in ((ours.source, body.encoder), (ours.target, body.decoder)):
        side.positions.table = inner.embed_positions.weight.clone()
    for layer, inner in zip(ours.encoder, body.encoder.layers, strict=True):
        _copy_attention(layer.self_attention, inner.self_attn)
        _copy_rest(layer, inner, [inner.self_attn_layer_norm, inner.final_layer_norm])
    for layer, inner in zip(ours.decoder, body.decoder.layers, strict=True):
        _copy_attention(layer.self_attention, inner.self_attn)
        _copy_attention(layer.cross_attention, inner.encoder_attn)
        _copy_rest(layer, inner, [inner.self_attn_layer_norm, inner.encoder_attn_layer_norm, inner.final_layer_norm])


def _copy_attention(ours: Any, theirs: Any) -> None:
    parts = (theirs.q_proj, theirs.k_proj, theirs.v_proj)
    ours.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
    ours.qkv.bias.copy_(torch.cat([part.bias for part in parts]))
    ours.out.load_state_dict(theirs.out_proj.state_dict())


def _copy_rest(ours: Any, theirs: Any, norms: list[Any]) -> None:
    ours.feed_forward.inner.load_state_dict(theirs.fc1.state_dict())
    ours.feed_forward.outer.load_state_dict(theirs.fc2.state_dict())
    for residual, norm in zip(ours.residuals, norms, strict=True):
        residual.norm.load_state_dict(norm.state_dict())

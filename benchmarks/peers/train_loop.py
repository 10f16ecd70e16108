"""A plain training loop over given batches with PyTorch's or Hugging Face's model. Prints one JSON line.

    python train_loop.py {torch|marian} SHAPE.json BATCHES.npz N_STEPS

Runs in its own environment, without regard. Text, vocabulary, model size, optimiser and label smoothing (0.1) are the
same; everything else is the implementation's default.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` with embeddings, positions and the tied softmax added."""

    def __init__(self, shape: dict) -> None:
        super().__init__()
        d_model = shape["d_model"]
        self.embedding = nn.Embedding(shape["n_symbols"], d_model, padding_idx=0)
        self.transformer = nn.Transformer(
            d_model,
            shape["n_heads"],
            shape["n_encoder_layers"],
            shape["n_decoder_layers"],
            shape["d_ff"],
            shape["dropout"],
            batch_first=True,
        )
        self.dropout = nn.Dropout(shape["dropout"])
        position = torch.arange(512)[:, None] / 10_000 ** (torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("waves", torch.stack([position.sin(), position.cos()], -1).flatten(1))

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        scale = self.embedding.embedding_dim**0.5
        return self.dropout(self.embedding(ids) * scale + self.waves[: ids.shape[1]])

    def forward(self, src: torch.Tensor, tgt: torch.Tensor) -> torch.Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        hidden_keys = src == 0
        out = self.transformer(
            self.embed(src),
            self.embed(tgt),
            tgt_mask=causal,
            src_key_padding_mask=hidden_keys,
            memory_key_padding_mask=hidden_keys,
            tgt_is_causal=True,
        )
        return out @ self.embedding.weight.t()


def marian(shape: dict) -> nn.Module:
    """Hugging Face's Marian, of the same shape."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=shape["n_symbols"],
        d_model=shape["d_model"],
        encoder_layers=shape["n_encoder_layers"],
        decoder_layers=shape["n_decoder_layers"],
        encoder_ffn_dim=shape["d_ff"],
        decoder_ffn_dim=shape["d_ff"],
        encoder_attention_heads=shape["n_heads"],
        decoder_attention_heads=shape["n_heads"],
        dropout=shape["dropout"],
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
        use_cache=False,
    )
    return MarianMTModel(config)


def main() -> None:
    peer, shape_file, batches_file, n_steps = sys.argv[1:]
    shape = json.loads(Path(shape_file).read_text())
    arrays = np.load(batches_file)
    n_batches = len(arrays.files) // 3
    batches = [[torch.from_numpy(arrays[f"{name}{i}"]) for name in ("src", "in", "out")] for i in range(n_batches)]
    torch.set_num_threads(shape["n_threads"])
    torch.manual_seed(1)
    model = (TorchTransformer(shape) if peer == "torch" else marian(shape)).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    criterion = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
    n_tokens, started_at = 0, 0.0
    for step in range(-2, int(n_steps)):  # two steps to warm up
        if step == 0:
            started_at = time.perf_counter()
        src, tgt_in, tgt_out = batches[step % n_batches]
        if peer == "torch":
            logits = model(src, tgt_in)
        else:
            logits = model(input_ids=src, attention_mask=(src != 0).long(), decoder_input_ids=tgt_in).logits
        loss = criterion(logits.flatten(0, 1), tgt_out.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step >= 0:
            n_tokens += int((tgt_out != 0).sum())
    seconds = time.perf_counter() - started_at
    print(json.dumps({"tokens_per_second": n_tokens / seconds, "loss": float(loss)}))


if __name__ == "__main__":
    main()

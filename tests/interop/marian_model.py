"""A small directory of MarianMTModel, written by transformers with random weights: what OPUS-MT looks like."""

import io
import json
import random
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers

from regard.demo.street.corpus import generate

TAGS = (">>de<<", ">>es_AR<<")
ODD_LINES = [
    "",
    " ",
    "  two  spaces ",
    "▁ and ▁▁x",
    "ﬁne Ⅷ ½ ™ ＡＢＣ",  # changed by NFKC
    "e\u0301 and é",
    "日本語のテキスト",
    "👩‍👩‍👧 😀",
    "zero\u200bwidth\ufeff\u00ad",
    "control \x01 \x07 character",
    "tab\tand\u00a0no-break",
    "{}[]|~^ #§",
    "ÄÖÜß ẞ ñ ç",
    "</s",
    "a" * 300,
    "1234567890,5 %",
    "¿Qué?",
    "مرحبا",
]


def spm(lines: list[str], size: int, **options: Any) -> bytes:
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=writer,
        vocab_size=size,
        model_type="unigram",
        normalization_rule_name="nmt_nfkc",
        hard_vocab_limit=False,
        minloglevel=3,
        **options,
    )
    return writer.getvalue()


def pieces_of(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [str(processor.id_to_piece(i)) for i in range(processor.get_piece_size())]


def write_vocabulary(directory: Path, tags: tuple[str, ...] = (), leave_out: int = 0) -> int:
    """source.spm, target.spm and vocab.json, whose order has nothing to do with theirs; the number of pieces."""
    pairs = generate(600, seed=3)
    models = [spm([pair.source for pair in pairs], 250), spm([pair.target for pair in pairs] + ["ñandú ¿qué? ☃"], 300)]
    for side, model in zip(("source", "target"), models, strict=True):
        (directory / f"{side}.spm").write_bytes(model)
    union = sorted({piece for model in models for piece in pieces_of(model)} - {"<unk>", "<s>", "</s>"})
    random.Random(1).shuffle(union)
    pieces = ["</s>", "<unk>", *tags, *union[leave_out:], "<pad>"]
    (directory / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    names = {"source_lang": "en", "target_lang": "de", "tokenizer_class": "MarianTokenizer"}
    (directory / "tokenizer_config.json").write_text(json.dumps(names))
    return len(pieces)


def make_marian(n_symbols: int, **changes: Any) -> Any:
    """A MarianMTModel with random weights, in which every tensor matters."""
    config = {
        "vocab_size": n_symbols,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "max_position_embeddings": 512,
        "activation_function": "swish",
        "scale_embedding": True,
        "init_std": 0.1,
        "pad_token_id": n_symbols - 1,
        "eos_token_id": 0,
        "decoder_start_token_id": n_symbols - 1,
        "forced_eos_token_id": None,
    }
    torch.manual_seed(1)
    model = transformers.MarianMTModel(transformers.MarianConfig(**(config | changes))).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                parameter.add_(0.2 * torch.randn_like(parameter))
        model.model.shared.weight[-1] = 0
        model.final_logits_bias.normal_(std=0.5)
        model.final_logits_bias[0, -1] = 0
        model.final_logits_bias[0, 0] = 1.5  # so that translations end
    return model


def write_marian(directory: Path, tags: tuple[str, ...] = (), leave_out: int = 0, **changes: Any) -> Any:
    """Writes a whole directory, and returns its model."""
    directory.mkdir(parents=True)
    model = make_marian(write_vocabulary(directory, tags, leave_out), **changes)
    model.save_pretrained(directory)
    return model

"""Trains the same small Transformer three times: as in the paper, without the causal mask, and without ÷ √d_k.

The page shows the result under "Try it". Takes about two minutes:

    python benchmarks/without_mask_or_scale.py > src/regard/web/try/trained_models.js
    .venv/bin/deno fmt

Loss and accuracy are of the next token on validation sentences of the street corpus, all positions at once, as in
training. "exact" is the share of these sentences that are translated exactly, one token after the other, and
"translation" what the first of them becomes.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard import Tokenizer
from regard.decoding import DecodingOptions
from regard.demo.street.corpus import StreetPair, make_corpus
from regard.lens.ablate import ablate
from regard.lens.interventions import Interventions
from regard.lens.search import search
from regard.models import PRESETS, Transformer
from regard.text import train_tokenizer

STEPS, SHOWN_STEPS = 300, (25, 50, 100, 200, 300)
BATCH, N_VALIDATION = 64, 100
CHANGES = {"paper": Interventions(), "mask": Interventions(mask=False), "scale": Interventions(scale=False)}


class Texts:
    """Pairs as padded batches of ids."""

    def __init__(self, pairs: list[StreetPair]) -> None:
        self.tokenizer = Tokenizer(
            train_tokenizer([text for pair in pairs for text in (pair.source, pair.target)], size=1700)
        )
        self.pad = self.tokenizer.pad_id

    def batch(self, pairs: list[StreetPair]) -> tuple[Tensor, Tensor, Tensor]:
        """Source (B, S), decoder input (B, T), what it should predict (B, T)."""
        code = self.tokenizer
        sources = [[*code.encode(pair.source), code.eos_id] for pair in pairs]
        targets = [code.encode(pair.target) for pair in pairs]
        return (
            self._padded(sources),
            self._padded([[code.bos_id, *ids] for ids in targets]),
            self._padded([[*ids, code.eos_id] for ids in targets]),
        )

    def _padded(self, rows: list[list[int]]) -> Tensor:
        longest = max(map(len, rows))
        return torch.tensor([row + [self.pad] * (longest - len(row)) for row in rows])


def run(texts: Texts, train: list[StreetPair], validation: list[StreetPair], change: Interventions) -> Any:
    """Trains one model and measures it on the way."""
    torch.manual_seed(1)
    rng, size = random.Random(1), texts.tokenizer.size
    config = PRESETS["tiny"].model_copy(update={"dropout": 0.0, "norm": "pre"})
    model = Transformer(config, n_src_symbols=size, n_tgt_symbols=size, pad_id=texts.pad)
    changed = ablate(model, change, 1)  # the same weights
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-9)
    rows = []
    for step in range(1, STEPS + 1):
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(step / 30, (30 / step) ** 0.5)
        src, inputs, outputs = texts.batch(rng.sample(train, BATCH))
        loss = F.cross_entropy(changed(src, inputs).flatten(0, 1), outputs.flatten(), ignore_index=texts.pad)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step in SHOWN_STEPS:
            rows.append({"step": step, **measure(texts, changed, validation)})
            print(change, rows[-1], file=sys.stderr)
    translations = translate(texts, changed, validation, change.mask)
    n_exact = sum(text == pair.target for text, pair in zip(translations, validation, strict=True))
    return {"rows": rows, "translation": translations[0], "exact": n_exact / len(validation)}


@torch.inference_mode()
def measure(texts: Texts, model: Transformer, pairs: list[StreetPair]) -> dict[str, float]:
    src, inputs, outputs = texts.batch(pairs)
    logits, real = model(src, inputs), outputs != texts.pad
    right = (logits.argmax(-1) == outputs)[real].float().mean()
    return {"loss": round(float(F.cross_entropy(logits[real], outputs[real])), 4), "accuracy": round(float(right), 4)}


@torch.inference_mode()
def translate(texts: Texts, model: Transformer, pairs: list[StreetPair], masked: bool) -> list[str]:
    code, src = texts.tokenizer, texts.batch(pairs)[0]
    found = search(model, src, DecodingOptions(beam=1), begin_id=code.bos_id, end_id=code.eos_id, masked=masked)
    return [code.decode(hypothesis.ids) for hypothesis in found]


def main() -> None:
    torch.set_num_threads(1)
    corpus = make_corpus(1, n_train=20_000)
    texts, train, validation = Texts(list(corpus.train)), list(corpus.train), list(corpus.validation)[:N_VALIDATION]
    result = {name: run(texts, train, validation, change) for name, change in CHANGES.items()}
    about = {"sentence": validation[0].source, "validation_sentences": N_VALIDATION}
    content = json.dumps({**about, **result}, ensure_ascii=False)
    print(f"// Made by benchmarks/without_mask_or_scale.py.\n\nexport const TRAINED = {content};")


if __name__ == "__main__":
    main()

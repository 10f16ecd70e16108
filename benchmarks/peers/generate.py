"""Hugging Face `generate` on given weights and sources. Prints one JSON line.

    python generate.py FOLDER N_THREADS BEAM BATCH

FOLDER has config.json and marian.safetensors (a Marian model), and sources.json (ids, with the end symbol). Runs in
its own environment, without regard. Batches are sorted by length; an output may have 50 tokens more than its source.
"""

import json
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import GenerationConfig, MarianConfig, MarianMTModel


def main() -> None:
    folder, n_threads, beam, batch = Path(sys.argv[1]), *map(int, sys.argv[2:])
    torch.set_num_threads(n_threads)
    model = MarianMTModel(MarianConfig(**json.loads((folder / "config.json").read_text()))).eval()
    missing, unexpected = model.load_state_dict(load_file(folder / "marian.safetensors"), strict=False)
    assert not unexpected and not [name for name in missing if "lm_head" not in name and "embed_tokens" not in name]
    sources = json.loads((folder / "sources.json").read_text())
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    outputs: dict[int, list[int]] = {}
    started_at = time.perf_counter()
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        longest = max(len(sources[i]) for i in rows)
        ids = torch.tensor([sources[i] + [0] * (longest - len(sources[i])) for i in rows])
        config = GenerationConfig(
            num_beams=beam,
            max_new_tokens=longest + 50,
            length_penalty=0.6,
            early_stopping=True,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=3,
            decoder_start_token_id=2,
        )
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=(ids != 0).long(), generation_config=config)
        for i, row in zip(rows, out.tolist(), strict=True):
            outputs[i] = [token for token in row if token not in (0, 2, 3)]
    seconds = time.perf_counter() - started_at
    print(json.dumps({"seconds": seconds, "outputs": [outputs[i] for i in range(len(sources))]}))


if __name__ == "__main__":
    main()

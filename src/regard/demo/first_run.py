"""Train on reversed digits, then ask the model for strings that it has never seen."""

from pathlib import Path

import torch

from regard.artifact import LoadedModel, load_model
from regard.demo.digits import reversed_digits, write_digits
from regard.recipe import Watcher, train

SETTINGS = {
    "model": {"preset": "tiny", "n_encoder_layers": 2, "n_decoder_layers": 2, "norm": "pre"},
    "training": {
        "steps": 800,
        "max_tokens": 2048,
        "schedule": "cooldown",
        "rate": 0.003,
        "warmup": 100,
        "clip": 1.0,
        "save_every": 200,
        "validate_every": 200,
        "average": 1,
    },
}


def first_run(out: Path, watcher: Watcher) -> list[str]:
    """Lines that show what the model learned."""
    source, target = write_digits(out / "text", 20_000, seed=1)
    recipe = {**SETTINGS, "data": {"train": [{"source": str(source), "target": str(target)}]}}
    train(recipe, out / "run", watcher=watcher)
    loaded = load_model(out / "run")
    known = set(source.read_text(encoding="utf-8").split("\n"))
    unseen = [pair for pair in reversed_digits(1_000, seed=2) if pair[0] not in known]
    n_right = sum(_greedy(loaded, asked) == answer for asked, answer in unseen[:200])
    lines = [f"{asked}  →  {_greedy(loaded, asked)}" for asked, _ in unseen[:5]]
    return [*lines, f"{n_right} of 200 strings that it had never seen came out right"]


def _greedy(loaded: LoadedModel, text: str) -> str:
    """The likeliest symbol each time, until the end symbol."""
    tokenizers, model = loaded.tokenizers, loaded.model
    src = torch.tensor([[*tokenizers.source.encode(text), tokenizers.source.eos_id]])
    ids: list[int] = [tokenizers.target.bos_id]
    with torch.inference_mode():
        state = model.start(model.encode(src))
        while ids[-1] != tokenizers.target.eos_id and len(ids) < src.shape[1] + 50:
            log_probs, state = model.step(torch.tensor([ids[-1]]), state)
            ids.append(int(log_probs.argmax()))
    return tokenizers.target.decode(ids)

"""Run directories as training writes them, without training."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

Event = dict[str, Any]
RECIPE = """[data]
held_out = 0.1

[[data.train]]
source = "a.en"
target = "a.de"

[model]
n_encoder_layers = 2
n_decoder_layers = 3
d_model = 128
n_heads = 4
"""


def step(number: int, *, steps: int = 100, nll: float = 1.0, **fields: Any) -> Event:
    return {
        "event": "step", "at": "2026-01-02T03:04:05.678+00:00", "step": number, "steps": steps, "rate": 0.001,
        "loss": nll + 1, "nll": nll, "norm": 1.0, "n_tokens": 1000, "tokens_per_second": 500.0,
        "elapsed_seconds": 10 + 2.0 * number, **fields,
    }  # fmt: skip


def validation(number: int, translation: str = "ein Hund", **fields: Any) -> Event:
    samples = [{"source": "a dog", "reference": "ein Hund", "translation": translation}]
    return {
        "event": "validation", "step": number, "best": True, "loss": 0.5, "perplexity": 1.6487, "accuracy": 0.8,
        "bleu": 31.4, "chrf": 52.7, "samples": samples, **fields,
    }  # fmt: skip


def finished(**facts: Any) -> Event:
    head = {"layer": 1, "head": 2, "sharpness": 0.95, "agreement": 0.86, "n_links": 400}
    defaults = {"steps": 100, "n_pairs": 4000, "perplexity": 1.1, "bleu": 96.4, "chrf": 98.8, "alignment_head": head}
    return {"event": "finished", "path": "x", "elapsed_seconds": 9.0, **defaults, **facts}


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    def make(events: Iterable[Event], tail: str = "") -> Path:
        run = tmp_path / "runs" / "en-de"
        run.mkdir(parents=True, exist_ok=True)
        (run / "recipe.toml").write_text(RECIPE)
        lines = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)
        (run / "journal.jsonl").write_text(lines + tail)
        return run

    return make

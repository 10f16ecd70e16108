"""What is measured of a trained model: scores, speed, and the operations that its training took."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from regard.artifact import describe, load_model
from regard.durable import write_file
from regard.evaluate import score
from regard.models import Model
from regard.nn import TRAINING_FLOPS
from regard.run import Callbacks, Recipe, read_recipe
from regard.run.build import prepare_run
from regard.translator import Translator

_WARM_UP = 20  # sentences


def measured(run: Path, what: str, compute: Callable[[], dict[str, Any]], *texts: Sequence[str]) -> dict[str, Any]:
    """The result of `compute`, kept in a file beside the run until its model or the texts change."""
    file, digest = run.with_name(f"{run.name}.{what}.json"), hashlib.sha256(describe(run).digest.encode())
    for lines in texts:
        digest.update("\n".join(lines).encode())
    of = digest.hexdigest()
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        if stored["of"] == of:
            return dict(stored["values"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    values = compute()
    write_file(file, (json.dumps({"of": of, "values": values}, ensure_ascii=False, indent=1) + "\n").encode())
    return values


def measure_quality(run: Path, sources: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Translations, their scores with intervals and by length, and how many sentences are translated per second.

    All architectures translate with PyTorch, so that their speeds can be compared.
    """
    with Translator.load(run, engine="torch") as translator:
        translator.translate(sources[:_WARM_UP])
        started_at = perf_counter()
        outputs = [translation.text for translation in translator.translate(sources)]
        seconds = perf_counter() - started_at
    n_exact = sum(output == reference for output, reference in zip(outputs, references, strict=True))
    return score(outputs, [references], sources=sources).to_dict() | {
        "exact": n_exact / len(outputs),
        "sentences_per_second": len(outputs) / seconds,
        "perplexity": describe(run).facts["perplexity"],
        "outputs": outputs,
    }


def measure_training(run: Path) -> dict[str, Any]:
    """Size, speed, and floating-point operations: those of the formulas, times the tokens that were learned from."""
    steps = training_steps(run)
    model = load_model(run).model
    n_tokens = sum(step["n_tokens"] for step in steps)
    return {
        "n_parameters": model.n_parameters,
        "steps": len(steps),
        "seconds_per_step": median(step["n_tokens"] / step["tokens_per_second"] for step in steps),
        "tokens_per_second": median(step["tokens_per_second"] for step in steps),
        "elapsed_seconds": steps[-1]["elapsed_seconds"],
        "n_tokens": n_tokens,
        "flops": n_tokens * flops_per_token(run, model),
    }


def training_steps(run: Path) -> list[dict[str, Any]]:
    """The steps in the journal. A step that was repeated after an interruption counts once."""
    with (run / "journal.jsonl").open(encoding="utf-8") as journal:
        events = (json.loads(line) for line in journal if line.endswith("\n"))
        steps = {event["step"]: event for event in events if event["event"] == "step"}
    return [steps[number] for number in sorted(steps)]


def flops_per_token(run: Path, model: Model) -> float:
    """Of training, per target token, by the lengths of the training pairs; without padding."""
    recipe = Recipe.build(read_recipe(run / "recipe.toml"))
    lengths = np.stack(prepare_run(recipe, None, run, Callbacks()).data.train.lengths, 1) + 1  # (N, 2): with eos or bos
    pairs, counts = np.unique(lengths, axis=0, return_counts=True)
    flops = sum(int(n) * model.cost(*map(int, pair)).flops for pair, n in zip(pairs, counts, strict=True))
    return TRAINING_FLOPS * flops / float(lengths[:, 1].sum())

"""The events of a run whose task regard does not have: tags of words, with two measures of its own."""

from typing import Any

Event = dict[str, Any]
MEASURES = [
    {"name": "loss", "label": "loss", "digits": 3, "higher_is_better": False, "is_share": False},
    {"name": "error", "label": "error", "digits": 1, "higher_is_better": False, "is_share": True},
    {"name": "f1", "label": "F1", "digits": 2, "higher_is_better": True, "is_share": False},
]


def events(n_steps: int = 40) -> list[Event]:
    """A finished run with a validation every 10 steps; the third is the best."""
    plan = {
        "event": "plan", "task": "tagging", "architecture": "chain", "size": "2 layers of 8", "unit": "words",
        "measures": MEASURES, "examples": "sentences", "n_pairs": 500, "n_validation": 50, "n_parameters": 1_200_000,
        "steps": n_steps, "steps_an_epoch": 10, "seconds_a_step": 0.5, "device": "cpu", "precision": "float32",
        "budget_seconds": None,
    }  # fmt: skip
    steps: list[Event] = []
    for n in range(1, n_steps + 1):
        steps.append(
            {
                "event": "step",
                "step": n,
                "steps": n_steps,
                "rate": 0.001,
                "loss": 5 / n,
                "nll": 4 / n,
                "norm": 1.0,
                "losses": {"tags": 3 / n, "edges": 1 / n},
                "n_tokens": 100,
                "tokens_per_second": 900.0,
                "elapsed_seconds": n / 2,
            }
        )
        if n % 10 == 0:
            error = abs(n - 30) / 100 + 0.05
            sample = {"words": "dogs <bark>", "gold": "NOUN VERB", "tags": "NOUN VERB" if n >= 30 else "NOUN NOUN"}
            steps.append(
                {
                    "event": "validation",
                    "step": n,
                    "best": n <= 30,
                    "loss": 4 / n,
                    "error": error,
                    "f1": 0.9 - error,
                    "samples": [sample],
                }
            )
    facts = {"n_pairs": 500, "measures": MEASURES, "loss": 0.1, "error": 0.04, "f1": 0.91}
    return [plan, *steps, {"event": "finished", "path": "x", "elapsed_seconds": 20.0, **facts}]

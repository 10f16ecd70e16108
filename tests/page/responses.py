"""Responses of the fake server: the format of the real ones, with predictable content."""

from __future__ import annotations

import random
from typing import Any

from regard.metrics import TRANSLATION_MEASURES

HEADS, LAYERS, D_K, D_FF = 4, 2, 2, 12
D_MODEL = HEADS * D_K

Json = dict[str, Any]

EXAMPLES = {"texts": ["good it day", "good it night"], "head": {"attention": "encoder", "layer": 1, "head": 2}}


def model(name: str, source: str | None = None, *targets: str, training: bool = True) -> Json:
    """A row of /v1/models."""
    config = {"d_model": D_MODEL, "n_encoder_layers": LAYERS, "n_decoder_layers": LAYERS, "n_heads": HEADS}
    rest = {"engine": "torch", "n_parameters": 1000, "training": training, "ready": True, "examples": EXAMPLES}
    return {"name": name, "source": source, "targets": list(targets), "config": config, **rest}


def translated(text: str) -> str:
    """Every word reversed."""
    return " ".join(word[::-1] for word in text.split())


def translate_response(body: Json) -> Json:
    texts = body["text"] if isinstance(body["text"], list) else [body["text"]]
    return {"model": body["model"], "milliseconds": 12.3, "translations": [_translation(text) for text in texts]}


def _translation(text: str) -> Json:
    words = text.split()
    loops = "la la la la" in text
    return {
        "text": translated(text),
        "score": -0.1,
        "words": [{"text": word[::-1], "probability": 1 / (1 + place % 4)} for place, word in enumerate(words)],
        "source_words": words,
        "alignment": [[place, place] for place in range(len(words))],
        "tokens": [],
        "alternatives": [
            {"text": translated(text).upper(), "score": -0.7},
            {"text": translated(text).title(), "score": -1.3},
        ],
        "warnings": ["loops"] if loops else [],
        "n_parts": 1,
    }


def look_response(body: Json) -> Json:
    """A look with random numbers; the words of the translation are reversed."""
    rng = random.Random(body["text"])
    source = _side([*body["text"].split(), "</s>"])
    target = body["translation"] or translated(body["text"])
    inputs, outputs = _side(["<s>", *target.split()]), _side([*target.split(), "</s>"])
    n_src, n_tgt = len(source["pieces"]), len(inputs["pieces"])
    encoder = [_attention(rng, "encoder", layer, n_src, n_src) for layer in range(LAYERS)]
    decoder = [
        _attention(rng, use, layer, n_tgt, n_tgt if use == "decoder" else n_src)
        for layer in range(LAYERS)
        for use in ("decoder", "cross")
    ]
    changes = {"heads_off": [], "scale": True, "mask": True, "positions": "normal"} | body["interventions"]
    return {
        "format": "regard-look/1",
        "model": _model(),
        "source": {"text": body["text"], **source},
        "target": {"text": target, "given": body["translation"] is not None, "inputs": inputs, "outputs": outputs},
        "embedding": {"source": _embedding(rng, n_src), "target": _embedding(rng, n_tgt)},
        "attentions": encoder + decoder,
        "sublayers": _sublayers(rng, n_src, n_tgt),
        "feed_forward": [
            {"stack": stack, "layer": layer, "hidden": _array(rng, n, D_FF)}
            for stack, n in (("encoder", n_src), ("decoder", n_tgt))
            for layer in range(LAYERS)
        ],
        "steps": [_step(piece["text"]) for piece in outputs["pieces"]],
        "log_probability": -1.5,
        "beam": None,
        "interventions": changes,
        "change": _change(target, changes),
    }


def _model() -> Json:
    sizes = {"d_model": D_MODEL, "d_ff": D_FF, "n_heads": HEADS, "d_k": D_K, "n_parameters": 1000}
    sizes |= {"n_encoder_layers": LAYERS, "n_decoder_layers": LAYERS, "n_src_symbols": 50, "n_tgt_symbols": 50}
    kinds = {"norm": "pre", "activation": "relu", "attention": "scaled_dot_product", "positions": "sinusoidal"}
    return {
        "name": "fake",
        "tie": "all",
        "alignment_head": {"layer": 1, "head": 0},
        "label_smoothing": 0.1,
        **sizes,
        **kinds,
    }


def _side(words: list[str]) -> Json:
    special = {"<s>", "</s>"}
    pieces = [{"text": f"▁{w}" if w not in special else w, "id": n, "word": n} for n, w in enumerate(words)]
    return {
        "pieces": [piece | {"special": piece["text"] in special} for piece in pieces],
        "words": [{"text": w, "pieces": [n], "special": w in special} for n, w in enumerate(words)],
    }


def _array(rng: random.Random, *shape: int) -> Any:
    if not shape:
        return round(rng.uniform(-2, 2), 3)
    return [_array(rng, *shape[1:]) for _ in range(shape[0])]


def _attention(rng: random.Random, use: str, layer: int, rows: int, columns: int) -> Json:
    weights = []
    for _ in range(HEADS):
        matrix = [[rng.random() ** 6 for _ in range(columns)] for _ in range(rows)]
        weights.append([[cell / sum(row) for cell in row] for row in matrix])
    visible = [[int(c <= r) for c in range(columns)] for r in range(rows)] if use == "decoder" else None
    return {
        "attention": use,
        "layer": layer,
        "q": _array(rng, HEADS, rows, D_K),
        "k": _array(rng, HEADS, columns, D_K),
        "v": _array(rng, HEADS, columns, D_K),
        "scores": _array(rng, HEADS, rows, columns),
        "scaled": _array(rng, HEADS, rows, columns),
        "visible": visible,
        "weights": weights,
        "heads": _array(rng, HEADS, rows, D_K),
    }


def _embedding(rng: random.Random, n: int) -> Json:
    return {name: _array(rng, n, D_MODEL) for name in ("embedded", "position", "sum")}


def _sublayers(rng: random.Random, n_src: int, n_tgt: int) -> list[Json]:
    stacks = [("encoder", n_src, ("self", "feed_forward")), ("decoder", n_tgt, ("self", "cross", "feed_forward"))]
    return [
        {"stack": stack, "layer": layer, "name": name}
        | {norm: _array(rng, n) for norm in ("norm_before", "norm_added", "norm_after")}
        | {"added": _array(rng, n, D_MODEL), "after": _array(rng, n, D_MODEL)}
        for stack, n, names in stacks
        for layer in range(LAYERS)
        for name in names
    ]


def _step(text: str) -> Json:
    top = [{"text": text, "id": 0, "probability": 0.6}]
    top += [{"text": f"▁{n}", "id": n, "probability": 0.04} for n in range(1, 10)]
    return {"chosen": top[0], "top": top, "entropy": 1.0}


def _change(target: str, changes: Json) -> Json | None:
    """Each head that is off removes a word; any other change replaces the first word by "?"."""
    n_off = len(changes["heads_off"])
    has_other_change = not changes["scale"] or not changes["mask"] or changes["positions"] != "normal"
    if not n_off and not has_other_change:
        return None
    words = target.split()
    after = words[: max(1, len(words) - n_off)]
    after = ["?", *after[1:]] if has_other_change else after
    return {
        "before": {"text": target, "log_probability": -1.5, "words": _words(words, 0.9)},
        "after": {"text": " ".join(after), "log_probability": -4.0, "words": _words(after, 0.5)},
        "of_before": {"log_probability": -6.5 if changes["mask"] else -50.0, "words": _words(words, 0.2)},
        "of_before_in_use": {"log_probability": -6.5, "words": _words(words, 0.2)},
    }


def _words(words: list[str], probability: float) -> list[Json]:
    return [{"text": word, "probability": probability} for word in words]


def projection_response(body: Json) -> Json:
    """Inputs and matrices of the right shapes, with random numbers."""
    rng, n = random.Random(1), len(body["text"].split()) + 1
    return {
        name: {"x": _array(rng, n, D_MODEL), "weight": _array(rng, D_MODEL, D_K), "bias": _array(rng, D_K)}
        for name in "qkv"
    }


def heads_response() -> Json:
    heads = [
        {"attention": use, "layer": layer, "head": head, "accuracy_drop": 0.01 * head, "loss_rise": 0.1 * head}
        | {"entropy": 1.0, "distance": 1.0, "previous": 0.1, "same": 0.1, "next": 0.1, "end": 0.1, "bleu_drop": None}
        for use in ("encoder", "decoder", "cross")
        for layer in range(LAYERS)
        for head in range(HEADS)
    ]
    baseline = {"accuracy": 0.9, "loss": 0.5, "bleu": None}
    return {"format": "regard-heads/1", "n_sentences": 100, "baseline": baseline, "heads": heads}


def training_response(step: int, state: str) -> Json:
    """A training run of 200 steps, at this step."""
    steps = [
        {
            "step": n,
            "loss": 8 / (1 + n / 20),
            "nll": 7.5 / (1 + n / 20),
            "perplexity": 50 / (1 + n / 9),
            "rate": min(n / 50, (50 / n) ** 0.5) / 1e3,
        }
        | {"tokens_per_second": 2500.0, "elapsed_seconds": n * 0.8}
        for n in range(1, step + 1)
    ]
    validations = [
        {
            "step": n,
            "loss": 7 / (1 + n / 20),
            "perplexity": 40 / (1 + n / 9),
            "accuracy": 0.5,
            "bleu": n / 6,
            "chrf": n / 4,
        }
        for n in range(25, step + 1, 25)
    ]
    translations = [
        {"step": row["step"], "text": "das Tier war zu " + ("müde ." if n else "breit .")}
        for n, row in enumerate(validations)
    ]
    return {
        "format": "regard-run/2",
        "measures": [measure._asdict() for measure in TRANSLATION_MEASURES],
        "unit": "tokens",
        "name": "fake",
        "state": state,
        "recipe": {"training": {"steps": 200}},
        "plan": None,
        "n_steps": 200,
        "corpora": [],
        "notes": [],
        "steps": steps,
        "validations": validations,
        "samples": [
            {
                "given": {"source": "the animal was too tired .", "reference": "das Tier war zu müde ."},
                "expected": "das Tier war zu müde .",
                "outputs": translations,
            }
        ],
        "findings": [
            {
                "kind": "duplicates",
                "severity": "warning",
                "count": 3,
                "lines": [3, 9],
                "message": "3 pairs are there twice.",
                "advice": "Remove them.",
            }
        ],
        "speed": {},
        "facts": None,
        "eta_seconds": 12.0,
    }

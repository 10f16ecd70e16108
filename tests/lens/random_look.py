"""Looks of small Transformers with random weights, of any size, in the JSON format of `Look.to_dict`; without torch.

S source, T target, D d_model, H heads, K d_k
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

SOURCE = "The animal did not cross the street because it was too tired ."
TARGET = "Das Tier überquerte die Straße nicht , weil es zu müde war ."


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The model and the sentence pair of a look."""

    n_encoder_layers: int = 2
    n_decoder_layers: int = 2
    d_model: int = 32
    d_ff: int = 64
    n_heads: int = 4
    norm: str = "pre"
    attention: str = "scaled_dot_product"
    positions: str = "sinusoidal"
    given: bool = False
    source: str = SOURCE
    target: str = TARGET
    max_letters: int = 7  # longer words are split into two pieces
    lists: bool = False  # arrays as nested lists instead of base64
    smoothing: float | None = 0.1


def pieces_of(
    text: str, max_letters: int, end: str | None, start: str | None = None
) -> dict[str, list[dict[str, Any]]]:
    """The words of a text; those with more than `max_letters` letters are split into two pieces."""
    pieces: list[dict[str, Any]] = []
    words: list[dict[str, Any]] = []

    def add(parts: list[str], word: str, special: bool) -> None:
        indices = range(len(pieces), len(pieces) + len(parts))
        pieces.extend(
            {"text": part, "id": sum(map(ord, part)) % 997, "word": len(words), "special": special} for part in parts
        )
        words.append({"text": word, "pieces": list(indices), "special": special})

    if start:
        add([start], start, True)
    for word in text.split():
        parts = [word] if len(word) <= max_letters else [word[: max_letters - 2], word[max_letters - 2 :]]
        add(["▁" + parts[0], *parts[1:]], word, False)
    if end:
        add([end], end, True)
    return {"pieces": pieces, "words": words}


def softmax(x: Numbers) -> Numbers:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def sinusoid(n: int, d_model: int) -> Numbers:
    angle = np.arange(n)[:, None] / 10_000 ** (np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(n, -1)[:, :d_model]


def layer_norm(x: Numbers) -> Numbers:
    return np.asarray((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5))


class RandomModel:
    """A Transformer with random weights; `run` records everything that it computes."""

    def __init__(self, shape: Shape, seed: int = 1) -> None:
        self.shape, self.random = shape, np.random.default_rng(seed)
        self.attentions: list[dict[str, Any]] = []
        self.sublayers: list[dict[str, Any]] = []
        self.feed_forward: list[dict[str, Any]] = []

    def array(self, x: Numbers) -> Any:
        if self.shape.lists:
            return x.astype("<f4").tolist()
        return {"shape": list(x.shape), "float32": base64.b64encode(x.astype("<f4").tobytes()).decode()}

    def matrix(self, rows: int, columns: int, gain: float = 1.0) -> Numbers:
        return self.random.normal(0, gain * rows**-0.5, (rows, columns))

    def embedded(self, ids: list[int]) -> tuple[dict[str, Any], Numbers]:
        d = self.shape.d_model
        table = np.random.default_rng(7).normal(0, d**-0.5, (997, d)) * d**0.5
        rows = table[ids]
        learned = np.random.default_rng(9).normal(0, 0.3, (200, d))[: len(ids)]
        position = sinusoid(len(ids), d) if self.shape.positions == "sinusoidal" else learned
        total = rows + position
        record = {"embedded": self.array(rows), "position": self.array(position), "sum": self.array(total)}
        return record, total

    def attend(self, kind: str, layer: int, x: Numbers, memory: Numbers) -> Numbers:
        shape, d = self.shape, self.shape.d_model
        n_heads, d_k = shape.n_heads, d // shape.n_heads

        def heads(y: Numbers) -> Numbers:
            return (y @ self.matrix(d, d, 1.5)).reshape(len(y), n_heads, d_k).transpose(1, 0, 2)

        q, k, v = heads(x), heads(memory), heads(memory)
        if shape.attention == "additive":
            scores = np.tanh(q[:, :, None] + k[:, None]) @ self.random.normal(0, d_k**-0.5, d_k)
        else:
            scores = q @ k.transpose(0, 2, 1)
        scaled = scores * (d_k**-0.5 if shape.attention == "scaled_dot_product" else 1)
        visible = np.tril(np.ones((len(x), len(memory)))) if kind == "decoder" else None
        weights = softmax(scaled if visible is None else np.where(visible > 0, scaled, -np.inf))
        out = weights @ v
        values = {"q": q, "k": k, "v": v, "scores": scores, "scaled": scaled, "weights": weights, "heads": out}
        record = {name: self.array(value) for name, value in values.items()}
        record["visible"] = None if visible is None else self.array(visible)
        self.attentions.append({"attention": kind, "layer": layer, **record})
        return np.asarray(out.transpose(1, 0, 2).reshape(len(x), d) @ self.matrix(d, d))

    def feed(self, stack: str, layer: int, x: Numbers) -> Numbers:
        hidden = np.maximum(0, x @ self.matrix(self.shape.d_model, self.shape.d_ff))
        self.feed_forward.append({"stack": stack, "layer": layer, "hidden": self.array(hidden)})
        return hidden @ self.matrix(self.shape.d_ff, self.shape.d_model)

    def residual(self, stack: str, layer: int, name: str, x: Numbers, sublayer: Any) -> Numbers:
        post = self.shape.norm == "post"
        added = sublayer(x if post else layer_norm(x))
        after = layer_norm(x + added) if post else x + added
        norms = {"norm_before": x, "norm_added": added, "norm_after": after}
        record = {key: self.array(np.linalg.norm(value, axis=-1)) for key, value in norms.items()}
        record |= {"added": self.array(added), "after": self.array(after)}
        self.sublayers.append({"stack": stack, "layer": layer, "name": name, **record})
        return np.asarray(after)

    def run(self, source: list[int], target: list[int]) -> tuple[dict[str, Any], Numbers]:
        source_embedding, x = self.embedded(source)
        for i in range(self.shape.n_encoder_layers):
            x = self.residual("encoder", i, "self", x, lambda h, i=i: self.attend("encoder", i, h, h))
            x = self.residual("encoder", i, "feed_forward", x, lambda h, i=i: self.feed("encoder", i, h))
        z = layer_norm(x)
        target_embedding, y = self.embedded(target)
        for i in range(self.shape.n_decoder_layers):
            y = self.residual("decoder", i, "self", y, lambda h, i=i: self.attend("decoder", i, h, h))
            y = self.residual("decoder", i, "cross", y, lambda h, i=i: self.attend("cross", i, h, z))
            y = self.residual("decoder", i, "feed_forward", y, lambda h, i=i: self.feed("decoder", i, h))
        return {"source": source_embedding, "target": target_embedding}, softmax(
            layer_norm(y) @ self.matrix(len(y[0]), 997, 2)
        )


def make_steps(outputs: list[dict[str, Any]], probabilities: Numbers) -> list[dict[str, Any]]:
    steps = []
    for piece, row in zip(outputs, probabilities, strict=True):
        row = 0.4 * row
        row[piece["id"]] += 0.6
        best = np.argsort(-row)[:10]
        top = [
            {"text": piece["text"] if i == piece["id"] else f"▁w{i}", "id": int(i), "probability": float(row[i])}
            for i in best
        ]
        steps.append({"chosen": top[0], "top": top, "entropy": float(-(row * np.log(row)).sum())})
    return steps


def make_beam(steps: list[dict[str, Any]], width: int = 4) -> dict[str, Any]:
    """A beam tree: the best path, and at each step the other hypotheses, kept or dropped."""
    nodes: list[dict[str, Any]] = [
        {"id": 0, "parent": None, "step": 0, "text": "<s>", "log_prob": 0.0, "total": 0.0}
        | {"score": None, "kept": True, "finished": False, "best": True}
    ]
    parent = 0
    for number, step in enumerate(steps, start=1):
        is_last, previous = number == len(steps), parent
        for rank, word in enumerate(step["top"][: width + 2]):
            total = nodes[previous]["total"] + float(np.log(word["probability"]))
            finished = is_last and rank == 0
            nodes.append(
                {"id": len(nodes), "parent": previous, "step": number, "text": word["text"]}
                | {"log_prob": float(np.log(word["probability"])), "total": total, "kept": rank < width}
                | {
                    "score": total / ((5 + number) / 6) ** 0.6 if finished else None,
                    "finished": finished,
                    "best": rank == 0,
                }
            )
            parent = len(nodes) - 1 if rank == 0 else parent
    return {"width": width, "nodes": nodes}


def make_look(shape: Shape | None = None) -> dict[str, Any]:
    shape = shape or Shape()
    source = pieces_of(shape.source, shape.max_letters, "</s>")
    inputs = pieces_of(shape.target, shape.max_letters, None, "<s>")
    outputs = pieces_of(shape.target, shape.max_letters, "</s>")
    model = RandomModel(shape)
    embedding, probabilities = model.run([p["id"] for p in source["pieces"]], [p["id"] for p in inputs["pieces"]])
    steps = make_steps(outputs["pieces"], probabilities)
    return {
        "format": "regard-look/1",
        "model": {
            "name": "random",
            "n_encoder_layers": shape.n_encoder_layers,
            "n_decoder_layers": shape.n_decoder_layers,
            "d_model": shape.d_model,
            "d_ff": shape.d_ff,
            "n_heads": shape.n_heads,
            "d_k": shape.d_model // shape.n_heads,
            "norm": shape.norm,
            "activation": "relu",
            "attention": shape.attention,
            "positions": shape.positions,
            "tie": "all",
            "n_parameters": 123_456,
            "n_src_symbols": 997,
            "n_tgt_symbols": 997,
            "alignment_head": {"layer": shape.n_decoder_layers - 1, "head": 0},
            "label_smoothing": shape.smoothing,
        },
        "source": {"text": shape.source, **source},
        "target": {"text": shape.target, "given": shape.given, "inputs": inputs, "outputs": outputs},
        "embedding": embedding,
        "attentions": model.attentions,
        "sublayers": model.sublayers,
        "feed_forward": model.feed_forward,
        "steps": steps,
        "log_probability": float(sum(np.log(step["chosen"]["probability"]) for step in steps)),
        "beam": None if shape.given else make_beam(steps),
        "interventions": {"heads_off": [], "scale": True, "mask": True, "positions": "normal"},
        "change": None,
    }

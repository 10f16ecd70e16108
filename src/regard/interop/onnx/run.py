"""Runs exported graphs with onnxruntime: greedy search with the cache, as other programs do it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.interop.onnx.graph import Array

ENCODER, DECODER, INT8 = "encoder_model", "decoder_model_merged", "_quantized"


class OnnxTranslator:
    """The two graphs of a directory; `suffix` is INT8 for those with quantised weights."""

    def __init__(self, directory: Path, suffix: str = "") -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        self._encoder, self._decoder = (
            onnxruntime.InferenceSession(str(directory / f"{name}{suffix}.onnx"), options, ["CPUExecutionProvider"])
            for name in (ENCODER, DECODER)
        )
        self._outputs = [output.name for output in self._decoder.get_outputs()]
        self._past = {
            value.name: (value.shape[1], value.shape[3])
            for value in self._decoder.get_inputs()
            if value.name.startswith("past_key_values.")
        }

    def start(self, sources: Sequence[Sequence[int]], pad_id: int) -> dict[str, Any]:
        """The decoder's inputs before the first token: an encoded source, and empty caches. `sources` end with eos."""
        ids = padded(sources, pad_id)
        mask = (np.arange(ids.shape[1]) < np.array([[len(source)] for source in sources])).astype(np.int64)
        (memory,) = self._encoder.run(None, {"input_ids": ids, "attention_mask": mask})
        caches = {name: np.zeros((len(ids), h, 0, k), np.float32) for name, (h, k) in self._past.items()}
        return {"encoder_hidden_states": memory, "encoder_attention_mask": mask} | caches

    def step(self, ids: Array, state: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
        """(B, T) next tokens → logits (B, T, V), and the state that includes them."""
        results = dict(zip(self._outputs, self._decoder.run(None, state | {"input_ids": ids}), strict=True))
        logits: Array = results.pop("logits")
        return logits, state | {name.replace("present", "past_key_values"): value for name, value in results.items()}

    def greedy(
        self, sources: Sequence[Sequence[int]], limit: int, *, pad_id: int, start_id: int, end_id: int
    ) -> list[list[int]]:
        """The most likely token at each step, until all have ended, or to the limit; without start and end tokens."""
        state = self.start(sources, pad_id)
        last = np.full((len(sources), 1), start_id)
        tokens: list[Array] = []
        ended = np.zeros(len(sources), bool)
        while len(tokens) < limit and not ended.all():
            logits, state = self.step(last, state)
            last = logits[:, -1].argmax(-1)[:, None]
            ended |= last[:, 0] == end_id
            tokens.append(last)
        rows = np.concatenate(tokens, 1).tolist()
        return [row[: row.index(end_id)] if end_id in row else row for row in rows]


def padded(rows: Sequence[Sequence[int]], pad_id: int) -> Array:
    longest = max(map(len, rows))
    return np.array([[*row, *[pad_id] * (longest - len(row))] for row in rows], np.int64)

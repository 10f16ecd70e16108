"""Exports a translator to ONNX, with the tokenizer files of Hugging Face beside it."""

from __future__ import annotations

import logging
import re
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from regard.errors import UserError
from regard.interop.marian.write import (
    MAX_LENGTH,
    N_POSITIONS,
    Ids,
    config_of,
    generation_config,
    order_ids,
    tokenizer_notes,
    write_json,
    write_tokenizer,
)
from regard.interop.onnx.graph import Array, write_model
from regard.interop.onnx.run import DECODER, ENCODER, INT8, OnnxTranslator
from regard.interop.onnx.translator import decoder_graph, encoder_graph
from regard.interop.original import Exported, Original, Target
from regard.interop.probe import IMPOSSIBLE, MAX_DIFFERENCE
from regard.text.vocabulary import BOS_ID, EOS_ID, PAD_ID

_INSTALL = "in Regard's directory, run: pip install '.[onnx]'"
_BATCH = 20  # lines


def export_onnx(original: Original, target: Target) -> Exported:
    """onnx/encoder_model.onnx and decoder_model_merged.onnx, the same with int8 weights, and the tokenizer."""
    config = original.config
    if config.attention == "additive":
        raise original.refused("model.attention = 'additive' is not written to ONNX")
    can_quantize = find_spec("onnxruntime") is not None and find_spec("onnx") is not None
    if target.quantization == "int8" and not can_quantize:
        raise UserError("onnx and onnxruntime are not installed, and quantise to int8", hint=_INSTALL)
    ids, directory = order_ids(original), target.directory / "onnx"
    write_tokenizer(original, target, ids)
    write_json(
        target, "config.json", config_of(original, ids) | {"model_type": "marian", "architectures": ["MarianMTModel"]}
    )
    write_json(target, "generation_config.json", generation_config(original, ids))
    directory.mkdir()
    n_positions = config.max_length or N_POSITIONS
    original.report("writing the graphs", 0, None)
    _write_graphs(original, directory, ids, n_positions)
    has_int8 = can_quantize and target.quantization != "float32"
    if has_int8:
        _quantize(original, directory, ids, n_positions)
    verified, not_verified = _check(original, directory, ids, has_int8)
    notes = [*tokenizer_notes(original), f"a text has at most {n_positions} tokens"]
    if not has_int8 and target.quantization is None:
        notes.append(f"without int8, which needs onnx and onnxruntime ({_INSTALL})")
    values = {
        "SUFFIX": INT8 if has_int8 else "",
        "TARGET_VOCABULARY": "vocab" if original.loaded.tokenizers.joint else "target_vocab",
        "MAX_LENGTH": str(min(MAX_LENGTH, n_positions) - 1),
    }
    usage = re.sub("|".join(values), lambda match: values[match[0]], _USAGE)
    return Exported(usage=usage, verified=verified, not_verified=not_verified, notes=tuple(notes))


@torch.inference_mode()
def _write_graphs(original: Original, directory: Path, ids: Ids, n_positions: int, is_quantized: bool = False) -> None:
    model = original.model
    graphs = {
        ENCODER: encoder_graph(model, ids.source, n_positions),
        DECODER: decoder_graph(model, ids.target, n_positions, is_quantized),
    }
    for name, graph in graphs.items():
        (directory / f"{name}.onnx").write_bytes(write_model(graph))


def _quantize(original: Original, directory: Path, ids: Ids, n_positions: int) -> None:
    """Matrices in int8; activations are quantised while the model runs."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with TemporaryDirectory(dir=directory) as scratch:
        _write_graphs(original, Path(scratch), ids, n_positions, is_quantized=True)
        logging.disable(logging.WARNING)  # advice to optimise the graphs first, which would lose their names
        try:
            for i, name in enumerate((ENCODER, DECODER)):
                original.report("quantising", i, 2)
                quantize_dynamic(
                    Path(scratch) / f"{name}.onnx",
                    directory / f"{name}{INT8}.onnx",
                    weight_type=QuantType.QInt8,
                    per_channel=True,
                    extra_options={"EnableSubgraph": True},
                )
        finally:
            logging.disable(logging.NOTSET)


def _check(original: Original, directory: Path, ids: Ids, has_int8: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What was verified, and what was not."""
    not_verified = (
        "the tokenizer, by Hugging Face's code: regard export --to huggingface writes the same files, and does",
    )
    if find_spec("onnxruntime") is None:
        return (), (f"onnxruntime is not installed, so the graphs were not run ({_INSTALL})", *not_verified)
    import onnxruntime

    software, probe = f"onnxruntime {onnxruntime.__version__}", original.probe
    exact = OnnxTranslator(directory)
    difference = _difference(original, exact, ids)
    probe.require(difference <= MAX_DIFFERENCE, software, f"computes log-probabilities that differ by {difference:.1g}")
    translations = _translate(original, exact, ids)
    compared = probe.compare(translations, software)
    verified = [f"{software}: log-probabilities within {difference:.0e}, {compared}"]
    if has_int8:
        quantized = _translate(original, OnnxTranslator(directory, INT8), ids)
        n_equal = sum(a == b for a, b in zip(translations, quantized, strict=True))
        verified.append(f"{software}: int8 translates {n_equal} of {len(translations)} {probe.origin} as float32 does")
    return tuple(verified), not_verified


def _difference(original: Original, translator: OnnxTranslator, ids: Ids) -> float:
    """The largest difference between log-probabilities: of the first half at once, then token by token."""
    largest, source_of, target_of = 0.0, _inverse(ids.source), _inverse(ids.target)
    for source, hypothesis in zip(original.probe.sources[:_BATCH], original.probe.hypotheses, strict=False):
        src, tgt = [*source, EOS_ID], [BOS_ID, *hypothesis.ids]
        with torch.inference_mode():
            ours = original.model(torch.tensor([src]), torch.tensor([tgt]))[0, :, ids.target].numpy()
        theirs = np.array([target_of[i] for i in tgt])[None]
        theirs[0, 0] = ids.start
        state = translator.start([[source_of[i] for i in src]], source_of[PAD_ID])
        half = (len(tgt) + 1) // 2
        parts = [theirs[:, :half], *(theirs[:, i : i + 1] for i in range(half, len(tgt)))]
        logits = []
        for part in parts:
            found, state = translator.step(part, state)
            logits.append(found[0])
        expected = _log_softmax(ours)
        differences = np.abs(_log_softmax(np.concatenate(logits)) - expected)
        largest = max(largest, float(differences[expected > IMPOSSIBLE].max()))
    return largest


def _translate(original: Original, translator: OnnxTranslator, ids: Ids) -> list[list[int]]:
    """Greedy translations of the lines, as our ids."""
    probe, source_of, translations = original.probe, _inverse(ids.source), []
    symbols = {"pad_id": source_of[PAD_ID], "start_id": ids.start, "end_id": ids.of(EOS_ID)}
    for start in range(0, len(probe.sources), _BATCH):
        original.report("translating with onnxruntime", start, len(probe.sources))
        sources = [[source_of[i] for i in [*source, EOS_ID]] for source in probe.sources[start : start + _BATCH]]
        found = translator.greedy(sources, max(probe.limits[start : start + _BATCH]), **symbols)
        translations += [[ids.target[i] for i in row] for row in found]
    return translations


def _inverse(order: list[int]) -> dict[int, int]:
    """Their id for each of ours; the begin token that an imported model does without is padding."""
    inverse = {our_id: i for i, our_id in enumerate(order)}
    return {BOS_ID: inverse[PAD_ID]} | inverse


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


_USAGE = """```python
import json
from pathlib import Path

import numpy
import onnxruntime
import sentencepiece

encoder, decoder = (
    onnxruntime.InferenceSession(f"onnx/{name}SUFFIX.onnx") for name in ("encoder_model", "decoder_model_merged")
)
source, target = (sentencepiece.SentencePieceProcessor(model_file=f"{side}.spm") for side in ("source", "target"))
source_ids, target_ids, config = (
    json.loads(Path(f"{name}.json").read_text("utf-8")) for name in ("vocab", "TARGET_VOCABULARY", "config")
)
pieces = {i: piece for piece, i in target_ids.items()}


def translate(text, max_length=MAX_LENGTH):
    ids = [source_ids.get(piece, source_ids["<unk>"]) for piece in source.encode(text, out_type=str)]
    ids = numpy.array([[*ids, config["eos_token_id"]]])
    mask = numpy.ones_like(ids)
    (memory,) = encoder.run(None, {"input_ids": ids, "attention_mask": mask})
    state = {"encoder_hidden_states": memory, "encoder_attention_mask": mask}
    for value in decoder.get_inputs():  # caches, empty before the first token
        if value.name.startswith("past_key_values"):
            state[value.name] = numpy.zeros((1, value.shape[1], 0, value.shape[3]), numpy.float32)
    last, words = config["decoder_start_token_id"], []
    while len(words) < max_length:
        outputs = decoder.run(None, state | {"input_ids": numpy.array([[last]])})
        outputs = dict(zip((value.name for value in decoder.get_outputs()), outputs))
        last = int(outputs.pop("logits")[0, -1].argmax())
        state |= {name.replace("present", "past_key_values"): value for name, value in outputs.items()}
        if last == config["eos_token_id"]:
            break
        words.append(pieces[last])
    return target.decode_pieces(words)


print(translate("A sentence."))
```"""

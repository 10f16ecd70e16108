"""Exports a translator to CTranslate2 as others use it: sub-words are tokens, and SentencePiece is beside it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.decoding import DecodingOptions
from regard.engines.ctranslate2.convert import Quantization, convert, unsupported_reason
from regard.engines.ctranslate2.engine import CTranslate2Engine
from regard.engines.engine import shipped_precision
from regard.interop.original import Exported, Original, Target
from regard.interop.probe import EXTRA_LENGTH, MIN_EQUAL
from regard.text.normalise import normalise
from regard.text.standalone import standalone_model


def export_ctranslate2(original: Original, target: Target) -> Exported:
    """model.bin, config.json and the vocabularies of CTranslate2; source.spm and target.spm."""
    quantization = write_model(original, target, target.directory / "model")
    for path in (target.directory / "model").iterdir():
        path.rename(target.directory / path.name)
    (target.directory / "model").rmdir()
    tokenizers = original.loaded.tokenizers
    for name, tokenizer in (("source.spm", tokenizers.source), ("target.spm", tokenizers.target)):
        (target.directory / name).write_bytes(standalone_model(tokenizer))
    notes = [f"the weights are stored as {quantization}"]
    if tokenizers.source.tags:
        notes.append(f"the target language is the first token of the source: `>>{tokenizers.source.tags[0]}<<`")
    return Exported(usage=_USAGE, verified=(_check(original, target.directory, quantization),), notes=tuple(notes))


def write_model(original: Original, target: Target, directory: Path) -> Quantization:
    """The CTranslate2 model, and the precision of its weights: by default the one that was measured to be good."""
    if reason := unsupported_reason(original.model):
        raise original.refused(reason)
    quantization = target.quantization or shipped_precision(original.loaded.facts)
    original.report(f"converting to {quantization}", 0, None)
    convert(original.loaded, directory, quantization, for_others=True)
    return quantization


def _check(original: Original, directory: Path, quantization: Quantization) -> str:
    """Translates with the two libraries alone, as the usage shows it, and with our engine at the same precision."""
    import ctranslate2
    import sentencepiece

    probe = original.probe
    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(directory / f"{side}.spm")) for side in ("source", "target")
    )
    tag = [] if probe.tag is None else [f">>{probe.tag}<<"]
    tokens = [tag + pieces for pieces in source.encode(probe.lines, out_type=str)]
    original.report("translating with ctranslate2", 0, None)
    translator: Any = ctranslate2.Translator(str(directory), device="cpu")
    results = translator.translate_batch(tokens, beam_size=1, max_decoding_length=max(probe.limits))
    theirs = [target.decode_pieces(result.hypotheses[0]) for result in results]
    ours = _our_texts(original, quantization)
    n_equal = sum(normalise(a).startswith(b) for a, b in zip(theirs, ours, strict=True))
    software = f"ctranslate2 {ctranslate2.__version__} and sentencepiece {sentencepiece.__version__}"
    problem = f"translate {n_equal} of {len(ours)} {probe.origin} as regard does"
    probe.require(n_equal >= MIN_EQUAL * len(ours), software, problem)
    return f"{software}: translations of {n_equal} of {len(ours)} {probe.origin}"


def _our_texts(original: Original, quantization: Quantization) -> list[str]:
    """Greedy translations of the lines by our engine, at the same precision."""
    options = DecodingOptions(beam=1, extra_length=EXTRA_LENGTH)
    with TemporaryDirectory() as scratch:
        convert(original.loaded, Path(scratch) / "model", "float32")
        with closing(CTranslate2Engine(Path(scratch) / "model", compute_type=quantization)) as engine:
            found = engine.translate(original.probe.sources, options)
    return [original.loaded.tokenizers.target.decode(hypotheses[0].ids) for hypotheses in found]


_USAGE = """```python
import ctranslate2
import sentencepiece

source = sentencepiece.SentencePieceProcessor(model_file="source.spm")
target = sentencepiece.SentencePieceProcessor(model_file="target.spm")
translator = ctranslate2.Translator(".")
(result,) = translator.translate_batch([source.encode("A sentence.", out_type=str)])
print(target.decode_pieces(result.hypotheses[0]))
```"""

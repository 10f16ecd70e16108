"""Installs an exported package with Argos Translate, and compares what it translates with our own search.

Argos Translate reads its settings and makes directories when it is imported, so it runs in a process of its own, with
everything in a temporary directory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.engines.ctranslate2.convert import Quantization, convert
from regard.interop.original import Original
from regard.interop.probe import MIN_EQUAL
from regard.text.vocabulary import EOS_ID

_PARAGRAPHS = 2
_SEARCH: dict[str, Any] = {"beam_size": 4, "num_hypotheses": 1, "length_penalty": 0.2}  # that of Argos Translate
_PROGRAM = """
import json, sys
from argostranslate import package, translate
from argostranslate.sbd import MiniSBDSentencizer
from minisbd import models

def refuse(*arguments, **settings):
    raise RuntimeError("it tried to download")

models.urllib.request.urlretrieve = refuse
file, source, target = sys.argv[1:]
package.install_from_path(file)
translation = translate.get_translation_from_codes(source, target)
splitter = translation.underlying.sentencizer
for line in sys.stdin:
    text = json.loads(line)
    print(json.dumps([len(splitter.split_sentences(text)), translation.translate(text)]), flush=True)
"""


def check_argos(
    original: Original, package: Path, quantization: Quantization
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What was verified, and what was not."""
    if find_spec("argostranslate") is None:
        return (), ("Argos Translate is not installed, so the package was not (pip install argos-translate-lt)",)
    probe, software = original.probe, f"Argos Translate {_version()}"
    lines = [line.replace("_", " ") for line in probe.lines]
    original.report("translating with Argos Translate", 0, None)
    results = translate_with_argos(package, [*lines, "\n".join(lines[:_PARAGRAPHS])])
    probe.require(results is not None, software, "could not install or run the package")
    assert results is not None
    single = [(line, text) for line, (n_sentences, text) in zip(lines, results, strict=False) if n_sentences == 1]
    ours = _our_texts(original, [line for line, _ in single], quantization)
    n_equal = sum(text.strip() == own for (_, text), own in zip(single, ours, strict=True))
    problem = f"translates {n_equal} of {len(single)} {probe.origin} as regard does"
    probe.require(n_equal >= MIN_EQUAL * len(single), software, problem)
    parts = [text for _, text in results[: min(_PARAGRAPHS, len(lines))]]
    probe.require(results[-1][1].split("\n") == parts, software, "does not keep paragraphs")
    return (
        f"{software} installs it, downloads nothing, keeps paragraphs, and translates {n_equal} of {len(single)} "
        f"{probe.origin} (of one sentence each) as regard does with the same search",
    ), ()


def translate_with_argos(package: Path, texts: list[str]) -> list[tuple[int, str]] | None:
    """The number of sentences and the translation of each text; None if the program fails."""
    source, _, target = package.stem.split("-")[1].partition("_")
    with TemporaryDirectory() as home:
        variables = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
        result = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _PROGRAM, str(package), source, target],
            input="".join(json.dumps(text) + "\n" for text in texts),
            env=os.environ | dict.fromkeys(variables, home) | {"ARGOS_PACKAGES_DIR": f"{home}/packages"},
            capture_output=True,
            text=True,
            check=False,
        )
    if result.returncode:
        sys.stderr.write(result.stderr[-2000:])
        return None
    return [(n, text) for n, text in map(json.loads, result.stdout.splitlines())]


def _our_texts(original: Original, lines: list[str], quantization: Quantization) -> list[str]:
    """By our tokenizer and the same weights, without sub-words as strings, with the search of Argos Translate."""
    import ctranslate2

    tokenizers = original.loaded.tokenizers
    sources = [[*map(str, ids), str(EOS_ID)] for ids in tokenizers.source.encode_many(lines)]
    with TemporaryDirectory() as scratch:
        convert(original.loaded, Path(scratch) / "model", quantization)
        translator: Any = ctranslate2.Translator(str(Path(scratch) / "model"), device="cpu")
        settings = _SEARCH | {"replace_unknowns": tokenizers.joint}
        results = translator.translate_batch(sources, max_batch_size=32, batch_type="tokens", **settings)
    texts = [tokenizers.target.decode([int(token) for token in result.hypotheses[0]]) for result in results]
    return [text.replace("\u2581", " ").replace("_", " ") for text in texts]


def _version() -> str:
    for name in ("argos-translate-lt", "argostranslate"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""

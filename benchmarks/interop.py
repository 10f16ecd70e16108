"""Exported models beside the original, by the code of the other software, on real text.

    regard train … --out RUN          # a pre-norm model, and another with --set model.norm=post
    python benchmarks/interop.py RUN [RUN …] --source FILE --reference FILE [--libretranslate]

Adds a row per check to results/interop.md: ids and beams in transformers, round trips, Argos Translate,
LibreTranslate's server in an environment of its own (peers/libretranslate.txt), onnxruntime and int8.
"""

import argparse
import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from environment import peer_python, peer_version
from regard.artifact import LoadedModel, load_model
from regard.decoding import DecodingOptions
from regard.engines.torch_engine import TorchEngine
from regard.evaluate.measures import build_measures
from regard.interop.argos.check import translate_with_argos
from regard.interop.exporting import export_model
from regard.interop.importing import import_model
from regard.interop.onnx.run import INT8, OnnxTranslator
from regard.models import named_weights

RESULTS = Path(__file__).parent / "results" / "interop.md"
N_BEAMS, N_ARGOS, LIMIT = 200, 500, 60
NOTE = (
    "Beams can differ where two translations are equally probable, up to the order of additions. LibreTranslate copies "
    "the last punctuation of the source\nto the translation, and Argos Translate is asked for lines of one sentence."
)
Check = Callable[[Path, LoadedModel, Path, list[str], list[str]], str]


def in_transformers(run: Path, loaded: LoadedModel, work: Path, sources: list[str], references: list[str]) -> str:
    """Ids of all lines; beams, ranked without a length penalty, because it is another one there."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    export_model(run, "huggingface", work / "huggingface")
    tokenizer = transformers.AutoTokenizer.from_pretrained(work / "huggingface")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(work / "huggingface").eval()
    ours = loaded.tokenizers.source.encode_many(sources)
    order = [json.loads((work / "huggingface" / "vocab.json").read_text())[s] for s in loaded.tokenizers.source.symbols]
    theirs = tokenizer(sources)["input_ids"]
    n_ids = sum([order[i] for i in a] == b[:-1] for a, b in zip(ours, theirs, strict=True))
    n_beams, engine = 0, TorchEngine(loaded)
    for source in ours[:N_BEAMS]:
        options = DecodingOptions(beam=4, length_penalty=0.0, extra_length=LIMIT - len(source))
        mine = [order[i] for i in engine.translate([source], options)[0][0].ids]
        (row,) = model.generate(
            input_ids=torch.tensor([[*(order[i] for i in source), order[3]]]),
            num_beams=4,
            length_penalty=0.0,
            early_stopping=True,
            max_length=LIMIT + 1,
        ).tolist()
        special = {order[3], model.config.pad_token_id, model.config.decoder_start_token_id}
        n_beams += mine == [i for i in row if i not in special]
    return f"ids {n_ids:,} of {len(ours):,} lines; beams {n_beams} of {min(N_BEAMS, len(ours))}"


def round_trip(run: Path, loaded: LoadedModel, work: Path, sources: list[str], references: list[str]) -> str:
    """The export, imported."""
    import_model(work / "huggingface", work / "again")
    again = named_weights(load_model(work / "again").model)
    weights = named_weights(loaded.model)
    n_equal = sum(name in again and torch.equal(tensor, again[name]) for name, tensor in weights.items())
    return f"{n_equal} of {len(weights)} tensors equal to the bit"


def in_argos(run: Path, loaded: LoadedModel, work: Path, sources: list[str], references: list[str]) -> str:
    """The same text as by our tokenizer and CTranslate2 with the search of Argos Translate, for single sentences."""
    export_model(run, "argos", work / "argos")
    (package,) = (work / "argos").glob("*.argosmodel")
    results = translate_with_argos(package, sources[:N_ARGOS])
    if results is None:
        return "failed"
    texts = our_argos_texts(work, package, loaded, sources[:N_ARGOS])
    same = [a.strip() == b for (n, a), b in zip(results, texts, strict=True) if n == 1 and "_" not in a + b]
    return f"{sum(same)} of {len(same)} lines of one sentence"


def our_argos_texts(work: Path, package: Path, loaded: LoadedModel, lines: list[str]) -> list[str]:
    """Our ids and our decoding around the model in the package."""
    import zipfile

    import ctranslate2

    with zipfile.ZipFile(package) as archive:
        archive.extractall(work / "package")
    translator: Any = ctranslate2.Translator(str(work / "package" / package.stem / "model"), device="cpu")
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    tokens = [[source.symbols[i] for i in ids] for ids in source.encode_many(lines)]
    ids = {piece: i for i, piece in enumerate(target.symbols)}
    results = translator.translate_batch(
        tokens, beam_size=4, length_penalty=0.2, max_batch_size=32, batch_type="tokens", replace_unknowns=True
    )
    return [target.decode([ids[piece] for piece in result.hypotheses[0]]) for result in results]


def in_libretranslate(run: Path, loaded: LoadedModel, work: Path, sources: list[str], references: list[str]) -> str:
    """What its server answers, offline, with the package installed; in an environment of its own."""
    (package,) = (work / "argos").glob("*.argosmodel")
    source, _, target = package.stem.split("-")[1].partition("_")
    home, python = work / "libretranslate", peer_python("libretranslate")
    (home / "data" / "argos-translate").mkdir(parents=True)
    (home / "data" / "argos-translate" / "index.json").write_text("[]")  # it would ask GitHub
    environment = os.environ | {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
    }
    install = f"from argostranslate import package; package.install_from_path({str(package)!r})"
    subprocess.run([python, "-c", install], env=environment, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = ["-c", "from libretranslate import main; main()", "--host", "127.0.0.1", "--port", str(port)]
    options = ["--load-only", f"{source},{target}", "--disable-web-ui", "--disable-files-translation"]
    log = (work / "libretranslate.log").open("w")
    server = subprocess.Popen([python, *start, *options], env=environment, cwd=home, stdout=log, stderr=log)
    try:
        texts = [ask(server, port, line, source, target) for line in sources[:N_ARGOS]]
    except RuntimeError as error:
        return f"{error}: {(work / 'libretranslate.log').read_text()[-300:]!r}"
    finally:
        server.terminate()
        server.wait()
        log.close()
    expected = [text.strip() for _, text in translate_with_argos(package, sources[:N_ARGOS]) or []]
    n_equal = sum(a.strip() == b for a, b in zip(texts, expected, strict=True))
    n_but_end = sum(apart_from_end(a) == apart_from_end(b) for a, b in zip(texts, expected, strict=True))
    return (
        f"{n_but_end} of {len(texts)} lines as Argos Translate apart from the end, {n_equal} with it "
        f"({peer_version('libretranslate', 'libretranslate')})"
    )


def apart_from_end(text: str) -> str:
    """LibreTranslate copies the last punctuation of the source, and its case if it has only one."""
    return text.strip().rstrip("!?.,;。").lower()


def ask(server: "subprocess.Popen[bytes]", port: int, text: str, source: str, target: str) -> str:
    """One translation; waits until the server has started."""
    body = json.dumps({"q": text, "source": source, "target": target}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/translate", body, {"Content-Type": "application/json"}, method="POST"
    )
    for _ in range(600):
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return str(json.load(response)["translatedText"])
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"HTTP {error.code}, {error.read()[:200]!r}") from error
        except (urllib.error.URLError, ConnectionError):
            if server.poll() is not None:
                raise RuntimeError("the server ended") from None
            time.sleep(0.5)
    raise RuntimeError("the server does not answer")


def in_onnxruntime(run: Path, loaded: LoadedModel, work: Path, sources: list[str], references: list[str]) -> str:
    """Greedy translations of torch and both precisions, and their BLEU."""
    export_model(run, "onnx", work / "onnx")
    config = json.loads((work / "onnx" / "config.json").read_text())
    ids = json.loads((work / "onnx" / "vocab.json").read_text())
    order = [ids.get(symbol, config["pad_token_id"]) for symbol in loaded.tokenizers.source.symbols]
    our_id = {their_id: i for i, their_id in enumerate(order)}
    encoded = loaded.tokenizers.source.encode_many(sources)
    symbols = {"pad_id": order[0], "start_id": config["decoder_start_token_id"], "end_id": order[3]}
    greedy = DecodingOptions(beam=1, extra_length=LIMIT)
    expected = [list(found[0].ids) for found in TorchEngine(loaded).translate(encoded, greedy)]
    bleu, texts = build_measures([references]).bleu, {}
    for suffix in ("", INT8):
        translator, found = OnnxTranslator(work / "onnx" / "onnx", suffix), []
        for i in range(0, len(encoded), 20):
            rows = [[order[j] for j in [*ids, 3]] for ids in encoded[i : i + 20]]
            found += translator.greedy(rows, max(map(len, rows)) + LIMIT, **symbols)
        texts[suffix] = [[our_id[i] for i in row] for row in found]
    limits = [len(ids) + LIMIT for ids in encoded]
    n_equal = sum(a[:n] == b for a, b, n in zip(texts[""], expected, limits, strict=True))
    scores = [
        bleu.measure([loaded.tokenizers.target.decode(ids) for ids in texts[suffix]]).value for suffix in ("", INT8)
    ]
    return f"{n_equal} of {len(expected)} lines as torch; BLEU {scores[0]:.2f}, int8 {scores[1] - scores[0]:+.2f}"


CHECKS: dict[str, Check] = {
    "transformers": in_transformers,
    "export → import": round_trip,
    "Argos Translate": in_argos,
    "onnxruntime": in_onnxruntime,
}


def read_lines(path: Path, n: int) -> list[str]:
    with path.open(encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in islice(file, n)]


def measure(run: Path, sources: list[str], references: list[str], checks: dict[str, Check]) -> Sequence[str]:
    """The rows of one run."""
    loaded, rows = load_model(run), []
    described = f"{loaded.config.describe()}, {getattr(loaded.config, 'norm', '')}-norm"
    with tempfile.TemporaryDirectory() as work:
        for name, check in checks.items():
            result = check(run, loaded, Path(work), sources, references)
            rows.append(f"| {date.today()} | {described} | {name} | {result} |")
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--libretranslate", action="store_true", help="also start its server")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    sources, references = (read_lines(path, args.lines) for path in (args.source, args.reference))
    checks = CHECKS | ({"LibreTranslate": in_libretranslate} if args.libretranslate else {})
    rows = [row for run in args.runs for row in measure(run, sources, references, checks)]
    header = f"# Exports beside the original\n\n{NOTE}\n\n| date | model | by | result |\n|---|---|---|---|\n"
    table = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else header
    RESULTS.write_text(table + "".join(f"{row}\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()

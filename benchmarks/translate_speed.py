"""Translation speed of one model, compared with CTranslate2 and Hugging Face: lines per second, start-up, agreement.

    python benchmarks/translate_speed.py --data DIR [--model RUN] [--lines 10000]

Without --model a SMALL, post-norm model is trained first (--budget). DIR has train.en, train.de, test_2016_flickr.en
and .de, as in Multi30k. The contenders run in alternation, each in its own process; the figures are medians.

With --torch-only, only our torch engine and `generate` are compared, on a CPU with AVX-512 also with AVX2 alone.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import ctranslate2
import torch
from sacrebleu import corpus_bleu

from environment import peer_python, peer_version
from marian_weights import write_marian
from regard.artifact import describe, load_model
from regard.decoding import DecodingOptions
from regard.translator import Translator

HERE = Path(__file__).parent
CT2_SETTINGS = [
    (2, 1, 1024),
    (2, 1, 2048),
]  # workers, threads per worker, tokens; one worker with two threads is half as fast


REGARD_ENVIRONMENT = {"GOMP_SPINCOUNT": "20000"}  # as cli/__init__.py sets it; the others get the environment unchanged
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}


def train(data: Path, out: Path, budget: str) -> None:
    """A SMALL model (d 256, ffn 1024, 4 heads, 3+3 layers), post-norm so that Marian has the same shape."""
    sides = ["--source", str(data / "train.en"), "--target", str(data / "train.de")]
    valid = ["--valid-source", str(data / "val.en"), "--valid-target", str(data / "val.de")]
    settings = ["model.preset=small", "model.norm=post", "training.rate=0.001", "text.vocabulary=10000"]
    more = [word for setting in settings for word in ("--set", setting)]
    subprocess.run(
        [sys.executable, "-m", "regard", "train", *sides, *valid, "--out", str(out), "--budget", budget, *more],
        check=True,
    )


def regard_seconds(model: Path, source: Path, out: Path, beam: int, engine: str, threads: int) -> float:
    """The whole command: start-up, reading, translating and writing."""
    command = [sys.executable, "-m", "regard", "translate", str(model), str(source), "--out", str(out)]
    started_at = time.perf_counter()
    subprocess.run(
        [*command, "--beam", str(beam), "--engine", engine, "--threads", str(threads)], check=True, capture_output=True
    )
    return time.perf_counter() - started_at


def ct2_seconds(directory: Path, sources: list[list[str]], beam: int, setting: tuple[int, int, int]) -> float:
    """CTranslate2's own API on token ids, sorted by length; no tokenising and no writing."""
    workers, threads, tokens = setting
    translator = ctranslate2.Translator(
        str(directory), compute_type="int8", inter_threads=workers, intra_threads=threads
    )
    ordered = sorted(sources, key=len, reverse=True)
    translator.translate_batch(ordered[:64], beam_size=beam)
    started_at = time.perf_counter()
    translator.translate_batch(
        ordered, beam_size=beam, max_batch_size=tokens, batch_type="tokens", max_decoding_length=100, length_penalty=0.6
    )
    return time.perf_counter() - started_at


def torch_engine(folder: Path, model: Path, beam: int, threads: int, env: dict[str, str]) -> tuple[float, list[str]]:
    """Seconds and translations of our torch engine with tokenising; as with `generate`, loading is not included."""
    command = [sys.executable, __file__, "--ours", str(model), str(folder / "few.txt"), str(beam), str(threads)]
    return run_json(command, REGARD_ENVIRONMENT | env)


def ours(model: Path, source: Path, beam: int, threads: int) -> None:
    """Print the seconds that our torch engine takes, and its translations."""
    lines = source.read_text().splitlines()
    with Translator.load(model, engine="torch", threads=threads) as translator:
        started_at = time.perf_counter()
        translations = translator.translate(lines, options=DecodingOptions(beam=beam))
        seconds = time.perf_counter() - started_at
    print(json.dumps({"seconds": seconds, "outputs": [translation.text for translation in translations]}))


def generate(
    folder: Path, sources: list[list[int]], beam: int, threads: int, env: dict[str, str]
) -> tuple[float, list[list[int]]]:
    """Seconds and output ids of Hugging Face `generate`."""
    (folder / "sources.json").write_text(json.dumps(sources))
    program = [str(peer_python("huggingface")), str(HERE / "peers" / "generate.py")]
    return run_json([*program, str(folder), str(threads), str(beam), "64"], env)


def run_json(command: list[str], env: dict[str, str]) -> tuple[float, list]:
    """The seconds and outputs that a program prints as its last line."""
    process = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | env)
    printed = json.loads(process.stdout.splitlines()[-1])
    return printed["seconds"], printed["outputs"]


def cold_start(model: Path, threads: int) -> float:
    """Seconds for one sentence, including start-up."""
    command = [sys.executable, "-m", "regard", "translate", str(model), "--threads", str(threads)]
    started_at = time.perf_counter()
    subprocess.run(command, input=b"A man is riding a bike.\n", check=True, capture_output=True)
    return time.perf_counter() - started_at


def agreement(model: Path, data: Path, folder: Path, threads: int) -> list[str]:
    """BLEU of each engine on the test set with beam 4, and how often it agrees with torch."""
    reference = (data / "test_2016_flickr.de").read_text().splitlines()
    outputs: dict[str, list[str]] = {}
    for name, more in {
        "torch": ["--engine", "torch"],
        "ctranslate2 float32": ["--precision", "float32"],
        "ctranslate2 int8": ["--precision", "int8"],
    }.items():
        out = folder / "agreement.txt"
        command = [sys.executable, "-m", "regard", "translate", str(model), str(data / "test_2016_flickr.en")]
        command += ["--out", str(out), "--threads", str(threads), *more]
        subprocess.run(command, check=True, capture_output=True)
        outputs[name] = out.read_text().split("\n")[:-1]
    rows = ["| engine | BLEU | same as torch |", "|---|---|---|"]
    for name, lines in outputs.items():
        same = sum(line == torch_line for line, torch_line in zip(lines, outputs["torch"], strict=True)) / len(lines)
        rows.append(f"| {name} | {corpus_bleu(lines, [reference]).score:.2f} | {same:.1%} |")
    return rows


def write_sources(model: Path, data: Path, folder: Path, args: argparse.Namespace) -> tuple[list[str], list[list[int]]]:
    """The lines to translate and their ids; the first of them and the weights are written for the peers."""
    lines = (data / "train.en").read_text().split("\n")[: args.lines]
    (folder / "source.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "few.txt").write_text("".join(f"{line}\n" for line in lines[: args.peer_lines]))
    write_marian(load_model(model), folder)
    return lines, describe(model).tokenizers.source.encode_many(lines)


def measure(model: Path, data: Path, folder: Path, args: argparse.Namespace) -> list[str]:
    lines, ids = write_sources(model, data, folder, args)
    ct2 = describe(model).directory / "ctranslate2"
    strings = [[*map(str, sentence), "3"] for sentence in ids]
    few = [[*sentence, 3] for sentence in ids[: args.peer_lines]]
    rows = ["| beam | contender | lines/s | regard translate is |", "|---|---|---|---|"]
    for beam in (4, 1):
        speeds: dict[str, list[float]] = {}
        for _ in range(args.repeats):
            measured = {
                "regard translate": len(lines)
                / regard_seconds(model, folder / "source.txt", folder / "o", beam, "auto", args.threads),
                "regard, torch engine": len(few) / torch_engine(folder, model, beam, args.threads, {})[0],
                "Hugging Face generate": len(few) / generate(folder, few, beam, args.threads, {})[0],
            }
            for setting in CT2_SETTINGS:
                name = f"CTranslate2 API, {setting[0]} workers × {setting[1]}, {setting[2]} tokens"
                measured[name] = len(lines) / ct2_seconds(ct2, strings, beam, setting)
            for name, speed in measured.items():
                speeds.setdefault(name, []).append(speed)
                print(f"beam {beam} {name}: {speed:,.0f} lines/s", file=sys.stderr)
        median = {name: statistics.median(values) for name, values in speeds.items()}
        for name, speed in median.items():
            rows.append(f"| {beam} | {name} | {speed:,.0f} | {median['regard translate'] / speed:.2f} × |")
    starts = sorted(cold_start(model, args.threads) for _ in range(5))
    return [*rows, "", f"One sentence from a cold start: {starts[0]:.2f} s (best of 5), {starts[2]:.2f} s (median)."]


def measure_torch(model: Path, data: Path, folder: Path, args: argparse.Namespace) -> list[str]:
    """Our torch engine and `generate` on the same weights, with all instructions of the CPU and with AVX2."""
    _, ids = write_sources(model, data, folder, args)
    few = [[*sentence, 3] for sentence in ids[: args.peer_lines]]
    decode = describe(model).tokenizers.target.decode
    rows = ["| instructions | beam | torch engine, lines/s | Hugging Face generate, lines/s | ratio | same output |"]
    rows.append("|---|---|---|---|---|---|")
    instructions = {torch.backends.cpu.get_cpu_capability(): {}} | {"AVX2": AVX2}
    for name, env in instructions.items():
        for beam in (4, 1):
            seconds, peer_seconds = [], []
            for _ in range(args.repeats):
                elapsed, translations = torch_engine(folder, model, beam, args.threads, env)
                peer_elapsed, outputs = generate(folder, few, beam, args.threads, env)
                seconds.append(elapsed)
                peer_seconds.append(peer_elapsed)
                print(f"{name} beam {beam}: {elapsed:.1f} s, generate {peer_elapsed:.1f} s", file=sys.stderr)
            ours, theirs = (len(few) / statistics.median(values) for values in (seconds, peer_seconds))
            same = sum(a == decode(b) for a, b in zip(translations, outputs, strict=True)) / len(few)
            rows.append(f"| {name} | {beam} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.2f} × | {same:.0%} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--ours", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--peer-lines", type=int, default=1_000, help="lines for the slower contenders")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--torch-only", action="store_true", help="only our torch engine and Hugging Face")
    args = parser.parse_args()
    if args.ours:
        ours(Path(args.ours[0]), Path(args.ours[1]), int(args.ours[2]), int(args.ours[3]))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = args.model or folder / "run"
        if args.model is None:
            train(args.data, model, args.budget)
        if args.torch_only:
            write_result(args, "torch_engine", "The torch engine", measure_torch(model, args.data, folder, args))
            return
        rows = measure(model, args.data, folder, args)
        same = agreement(model, args.data, folder, args.threads)
    write_result(args, "translate_speed", "Translation speed", [*rows, "", "On test_2016_flickr, beam 4:", "", *same])


def write_result(args: argparse.Namespace, name: str, title: str, rows: list[str]) -> None:
    """Write results/NAME.md and print it."""
    command = f"python benchmarks/translate_speed.py --data {args.data.name} --repeats {args.repeats}"
    command += f" --torch-only --peer-lines {args.peer_lines}" if args.torch_only else f" --lines {args.lines}"
    versions = f"{args.threads} threads, torch {torch.__version__}, ctranslate2 {ctranslate2.__version__}"
    versions += f", transformers {peer_version('huggingface', 'transformers')}"
    head = f"{date.today()}, {platform.machine()}, {versions}: `{command}`"
    text = "\n".join([f"# {title}", "", head, "", *rows, ""])
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / f"{name}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()

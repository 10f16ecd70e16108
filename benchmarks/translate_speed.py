"""Translation speed of one model, compared with CTranslate2 and Hugging Face: lines per second, start-up, agreement.

    python benchmarks/translate_speed.py --data DIR [--model RUN] [--lines 10000]

Without --model a SMALL, post-norm model is trained first (--budget). DIR has train.en, train.de, test_2016_flickr.en
and .de, as in Multi30k. The contenders run in alternation, each in its own process; the figures are medians.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import ctranslate2
from sacrebleu import corpus_bleu

from environment import peer_python
from marian_weights import write_marian
from regard.artifact import describe, load_model
from regard.decoding import DecodingOptions
from regard.translator import Translator

HERE = Path(__file__).parent
CT2_SETTINGS = [
    (2, 1, 1024),
    (2, 1, 2048),
]  # workers, threads per worker, tokens; one worker with two threads is half as fast


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


def torch_seconds(folder: Path, model: Path, beam: int, threads: int) -> float:
    """Our torch engine with tokenising, in its own process; as with `generate`, loading is not included."""
    command = [sys.executable, __file__, "--ours", str(model), str(folder / "few.txt"), str(beam), str(threads)]
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(process.stdout.splitlines()[-1])


def ours(model: Path, source: Path, beam: int, threads: int) -> None:
    """Print the seconds that our torch engine takes."""
    lines = source.read_text().splitlines()
    with Translator.load(model, engine="torch", threads=threads) as translator:
        started_at = time.perf_counter()
        translator.translate(lines, options=DecodingOptions(beam=beam))
        print(time.perf_counter() - started_at)


def generate_seconds(folder: Path, sources: list[list[int]], beam: int, threads: int) -> float:
    (folder / "sources.json").write_text(json.dumps(sources))
    command = [
        str(peer_python("huggingface")),
        str(HERE / "peers" / "generate.py"),
        str(folder),
        str(threads),
        str(beam),
        "64",
    ]
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(process.stdout.splitlines()[-1])["seconds"])


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


def measure(model: Path, data: Path, folder: Path, args: argparse.Namespace) -> list[str]:
    described, loaded = describe(model), load_model(model)
    lines = (data / "train.en").read_text().split("\n")[: args.lines]
    source = folder / "source.txt"
    source.write_text("".join(f"{line}\n" for line in lines))
    ids = described.tokenizers.source.encode_many(lines)
    strings = [[*map(str, sentence), "3"] for sentence in ids]
    write_marian(loaded, folder)
    few = [[*sentence, 3] for sentence in ids[: args.peer_lines]]
    (folder / "few.txt").write_text("".join(f"{line}\n" for line in lines[: args.peer_lines]))
    rows = ["| beam | contender | lines/s | regard translate is |", "|---|---|---|---|"]
    for beam in (4, 1):
        speeds: dict[str, list[float]] = {}
        for _ in range(args.repeats):
            measured = {
                "regard translate": len(lines)
                / regard_seconds(model, source, folder / "o", beam, "auto", args.threads),
                "regard, torch engine": len(few) / torch_seconds(folder, model, beam, args.threads),
                "Hugging Face generate": len(few) / generate_seconds(folder, few, beam, args.threads),
            }
            for setting in CT2_SETTINGS:
                name = f"CTranslate2 API, {setting[0]} workers × {setting[1]}, {setting[2]} tokens"
                measured[name] = len(lines) / ct2_seconds(described.directory / "ctranslate2", strings, beam, setting)
            for name, speed in measured.items():
                speeds.setdefault(name, []).append(speed)
                print(f"beam {beam} {name}: {speed:,.0f} lines/s", file=sys.stderr)
        median = {name: statistics.median(values) for name, values in speeds.items()}
        for name, speed in median.items():
            rows.append(f"| {beam} | {name} | {speed:,.0f} | {median['regard translate'] / speed:.2f} × |")
        torch_ratio = median["regard, torch engine"] / median["Hugging Face generate"]
        rows.append(f"| {beam} | *torch engine compared with Hugging Face* | | *{torch_ratio:.2f} ×* |")
    starts = sorted(cold_start(model, args.threads) for _ in range(5))
    return [*rows, "", f"One sentence from a cold start: {starts[0]:.2f} s (best of 5), {starts[2]:.2f} s (median)."]


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
    args = parser.parse_args()
    if args.ours:
        ours(Path(args.ours[0]), Path(args.ours[1]), int(args.ours[2]), int(args.ours[3]))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = args.model or folder / "run"
        if args.model is None:
            train(args.data, model, args.budget)
        rows = measure(model, args.data, folder, args)
        same = agreement(model, args.data, folder, args.threads)
    command = (
        f"python benchmarks/translate_speed.py --data {args.data.name} --lines {args.lines} --repeats {args.repeats}"
    )
    versions = f"{args.threads} threads, ctranslate2 {ctranslate2.__version__}"
    head = f"{date.today()}, {platform.machine()}, {versions}: `{command}`"
    text = "\n".join(["# Translation speed", "", head, "", *rows, "", "On test_2016_flickr, beam 4:", "", *same, ""])
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "translate_speed.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()

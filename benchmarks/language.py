"""Language models: perplexity and what memory is worth, sparse patterns, and training speed; a part at a time.

    python benchmarks/language.py words --data DIR --work WORK --budget 20m        five runs
    python benchmarks/language.py window --data DIR --work WORK                    after "words"
    python benchmarks/language.py characters --data DIR --work WORK --steps 600    three runs
    python benchmarks/language.py patterns                                         3 minutes
    python benchmarks/language.py speed                                            2 minutes

DIR has train.txt, valid.txt and test.txt of wikitext-2. A finished run is not trained again, an interrupted one goes
on. With --steps in place of --budget, "words" does not depend on the speed of the machine. Each part replaces its
section of results/language.md; --out FILE writes it elsewhere, to try a part.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.artifact import describe
from regard.data import Batch, Place
from regard.models import ARCHITECTURES, LanguageModel, ModelSpec
from regard.nn import KeyValues, MultiHeadAttention
from regard.nn.patterns import Fixed, Pattern, SparseAttention, Strided
from regard.tasks.language.predictor import Continuer
from regard.text import Tokenizer
from regard.training import TrainingConfig, fast_matmul, has_fast_bfloat16, keep_freed_memory
from regard.training.loop import Training, train_step
from regard.training.optimizers import set_rate

RESULTS = Path(__file__).parent / "results" / "language.md"
PUBLISHED = "Published LSTMs on wikitext-2: 99.3 without and 65.8 with AWD's regularisation, after days on a GPU."
N_TEST_TOKENS = 245_569  # words and ends of lines of the test set, by which published perplexities are counted
WORDS = {"kind": "word", "vocabulary": 33_281}
RUNS: dict[str, tuple[str, ...]] = {  # words; the last two have as many steps as transformer-xl-64
    "lstm": ("model.architecture=lstm", "text.segment=64", "text.n_segments=4"),
    "language": ("model.architecture=language", "text.segment=128", "text.n_segments=1"),
    **{
        f"transformer-xl-{memory}": (
            *("model.architecture=transformer-xl", "text.segment=64", "text.n_segments=4"),
            f"model.memory={memory}",
        )
        for memory in (64, 0, 256)
    },
}
LIKE = {"transformer-xl-0": "transformer-xl-64", "transformer-xl-256": "transformer-xl-64"}
MEMORIES = (0, 16, 64, 256, 1024)
WINDOWS = (128, 256, 512)
LENGTHS = tuple(2**i for i in range(8, 14))
SHAPE = {"d_model": 128, "n_heads": 4, "d_ff": 512, "n_layers": 4, "dropout": 0.1}
N_SYMBOLS, SEGMENT, N_ROWS = 33_281, 128, 8


def regard(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def train(given: argparse.Namespace, out: Path, settings: list[str], *length: str) -> None:
    if (out / "model").exists():
        return
    files = ["--text", given.data / "train.txt", "--valid-text", given.data / "valid.txt"]
    regard("train", *files, *length, *(word for value in settings for word in ("--set", value)), "--out", out)


def evaluate(run: Path, test: Path, *more: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(regard("evaluate", run, test, "--json", *more))
    return result


def events(run: Path, name: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (run / "journal.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == name]


def table(*rows: tuple[object, ...]) -> list[str]:
    head, *rest = rows
    return [f"| {' | '.join(map(str, row))} |" for row in (head, ["---"] * len(head), *rest)]


# words


def words(given: argparse.Namespace) -> list[str]:
    """Test perplexity of each run, and of one with other memories than it was trained with."""
    rows: list[tuple[object, ...]] = [
        ("run", "parameters", "steps", "minutes", "perplexity", "95% interval", "bits per character")
    ]
    for name, settings in RUNS.items():
        run = given.work / name
        steps = given.steps
        if name in LIKE:
            steps = tomllib.loads((given.work / LIKE[name] / "recipe.toml").read_text())["training"]["steps"]
        length = ["--set", f"training.steps={steps}"] if steps else ["--budget", given.budget]
        train(given, run, [*settings, *(f"text.{key}={value}" for key, value in WORDS.items())], *length)
        finished, result = events(run, "finished")[-1], evaluate(run, given.data / "test.txt")
        if result["n_words"] + result["n_lines"] != N_TEST_TOKENS:
            print("this is not the test set of wikitext-2: its perplexity compares with no published one")
        low, high = result["intervals"]["perplexity"]
        size, metrics = f"{finished['n_parameters'] / 1e6:.1f}M", result["metrics"]
        minutes = f"{finished['elapsed_seconds'] / 60:.0f}"
        cells = (f"{metrics['perplexity']:.1f}", f"{low:.1f} – {high:.1f}", f"{metrics['bits_per_character']:.3f}")
        rows.append((name, size, f"{finished['steps']:,}", minutes, *cells))
    memories: list[tuple[object, ...]] = [("tokens of memory in use", *MEMORIES)]
    for name in (name for name in RUNS if name.startswith("transformer-xl")):
        values = [
            evaluate(given.work / name, given.data / "test.txt", "--memory", str(memory))["metrics"]["perplexity"]
            for memory in MEMORIES
        ]
        memories.append((f"perplexity of {name}", *(f"{value:.1f}" for value in values)))
    text = "The same models with another memory than they were trained with:"
    return [*table(*rows), "", f"{PUBLISHED} {text}", "", *table(*memories)]


# window


def window(given: argparse.Namespace) -> list[str]:
    """Transformer-XL with its memory, beside the same weights with a window that is computed again for every token."""
    continuer = Continuer.load(describe(given.work / "transformer-xl-64"))
    model, tokenizer = continuer.model, continuer.tokenizer
    ids = torch.tensor(read_ids(given.data / "test.txt", tokenizer, 1024 + given.tokens))
    rows: list[tuple[object, ...]] = [("window", "memory", "perplexity", "", "tokens/s", "", "times faster")]
    rows.append(("", "", "memory", "window", "memory", "window", ""))
    for size in WINDOWS:
        losses, seconds = with_memory(model, ids, size - model.segment)
        others, other_seconds = with_window(model, ids[1025 - size :], size)
        speeds, n = (len(losses) / seconds, len(others) / other_seconds), len(others)
        perplexities = [f"{float(part[-n:].mean().exp()):.2f}" for part in (losses, others)]
        cells = (*perplexities, *(f"{speed:,.0f}" for speed in speeds), f"{speeds[0] / speeds[1]:,.0f}")
        rows.append((size, size - model.segment, *cells))
    text = f"On {given.tokens:,} tokens of the test set, one text at a time, windows in batches of 32:"
    return [text, "", *table(*rows)]


def read_ids(path: Path, tokenizer: Tokenizer, n: int) -> list[int]:
    """The first n tokens of a text, after an end of line."""
    ids = [tokenizer.eos_id]
    for line in path.read_text(encoding="utf-8").split("\n"):
        ids += [*tokenizer.encode(line), tokenizer.eos_id]
        if len(ids) > n:
            break
    return ids[: n + 1]


def with_memory(model: LanguageModel, ids: Tensor, memory: int) -> tuple[Tensor, float]:
    """−log p of every token but the first, and the seconds: segment after segment."""
    started_at, losses = time.perf_counter(), []
    with torch.inference_mode():
        state = model.start(1, memory)
        for first in range(0, len(ids) - 1, model.segment):
            end = min(first + model.segment, len(ids) - 1)
            features, state = model.read(ids[None, first:end], state)
            log_probs = model.logits(features)[0].log_softmax(-1)
            losses.append(-log_probs.gather(1, ids[first + 1 : end + 1, None])[:, 0])
    return torch.cat(losses), time.perf_counter() - started_at


def with_window(model: LanguageModel, ids: Tensor, size: int) -> tuple[Tensor, float]:
    """The same of every token that has a whole window before it."""
    started_at, losses = time.perf_counter(), []
    with torch.inference_mode():
        for rows, targets in zip(ids[:-1].unfold(0, size, 1).split(32), ids[size:].split(32), strict=True):
            features, _ = model.read(rows, model.start(len(rows), 0))
            log_probs = model.logits(features[:, -1]).log_softmax(-1)
            losses.append(-log_probs.gather(1, targets[:, None])[:, 0])
    return torch.cat(losses), time.perf_counter() - started_at


# characters


def characters(given: argparse.Namespace) -> list[str]:
    """The same number of steps with each pattern of attention."""
    rows: list[tuple[object, ...]] = [("pattern", "steps", "bits per character", "seconds per step")]
    context = given.context
    for pattern in ("full", "fixed", "strided"):
        run = given.work / f"characters-{context}-{pattern}"
        settings = [f"model.pattern={pattern}", "model.stride=32", "model.summary=8", "text.kind=char"]
        settings += [f"text.segment={context}", f"training.max_tokens={8 * context}", "training.smoothing=0"]
        train(given, run, settings, "--set", f"training.steps={given.steps}")
        bits = evaluate(run, given.data / "test.txt")["metrics"]["bits_per_character"]
        steps = events(run, "step")
        seconds = statistics.median(step["n_tokens"] / step["tokens_per_second"] for step in steps)
        rows.append((pattern, f"{steps[-1]['step']:,}", f"{bits:.3f}", f"{seconds:.2f}"))
    text = f"Context of {context:,} characters, stride 32, summaries of 8. In the paper, fixed is as good as full and"
    return [f"{text} faster, strided worse:", "", *table(*rows)]


# patterns


def patterns(given: argparse.Namespace) -> list[str]:
    """Forward and backward of one layer of attention, by length; strides are about √n."""
    rows: list[tuple[object, ...]] = [("n", "dense", "dense under the mask", "fixed", "strided")]
    times: dict[str, list[float]] = {name: [] for name in rows[0][1:] if isinstance(name, str)}
    worst = 0.0
    for n in given.lengths:
        stride = 2 ** round(np.log2(n) / 2)
        of = {"fixed": Fixed(stride, max(1, stride // 8)), "strided": Strided(stride)}
        worst = max(worst, *(difference(pattern, n) for pattern in of.values() if n <= 2048))
        x = torch.randn(1, n, 128, requires_grad=True)
        dense, causal = MultiHeadAttention(128, 4), torch.ones(n, n, dtype=torch.bool).tril()
        contenders: dict[str, Callable[[], Tensor]] = {
            "dense": lambda x=x, layer=dense: layer(x, causal=True),
            "dense under the mask": lambda x=x, layer=dense, seen=causal: layer(x, visible=seen),
        }
        sparse = {name: SparseAttention(128, 4, pattern) for name, pattern in of.items()}
        for name, layer in sparse.items():
            contenders[name] = lambda x=x, layer=layer: layer(x, causal=True)
        for name, seconds in alternate(contenders, x).items():
            times[name].append(seconds / n)
        rows.append((f"{n:,}", *(f"{1e6 * times[name][-1]:.2f}" for name in times)))
    exponents = [exponent(given.lengths, values) for values in times.values()]
    rows.append(("exponent of time per token", *(f"{value:.2f}" for value in exponents)))
    overtakes = {name: crossing(given.lengths, times["dense"], times[name]) for name in ("fixed", "strided")}
    text = "Microseconds per token, forward and backward, of one layer with d_model 128 and 4 heads, float32:"
    claims = [f"{name} is faster than dense attention {where}" for name, where in overtakes.items()]
    claims.append(f"values and gradients differ from dense attention under the mask by at most {worst:.0e} in float64")
    return [text, "", *table(*rows), "", f"{'; '.join(claims)}."]


def difference(pattern: Pattern, n: int) -> float:
    """The largest between a pattern in blocks and dense attention under its mask, of values and gradients."""
    q, k, v = (torch.randn(1, 2, n, 16, dtype=torch.float64, requires_grad=True) for _ in range(3))
    positions = torch.arange(n)
    seen = pattern.sees(positions[:, None], positions)
    dense = (0.25 * q @ k.transpose(-1, -2)).masked_fill(~seen, -torch.inf).softmax(-1) @ v
    sparse, direction = pattern.attend(q, KeyValues(k, v), 0.25), torch.randn_like(dense)
    gradients = [torch.autograd.grad(out, (q, k, v), direction) for out in (sparse, dense)]
    pairs = [(sparse, dense), *zip(*gradients, strict=True)]
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


def alternate(contenders: dict[str, Callable[[], Tensor]], x: Tensor) -> dict[str, float]:
    """Median seconds of each."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for repeat in range(6):
        for name, forward in contenders.items():
            started_at = time.perf_counter()
            forward().sum().backward()
            if repeat:
                seconds[name].append(time.perf_counter() - started_at)
            x.grad = None
    return {name: statistics.median(values) for name, values in seconds.items()}


def exponent(lengths: tuple[int, ...], values: list[float]) -> float:
    """Of the time per token over the larger half of the lengths: near 1 for dense attention, ½ for sparse."""
    half = len(lengths) // 2
    return float(np.polyfit(np.log(lengths[half:]), np.log(values[half:]), 1)[0])


def crossing(lengths: tuple[int, ...], dense: list[float], sparse: list[float]) -> str:
    faster = [n for n, a, b in zip(lengths, dense, sparse, strict=True) if b < a]
    return f"from n = {faster[0]:,} on" if faster else f"at none of these lengths, up to {lengths[-1]:,}"


# speed


def speed(given: argparse.Namespace) -> list[str]:
    """Training tokens per second beside transformers' GPT-2 in a plain loop, in alternation."""
    precisions = ["float32"] + (["bfloat16"] if has_fast_bfloat16(torch.device("cpu")) else [])
    rows: list[tuple[object, ...]] = [("precision", "regard", "GPT-2", "ratio (goal 1.5)")]
    for precision in precisions:
        speeds: dict[str, list[float]] = {"ours": [], "gpt2": []}
        for _ in range(3):
            for name, values in speeds.items():
                command = [sys.executable, __file__, "speed", "--loop", name, precision, str(given.steps or 20)]
                output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                values.append(float(output.split()[-1]))
        ours, theirs = (statistics.median(values) for values in speeds.values())
        rows.append((precision, f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.2f}"))
    shape = f"4 layers of 128, d_ff 512, 4 heads, vocabulary {N_SYMBOLS:,}, {N_ROWS} × {SEGMENT} tokens per step"
    text = f"Training tokens per second: {shape}, Adam, one process, transformers {version('transformers')}."
    return [f"{text} bfloat16 is torch's autocast for GPT-2.", "", *table(*rows)]


def random_rows() -> Tensor:
    """(rows, tokens + 1)."""
    rng = torch.Generator().manual_seed(1)
    return torch.randint(4, N_SYMBOLS, (N_ROWS, SEGMENT + 1), generator=rng)


def ours(precision: str, n_steps: int) -> float:
    keep_freed_memory()
    torch.manual_seed(1)
    ids = random_rows()
    config = TrainingConfig(clip=1.0, smoothing=0.0, precision=precision)  # type: ignore[arg-type]
    sizes = {"n_symbols": N_SYMBOLS, "segment": SEGMENT, "pad_id": 0}
    spec = ModelSpec("language", "language", ARCHITECTURES["language"].config(**SHAPE), sizes)
    training = Training(
        config=config, spec=spec, model=spec.build(), loader=None, validate=None, measures=(), checkpoints=None,
        device=torch.device("cpu"), identity={},
    )  # type: ignore[arg-type]  # fmt: skip
    set_rate(training.optimizer, 1e-4)

    def step(number: int) -> None:
        place = Place(seed=1, step=number)
        batch = Batch((ids[:, :-1],), (ids[:, 1:],), (N_ROWS * SEGMENT,), place, np.arange(N_ROWS))
        train_step(training, [batch], number)

    with fast_matmul():
        return tokens_per_second(step, n_steps)


def gpt2(precision: str, n_steps: int) -> float:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    ids = random_rows()
    config = GPT2Config(
        vocab_size=N_SYMBOLS, n_positions=SEGMENT, n_embd=SHAPE["d_model"], n_layer=SHAPE["n_layers"],
        n_head=SHAPE["n_heads"], n_inner=SHAPE["d_ff"], use_cache=False, bos_token_id=3,
        eos_token_id=3,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)

    def step(_: int) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            logits = model(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return tokens_per_second(step, n_steps)


def tokens_per_second(step: Callable[[int], None], n_steps: int) -> float:
    for number in range(3):
        step(number)
    started_at = time.perf_counter()
    for number in range(n_steps):
        step(number)
    return n_steps * N_ROWS * SEGMENT / (time.perf_counter() - started_at)


PARTS = {"words": words, "window": window, "characters": characters, "patterns": patterns, "speed": speed}


def write_section(file: Path, name: str, lines: list[str], note: str) -> None:
    """Replaces the section of a part, and leaves the others."""
    text = file.read_text(encoding="utf-8") if file.exists() else "# Language models\n"
    command = (
        f"{datetime.now(UTC):%Y-%m-%d}, PyTorch {version('torch')}: `python benchmarks/language.py {name} …`. {note}"
    )
    section = "\n".join([f"## {name}", "", command.rstrip(), "", *lines, ""])
    parts = [part for part in re.split(r"\n(?=## )", text) if not part.startswith(f"## {name}\n")]
    first, *others = [part.rstrip("\n") + "\n" for part in (*parts, section)]
    others.sort(key=lambda part: list(PARTS).index(part.split()[1]))
    file.write_text("\n".join([first, *others]), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--data", type=Path, help="folder with train.txt, valid.txt and test.txt")
    parser.add_argument("--work", type=Path, default=Path("runs/language"))
    parser.add_argument("--budget", default="20m", help="of each run of words")
    parser.add_argument("--steps", type=int, help="of each run, in place of a budget; of a measurement of speed")
    parser.add_argument("--context", type=int, default=1024, help="characters")
    parser.add_argument("--tokens", type=int, default=1000, help="that windows are computed for")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="of patterns")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--note", default="", help="the condition of the machine, for the results")
    parser.add_argument("--loop", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.loop:
        name, precision, n_steps = given.loop
        print({"ours": ours, "gpt2": gpt2}[name](precision, int(n_steps)))
        return
    if given.part in ("words", "window", "characters") and given.data is None:
        parser.error(f"{given.part} needs --data")
    if given.part == "characters" and given.steps is None:
        parser.error("characters needs --steps")
    lines = PARTS[given.part](given)
    write_section(given.out, given.part, lines, given.note)
    print("\n".join(lines))


if __name__ == "__main__":
    main()

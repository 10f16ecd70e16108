"""Pre-trained encoders: what they are worth on SST-2, what they have learned, and training speed; a part at a time.

    python benchmarks/pretrain.py encoders --text WIKITEXT --sst2 DIR --work WORK --budget 20m     ten runs
    python benchmarks/pretrain.py speed                                                            5 minutes

WIKITEXT has train.txt, valid.txt and test.txt of wikitext-2, DIR the 6,920 sentences of SST-2 (train.tsv, dev.tsv,
test.tsv: label, tab, text). Every encoder learns from wikitext-2 and SST-2's training sentences, and then starts
classifiers with several seeds; beside each stands the same architecture from random weights, and beside all of them the
`encoder`. A finished run is not trained again, an interrupted one goes on. With --steps in place of --budget, nothing
depends on the speed of the machine. Each part replaces its section of results/pretrain.md; --out FILE writes it
elsewhere, to try a part.
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
from torch import Tensor, nn

from regard.data import NO_TARGET, Batch, MaskedTexts, Passages, Place
from regard.evaluate.significance import mean_interval
from regard.models import ARCHITECTURES, ModelSpec
from regard.training import TrainingConfig, fast_matmul, has_fast_bfloat16, keep_freed_memory
from regard.training.loop import Training, train_step
from regard.training.optimizers import set_rate

RESULTS = Path(__file__).parent / "results" / "pretrain.md"
DOCUMENT = "^ = [^=]+ = $"  # the titles of wikitext-2
HEADING = " = Film reviews = "  # SST-2's sentences are one document more
# pre-training runs: the architecture, and the run whose number of steps it has
RUNS: dict[str, tuple[str, str | None]] = {
    "bert": ("bert", None),
    "electra": ("electra", None),
    "xlnet": ("xlnet", None),
    "electra-equal-steps": ("electra", "bert"),
}
MEASURES = {"word_accuracy": "{:.1%}", "next_accuracy": "{:.1%}", "replaced_auc": "{:.3f}"}
SHAPE = {"n_layers": 4, "d_model": 128, "d_ff": 256, "n_heads": 4, "dropout": 0.1}
N_SYMBOLS, LENGTH, N_ROWS, GENERATOR = 8_000, 128, 32, 0.5
PAD_ID, BOS_ID, EOS_ID, MASK_ID = 0, 2, 3, 4
Row = tuple[object, ...]


def regard(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def events(run: Path, name: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (run / "journal.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == name]


def table(*rows: Row) -> list[str]:
    head, *rest = rows
    return [f"| {' | '.join(map(str, row))} |" for row in (head, ["---"] * len(head), *rest)]


# encoders


def encoders(given: argparse.Namespace) -> list[str]:
    """Pre-trains, measures, and fine-tunes."""
    given.work.mkdir(parents=True, exist_ok=True)
    text = write_text(given)
    learned: list[Row] = [("run", "parameters", "steps", "minutes", *(name.replace("_", " ") for name in MEASURES))]
    for name in RUNS:
        pretrain(given, name, text)
        finished = events(given.work / name, "finished")[-1]
        metrics = json.loads(regard("evaluate", given.work / name, given.text / "test.txt", "--json"))["metrics"]
        cells = (form.format(metrics[key]) if key in metrics else "" for key, form in MEASURES.items())
        size, minutes = f"{finished['n_parameters'] / 1e6:.1f}M", f"{finished['elapsed_seconds'] / 60:.0f}"
        learned.append((name, size, f"{finished['steps']:,}", minutes, *cells))
    tuned: list[Row] = [("classifier", "test accuracy", "95% interval of the mean", "deviation", "gain over nothing")]
    nothing = {name: accuracies(given, name, None) for name in ("encoder", "bert", "electra", "xlnet")}
    for name, values in nothing.items():
        tuned.append((f"{name}, from nothing", *spread(values), ""))
    for name, (architecture, _) in RUNS.items():
        values = accuracies(given, architecture, name)
        gains = [after - before for after, before in zip(values, nothing[architecture], strict=True)]
        tuned.append((f"after {name}", *spread(values), f"{100 * statistics.mean(gains):+.1f} points"))
    note = f"Of texts from SST-2, {given.seeds} seeds each. From nothing: the same architecture with random weights."
    heading = "On the test part of wikitext-2, after pre-training on its training part and SST-2's sentences:"
    return [heading, "", *table(*learned), "", note, "", *table(*tuned)]


def write_text(given: argparse.Namespace) -> Path:
    """The text to learn from: wikitext-2, and SST-2's training sentences as one document more."""
    path: Path = given.work / "text.txt"
    if not path.exists():
        sentences = [line.split("\t")[1] for line in (given.sst2 / "train.tsv").read_text().splitlines()]
        wikitext = (given.text / "train.txt").read_text(encoding="utf-8")
        path.write_text("\n".join([wikitext.rstrip("\n"), HEADING, *sentences, ""]), encoding="utf-8")
    return path


def pretrain(given: argparse.Namespace, name: str, text: Path) -> None:
    run, (architecture, like) = given.work / name, RUNS[name]
    if (run / "model").exists():
        return
    steps = given.steps
    if like is not None:
        steps = tomllib.loads((given.work / like / "recipe.toml").read_text())["training"]["steps"]
    length = ["--set", f"training.steps={steps}"] if steps else ["--budget", given.budget]
    settings = [f"data.document={DOCUMENT}", "model.preset=tiny", f"text.vocabulary={given.vocabulary}", *given.set]
    files = ["--text", text, "--valid-text", given.text / "valid.txt", "--architecture", architecture]
    regard("train", *files, *length, *(word for value in settings for word in ("--set", value)), "--out", run)


def accuracies(given: argparse.Namespace, architecture: str, parent: str | None) -> list[float]:
    """The test accuracy of a classifier with each seed."""
    out = given.work / ("sst2-" + (f"{architecture}-from-nothing" if parent is None else f"after-{parent}"))
    start = ["--architecture", architecture, "--set", "model.preset=tiny"]
    if parent is not None:
        start = ["--from", given.work / parent]
    files = ["--labels", given.sst2 / "train.tsv", "--valid-labels", given.sst2 / "dev.tsv"]
    length = ["--set", f"training.steps={given.classifier_steps}"] if given.classifier_steps else []
    regard("train", *files, *start, *length, "--seeds", str(given.seeds), "--out", out)
    results = json.loads(regard("evaluate", out, given.sst2 / "test.tsv", "--json"))["seeds"]
    return [result["metrics"]["accuracy"] for result in results]


def spread(values: list[float]) -> tuple[str, str, str]:
    interval = mean_interval(values)
    mean, deviation = statistics.mean(values), statistics.stdev(values)
    return f"{mean:.1%}", f"{interval.low:.1%} – {interval.high:.1%}", f"{deviation:.1%}"


# speed


def speed(given: argparse.Namespace) -> list[str]:
    """Training tokens per second beside the classes of transformers in a plain loop, in alternation."""
    precisions = ["float32"] + (["bfloat16"] if has_fast_bfloat16(torch.device("cpu")) else [])
    rows: list[Row] = [("model", "precision", "regard", "transformers", "ratio (goal 1.5)")]
    for name in ("bert", "electra", "xlnet"):
        for precision in precisions:
            speeds: dict[str, list[float]] = {"regard": [], "transformers": []}
            for _ in range(given.repeats):
                for loop, values in speeds.items():
                    command = [sys.executable, __file__, "speed", "--loop", loop, name, precision]
                    output = subprocess.run(
                        [*command, str(given.steps or 8)], check=True, stdout=subprocess.PIPE, text=True
                    )
                    values.append(float(output.stdout.split()[-1]))
            ours, theirs = (statistics.median(values) for values in speeds.values())
            rows.append((name, precision, f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.2f}"))
    shape = f"4 layers of 128, d_ff 256, 4 heads, vocabulary {N_SYMBOLS:,}, {N_ROWS} passages of about {LENGTH} tokens"
    text = f"Training tokens per second on the same batches: {shape}, Adam, one process, XLNet without memory,"
    return [f"{text} transformers {version('transformers')}; bfloat16 is torch's autocast there.", "", *table(*rows)]


def spec_of(name: str) -> ModelSpec:
    more = {"electra": {"generator": GENERATOR}, "xlnet": {"memory": 0}}
    config = ARCHITECTURES[name].config(**SHAPE | more.get(name, {}))
    return ModelSpec("pretraining", name, config, {"n_symbols": N_SYMBOLS, "n_segments": 2, "pad_id": PAD_ID})


def batches(name: str, n: int) -> list[Batch]:
    """Passages of random words, of the usual lengths."""
    rng = np.random.default_rng(1)
    n_documents = 1 + n * N_ROWS // 30
    documents = [[rng.integers(5, N_SYMBOLS, rng.integers(5, 45)).astype(np.int32) for _ in range(200)]] * n_documents
    config: Any = spec_of(name).config
    collate = MaskedTexts(
        passages=Passages.of(documents, LENGTH), masking=config.masking, asks=config.asks, n_symbols=N_SYMBOLS,
        pad_id=PAD_ID, bos_id=BOS_ID, eos_id=EOS_ID, mask_id=MASK_ID,
    )  # fmt: skip
    return [collate(np.arange(i * N_ROWS, (i + 1) * N_ROWS), Place(seed=1, step=i)) for i in range(n)]


def ours(name: str, precision: str, n_steps: int) -> float:
    keep_freed_memory()
    torch.manual_seed(1)
    config = TrainingConfig(clip=1.0, smoothing=0.0, precision=precision)  # type: ignore[arg-type]
    spec = spec_of(name)
    training = Training(
        config=config, spec=spec, model=spec.build(), loader=None, validate=None, measures=(), checkpoints=None,
        device=torch.device("cpu"), identity={},
    )  # type: ignore[arg-type]  # fmt: skip
    set_rate(training.optimizer, 1e-4)
    with fast_matmul():
        return tokens_per_second(name, lambda batch, step: train_step(training, [batch], step), n_steps)


def theirs(name: str, precision: str, n_steps: int) -> float:
    torch.manual_seed(1)
    model = THEIRS[name]().train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)

    def step(batch: Batch, _: int) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = model(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return tokens_per_second(name, step, n_steps)


def tokens_per_second(name: str, step: Callable[[Batch, int], object], n_steps: int) -> float:
    given = batches(name, n_steps + 2)
    for number, batch in enumerate(given[:2]):
        step(batch, number)
    started_at = time.perf_counter()
    for number, batch in enumerate(given[2:], start=2):
        step(batch, number)
    n_tokens = sum(int((batch.inputs[0] != PAD_ID).sum()) for batch in given[2:])
    return n_tokens / (time.perf_counter() - started_at)


def their_sizes(**more: Any) -> dict[str, Any]:
    sizes = {
        "vocab_size": N_SYMBOLS, "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4,
        "intermediate_size": 256, "pad_token_id": PAD_ID,
    }  # fmt: skip
    return sizes | more


class TheirBert(nn.Module):
    def __init__(self) -> None:
        from transformers import BertConfig, BertForPreTraining

        super().__init__()
        self.model = BertForPreTraining(BertConfig(**their_sizes()))

    def forward(self, batch: Batch) -> Tensor:
        ids, segments, _ = batch.inputs
        words, classes = batch.targets
        given = {"input_ids": ids, "token_type_ids": segments, "attention_mask": (ids != PAD_ID).long()}
        loss: Tensor = self.model(**given, labels=words, next_sentence_label=classes).loss
        return loss


class TheirElectra(nn.Module):
    """As in the paper: generator and discriminator share the embeddings, and words are drawn with their probability."""

    def __init__(self) -> None:
        from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

        super().__init__()
        small = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2}
        self.generator = ElectraForMaskedLM(ElectraConfig(**their_sizes(**small, embedding_size=128)))
        self.discriminator = ElectraForPreTraining(ElectraConfig(**their_sizes(embedding_size=128)))
        self.generator.electra.embeddings = self.discriminator.electra.embeddings
        self.generator.tie_weights()

    def forward(self, batch: Batch) -> Tensor:
        ids, segments, _ = batch.inputs
        [words] = batch.targets
        asked, real = words != NO_TARGET, (ids != PAD_ID).long()
        written = self.generator(ids, attention_mask=real, token_type_ids=segments, labels=words)
        drawn = torch.multinomial(written.logits[asked].detach().float().softmax(-1), 1).squeeze(1)
        original = words.where(asked, ids)
        judged = original.masked_scatter(asked, drawn)
        labels = (judged != original).long()
        given = {"attention_mask": real, "token_type_ids": segments, "labels": labels}
        loss: Tensor = written.loss + 50 * self.discriminator(judged, **given).loss
        return loss


class TheirXLNet(nn.Module):
    def __init__(self) -> None:
        from transformers import XLNetConfig, XLNetLMHeadModel

        super().__init__()
        sizes = {"d_model": 128, "n_layer": 4, "n_head": 4, "d_inner": 256, "pad_token_id": PAD_ID}
        self.model = XLNetLMHeadModel(XLNetConfig(vocab_size=N_SYMBOLS, **sizes))

    def forward(self, batch: Batch) -> Tensor:
        ids, segments, order = batch.inputs
        [words] = batch.targets
        asked = words != NO_TARGET
        n = asked.sum(1, keepdim=True)
        positions = asked.byte().argsort(dim=1, descending=True, stable=True)[:, : int(n.max())]
        mapping = nn.functional.one_hot(positions, ids.shape[1]).float()
        is_real = torch.arange(mapping.shape[1]) < n
        hidden = (order[:, None] >= order[..., None]) & (order >= 0)[:, None]
        out = self.model(
            ids, attention_mask=(ids != PAD_ID).float(), token_type_ids=segments, perm_mask=hidden.float(),
            target_mapping=mapping, labels=words.gather(1, positions).masked_fill(~is_real, NO_TARGET),
        )  # fmt: skip
        loss: Tensor = out.loss
        return loss


THEIRS: dict[str, type[nn.Module]] = {"bert": TheirBert, "electra": TheirElectra, "xlnet": TheirXLNet}
PARTS = {"encoders": encoders, "speed": speed}


def write_section(file: Path, name: str, lines: list[str], note: str) -> None:
    """Replaces the section of a part, and leaves the others."""
    text = file.read_text(encoding="utf-8") if file.exists() else "# Pre-trained encoders\n"
    command = f"{datetime.now(UTC):%Y-%m-%d}, PyTorch {version('torch')}: `python benchmarks/pretrain.py {name} …`."
    section = "\n".join([f"## {name}", "", f"{command} {note}".rstrip(), "", *lines, ""])
    parts = [part for part in re.split(r"\n(?=## )", text) if not part.startswith(f"## {name}\n")]
    first, *others = [part.rstrip("\n") + "\n" for part in (*parts, section)]
    others.sort(key=lambda part: list(PARTS).index(part.split()[1]))
    file.write_text("\n".join([first, *others]), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--text", type=Path, help="folder with train.txt, valid.txt and test.txt of wikitext-2")
    parser.add_argument("--sst2", type=Path, help="folder with train.tsv, dev.tsv and test.tsv")
    parser.add_argument("--work", type=Path, default=Path("runs/pretrain"))
    parser.add_argument("--budget", default="20m", help="of each run of pre-training")
    parser.add_argument("--steps", type=int, help="of each run, in place of a budget; of a measurement of speed")
    parser.add_argument("--classifier-steps", type=int, help="of each classifier, to try the program")
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="more settings of pre-training")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3, help="of a measurement of speed")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--note", default="", help="the condition of the machine, for the results")
    parser.add_argument("--loop", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.loop:
        loop, name, precision, n_steps = given.loop
        print({"regard": ours, "transformers": theirs}[loop](name, precision, int(n_steps)))
        return
    if given.part == "encoders" and (given.text is None or given.sst2 is None):
        parser.error("encoders needs --text and --sst2")
    lines = PARTS[given.part](given)
    write_section(given.out, given.part, lines, given.note)
    print("\n".join(lines))


if __name__ == "__main__":
    main()

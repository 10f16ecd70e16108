"""What a translator says about text that it cannot translate: planted faults, and how many are noticed.

    python benchmarks/trust.py RUN --test test.en --other test.fr --other test.de [--validation val.en] [--speed BEFORE]

Lines of --test are translated as they are, and with faults planted in them: numbers, placeholders, capitals, shuffled
words; lines of --other are in other languages than the model's source. --validation fits the thresholds of warnings as
training does, for a model that was trained before it did. --speed is the source directory of an older checkout, whose
`regard translate` runs in alternation with this one.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from regard.artifact import describe
from regard.engines.engine import load_engine
from regard.models import ARCHITECTURES
from regard.translator import Translation, Translator
from regard.translator.protected import Protection
from regard.translator.warning_signs import FACT, warning_facts

N_LINES = 500
N_FITTED = 600  # as in training
SPEED_LINES = 10_000
REPEATS = 3
PLACEHOLDERS = (
    "{name}", "{0}", "%s", "%(count)d", "$HOME", "<br/>", "@anna", "#spring", "report.pdf", "`x = 1`",
    "https://example.com/a?b=1", "info@example.org",
)  # fmt: skip


def load(run: Path, validation: Path | None) -> Translator:
    """The model on its default engine, with thresholds fitted on a file if there is one."""
    described = describe(run)
    engine = load_engine(described, "auto", "int8", None)
    if validation is not None:
        tokenizers = described.tokenizers
        lines = [line for line in read(validation) if line.strip()]
        step = -(-len(lines) // N_FITTED)
        sources = tokenizers.source.encode_many(lines[::step])
        without = {name: value for name, value in described.facts.items() if name != FACT}
        options = Translator(described, engine).options
        described = replace(described, facts=without | warning_facts(engine, tokenizers, without, sources, options))
    return Translator(described, engine, "int8")


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


def with_number(line: str, rng: random.Random) -> tuple[str, str]:
    """The line with a number in place of its first article or number word, or in front."""
    number = rng.choice(
        [str(rng.randint(13, 99)), str(rng.randint(100, 999)), f"{rng.randint(1, 99)},{rng.randint(100, 999)}",
         f"{rng.randint(2, 9)}.{rng.randint(100, 999)}.{rng.randint(100, 999)}", str(rng.randint(10_000, 10**7)),
         f"{rng.randint(2, 23)}:{rng.randint(10, 59)}"]
    )  # fmt: skip
    changed, n = re.subn(r"\b([Aa]n?|[Tt]wo|[Tt]he|[Tt]hree)\b", number, line, count=1)
    return (changed if n else f"{number} {line}"), number


def with_placeholder(line: str, rng: random.Random) -> tuple[str, str]:
    words, placeholder = line.split(), rng.choice(PLACEHOLDERS)
    words.insert(rng.randint(0, len(words)), placeholder)
    return " ".join(words), placeholder


def random_strings(line: str, rng: random.Random) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join("".join(rng.choice(letters) for _ in word) for word in line.split())


def shuffled(line: str, rng: random.Random) -> str:
    words = line.split()
    return " ".join(rng.sample(words, len(words)))


def is_kept(span: str, translation: str) -> bool:
    """Checked apart from the product: the same characters, or the same digits."""
    if span[0].isdigit():
        digits = re.sub(r"\D", "", span)
        return any(re.sub(r"\D", "", number) == digits for number in re.findall(r"\d[\d.,:\u202f]*", translation))
    return span in translation


def flags(translations: Iterable[Translation]) -> str:
    """The share of lines with a warning, and with which."""
    items = list(translations)
    counts = Counter(warning for item in items for warning in item.warnings)
    share = sum(bool(item.warnings) for item in items) / max(1, len(items))
    return f"{share:.1%} | {', '.join(f'{name} {count}' for name, count in counts.most_common())}"


def report_kept(name: str, pairs: Sequence[tuple[str, str]], translator: Translator, sign: str) -> None:
    translations = translator.translate([line for line, _ in pairs])
    kept = [is_kept(span, item.text) for (_, span), item in zip(pairs, translations, strict=True)]
    n_flagged = sum(sign in item.warnings for item, ok in zip(translations, kept, strict=True) if not ok)
    silent = len(pairs) - sum(kept) - n_flagged
    n_false = sum(sign in item.warnings for item, ok in zip(translations, kept, strict=True) if ok)
    result = f"kept {sum(kept) / len(pairs):.1%}, lost and flagged {n_flagged}, silent {silent}"
    result += f"; kept and flagged {n_false}"
    print(f"| {name} | {len(pairs)} | {result} | |", flush=True)


def report(translator: Translator, test: Path, others: Sequence[Path], details: bool) -> None:
    rng = random.Random(1)
    lines = [line for line in read(test) if len(line.split()) > 2][: 2 * N_LINES]
    faults = {
        "ordinary lines": lines[:N_LINES],
        "random strings": [random_strings(line, rng) for line in lines[:N_LINES]],
        "capitals": [line.upper() for line in lines[:N_LINES]],
        "shuffled words": [shuffled(line, rng) for line in lines[:N_LINES]],
    }
    faults |= {f"other language: {path.name}": read(path)[:N_LINES] for path in others}
    print("| lines | n | flagged | by |\n|---|---|---|---|")
    for name, texts in faults.items():
        print(f"| {name} | {len(texts)} | {flags(translator.translate(texts, details=details))} |", flush=True)
    report_kept("planted numbers", [with_number(line, rng) for line in lines[:N_LINES]], translator, "numbers")
    pairs = [with_placeholder(line, rng) for line in lines[:N_LINES]]
    report_kept("planted placeholders", pairs, translator, "placeholder")
    protection = Protection()
    translations = translator.translate(lines)
    pairs = zip(lines, translations, strict=True)
    right = [item for line, item in pairs if not protection.lost(line, item.text).warnings]
    print(f"| lines whose numbers are right | {len(right[:N_LINES])} | {flags(right[:N_LINES])} |")
    report_paragraphs(translator, lines)


def report_paragraphs(translator: Translator, lines: Sequence[str]) -> None:
    """Ten sentences as one text, with and without splitting, compared with their own translations."""
    from sacrebleu import corpus_chrf

    single = [line for line in lines if line.endswith(".") and ". " not in line][:200]
    groups = [single[i : i + 10] for i in range(0, len(single) - 9, 10)]
    alone = [" ".join(item.text for item in translator.translate(group)) for group in groups]
    for split in (True, False):
        texts = [item.text for item in translator.translate([" ".join(group) for group in groups], split=split)]
        n_same = sum(text == expected for text, expected in zip(texts, alone, strict=True))
        similar = corpus_chrf(texts, [alone]).score
        name = "ten sentences on a line" + ("" if split else ", --no-split")
        print(f"| {name} | {len(texts)} | same as one by one: {n_same}, chrF {similar:.1f} | |")


def seconds(source: Path, run: Path, lines: Path, *more: str) -> float:
    """The whole command of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(source / "src")}
    started_at = time.perf_counter()
    command = [sys.executable, "-m", "regard", "translate", str(run), str(lines), *more]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return time.perf_counter() - started_at


def copy_model(run: Path, to: Path, validation: Path | None) -> None:
    """A copy with thresholds that an older version reads: without settings at their defaults, which it may not know."""
    described = describe(run)
    shutil.copytree(described.directory, to)
    content = json.loads((to / "config.json").read_text())
    config = ARCHITECTURES[described.architecture].config
    content["model"] = config(**content["model"]).model_dump(exclude_defaults=True)
    with load(run, validation) as translator:
        content["facts"] = dict(translator.described.facts)
    data = json.dumps(content).encode()
    (to / "config.json").write_bytes(data)
    manifest = json.loads((to / "manifest.json").read_text())
    manifest["files"]["config.json"] |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (to / "manifest.json").write_text(json.dumps(manifest))


def report_speed(run: Path, before: Path, test: Path, validation: Path | None) -> None:
    """Lines per second of this checkout over those of an older one, in alternation; medians.

    For all lines, and for those without digits, where nothing is searched again.
    """
    here, all_lines = Path(__file__).parents[1], read(test)
    texts = {"all lines": all_lines, "lines without digits": [line for line in all_lines if not re.search(r"\d", line)]}
    contenders: dict[str, tuple[Path, list[str]]] = {
        "before": (before, []), "now": (here, []), "now, --warnings": (here, ["--warnings"])
    }  # fmt: skip
    times: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as directory:
        model = Path(directory) / "model"
        copy_model(run, model, validation)
        for number, (name, lines) in product(range(REPEATS), texts.items()):
            file = Path(directory) / f"{name}.txt"
            file.write_text("\n".join((lines * (SPEED_LINES // len(lines) + 1))[:SPEED_LINES]) + "\n", encoding="utf-8")
            for contender, (source, more) in contenders.items():
                times.setdefault((name, contender), []).append(seconds(source, model, file, *more))
            print(f"repetition {number + 1}, {name}: {[round(values[-1], 2) for values in times.values()]}", flush=True)
    for (name, contender), values in times.items():
        ratios = [old / new for old, new in zip(times[name, "before"], values, strict=True)]
        speed = f"{SPEED_LINES / statistics.median(values):,.0f} lines/s"
        print(f"| {name} | {contender} | {speed} | {statistics.median(ratios):.3f} of before |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--other", type=Path, action="append", default=[])
    parser.add_argument("--validation", type=Path)
    parser.add_argument("--details", action="store_true", help="with attention, for the warning left-out")
    parser.add_argument("--speed", type=Path)
    arguments = parser.parse_args()
    if arguments.speed is not None:
        report_speed(arguments.run, arguments.speed, arguments.test, arguments.validation)
        return
    with load(arguments.run, arguments.validation) as translator:
        print(f"thresholds: {translator.described.facts.get(FACT, 'defaults')}")
        report(translator, arguments.test, arguments.other, arguments.details)


if __name__ == "__main__":
    main()

"""Run the commands in README.md and write their output between its markers.

    python benchmarks/readme.py --only demo                                # the demo and docs/heads.png: two minutes
    python benchmarks/readme.py --only own-text --data DIR [--budget 10m]  # also writes a row of results/quality.md
    python benchmarks/readme.py --data DIR                                 # both
    python benchmarks/readme.py --only own-text --data DIR --keep RUNS      # keeps the trained model in RUNS/runs/en-de

DIR holds Multi30k: {train,val,test_2016_flickr}.{en,de}. `tests/system/test_demo.py` repeats the demo and compares;
`tests/test_docs.py` compares the block of own text with its row.
"""

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import quality

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
FAMOUS = "The animal did not cross the street because it was too tired."
SENTENCE = "A man in an orange hat is riding a bike."
TEST_SET = "test_2016_flickr"
BLOCKS = ("demo", "own-text")


def run(command: str, directory: Path, text: str = "") -> "subprocess.CompletedProcess[str]":
    """Run `regard …` as a user would; progress is also shown."""
    words = [sys.executable, "-m", *shlex.split(command)]
    process = subprocess.run(words, cwd=directory, input=text, capture_output=True, text=True)
    sys.stderr.write(process.stderr)
    process.check_returncode()
    return process


def demo_output(directory: Path) -> list[str]:
    """The examples and figures that the demo prints, without its suggestions; also draws docs/heads.png."""
    lines = run("regard demo --no-serve", directory).stdout.strip("\n").splitlines()
    run(f'regard look runs/demo "{FAMOUS}" --attention cross --png heads.png', directory)
    shutil.copy(directory / "heads.png", ROOT / "docs" / "heads.png")
    return list(until(lines, "Your own text"))


def until(lines: Iterable[str], prefix: str) -> Iterable[str]:
    for line in lines:
        if line.startswith(prefix):
            return
        yield line


def own_text_output(data: Path, directory: Path, budget: str) -> list[str]:
    """Train, translate and evaluate; the lines that change many times during the training are left out."""
    for name, language in ((name, language) for name in ("train", "test") for language in ("en", "de")):
        shutil.copy(data / f"{TEST_SET if name == 'test' else name}.{language}", directory / f"{name}.{language}")
    train = f"regard train --source train.en --target train.de --out runs/en-de --budget {budget}"
    translate, evaluate = (
        "regard translate runs/en-de",
        "regard evaluate runs/en-de --source test.en --reference test.de",
    )
    progress = run(train, directory).stderr.splitlines()
    summary = [line for line in progress if re.match(r"(data|model|training|finished|BLEU)\b(?! …)", line)]
    assert len(summary) == 5, f"the display has changed: {summary}"
    return [
        f"$ {train}",
        *summary,
        f'$ echo "{SENTENCE}" | {translate}',
        *run(translate, directory, f"{SENTENCE}\n").stdout.splitlines(),
        f"$ {evaluate}",
        *(line.rpartition("  ")[0].rstrip() for line in run(evaluate, directory).stdout.splitlines()),  # no signatures
    ]


def replace_block(readme: str, name: str, lines: list[str]) -> str:
    """The text with the block between `<!-- NAME -->` and `<!-- /NAME -->` replaced."""
    block = "\n".join([f"<!-- {name} -->", "```", *lines, "```", f"<!-- /{name} -->"])
    replaced, n_replaced = re.subn(rf"<!-- {name} -->.*?<!-- /{name} -->", lambda _: block, readme, flags=re.DOTALL)
    assert n_replaced == 1, f"README.md has {n_replaced} blocks {name}"
    return replaced


def write_row(row: str) -> None:
    """Add the row to the results, in place of the README's last one."""
    lines = quality.RESULTS.read_text(encoding="utf-8").splitlines(keepends=True)
    quality.RESULTS.write_text("".join(line for line in lines if "`, README |" not in line), encoding="utf-8")
    quality.add_row(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=BLOCKS)
    parser.add_argument("--data", type=Path, help="the directory of Multi30k")
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--keep", type=Path, help="keep what is trained in this new directory")
    args = parser.parse_args()
    blocks = [args.only] if args.only else BLOCKS
    if "own-text" in blocks and args.data is None:
        parser.error("own-text needs --data DIR")
    for name in blocks:
        with tempfile.TemporaryDirectory() as temporary:
            directory = args.keep or Path(temporary)
            directory.mkdir(exist_ok=True)
            if name == "demo":
                lines = demo_output(directory)
            else:
                lines = own_text_output(args.data.resolve(), directory, args.budget)
                experiment = quality.Experiment(args.data.resolve(), ("en", "de"), test=TEST_SET)
                write_row(experiment.row(directory / "runs" / "en-de", f"`--budget {args.budget}`, README"))
        README.write_text(replace_block(README.read_text(encoding="utf-8"), name, lines), encoding="utf-8")
        print("\n".join(lines))


if __name__ == "__main__":
    main()

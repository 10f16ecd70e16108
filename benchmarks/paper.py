"""Put the results of `regard paper` into the guides: docs/paper.md and docs/ko/paper.md, and into benchmarks/results/.

    regard paper table2 --out runs/table2 --source … --target … --budget 10m
    python benchmarks/paper.py runs/table2 [runs/story …]

Each directory has the NAME.md of one command. In the guides, its tables replace what is between `<!-- NAME -->` and
`<!-- /NAME -->`.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
GUIDES = (ROOT / "docs" / "paper.md", ROOT / "docs" / "ko" / "paper.md")
NAMES = ("story", "table1", "table2", "table3", "distance")
TABLES = {"story": 3, "table1": 4}  # how many of its tables are in the guides; of others, the first


def tables(markdown: str) -> list[str]:
    return [block for block in markdown.split("\n\n") if block.startswith("|")]


def filled(guide: str, name: str, content: str) -> str:
    pattern = re.compile(rf"<!-- {name} -->\n.*?<!-- /{name} -->", re.DOTALL)
    assert pattern.search(guide), f"there is no place for {name}"
    return pattern.sub(lambda _: f"<!-- {name} -->\n{content}\n<!-- /{name} -->", guide)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directories", type=Path, nargs="+")
    for directory in parser.parse_args().directories:
        [name] = (name for name in NAMES if (directory / f"{name}.md").exists())
        result = (directory / f"{name}.md").read_text(encoding="utf-8")
        (RESULTS / f"paper_{name}.md").write_text(result, encoding="utf-8")
        content = "\n\n".join(tables(result)[: TABLES.get(name, 1)])
        for guide in GUIDES:
            guide.write_text(filled(guide.read_text(encoding="utf-8"), name, content), encoding="utf-8")
        sys.stderr.write(f"{name}: results/paper_{name}.md and the guides\n")


if __name__ == "__main__":
    main()

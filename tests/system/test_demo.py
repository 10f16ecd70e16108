"""The whole demo through the command line, compared with the output that README.md shows."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[2] / "README.md"
TOLERANCES = {
    "Unseen sentences": 3.0,
    "Unseen noun pairs": 3.0,
    "This head": 30.0,
}  # percentage points, as README.md states


def shown_output() -> list[str]:
    """The lines of README.md's block, which `python benchmarks/readme.py --only demo` writes."""
    (block,) = re.findall(
        r"<!-- demo -->\n```\n(.*?)```\n<!-- /demo -->", README.read_text(encoding="utf-8"), re.DOTALL
    )
    return str(block).splitlines()


def percentages(line: str) -> list[float]:
    return [float(number) for number in re.findall(r"([\d.]+)%", line)]


def without_numbers(line: str) -> str:
    """The wording: which head attends to which words, and how often, may differ between CPUs."""
    return re.sub(r"\((?:en|de)coder layer .*\)|[\d.]+%", "…", line)


def differences(shown: list[str], printed: list[str]) -> list[tuple[str, str]]:
    """The lines whose wording differs, or whose numbers differ by more than their tolerance."""
    assert len(shown) == len(printed)
    pairs = [(line, printed_line) for line, printed_line in zip(shown, printed, strict=True)]
    return [(line, other) for line, other in pairs if without_numbers(line) != without_numbers(other)] + [
        (line, other)
        for line, other in pairs
        for prefix, tolerance in TOLERANCES.items()
        if line.startswith(prefix)
        for number, other_number in zip(percentages(line), percentages(other), strict=True)
        if abs(number - other_number) > tolerance
    ]


@pytest.mark.timeout(600)
def test_the_demo_prints_what_the_readme_shows(inline: Callable[..., Any], tmp_path: Path) -> None:
    result = inline("demo", "--no-serve")
    assert result.returncode == 0, result.stderr
    shown, printed = shown_output(), result.stdout.strip("\n").splitlines()
    assert len(shown) >= 10
    assert differences(shown, printed[: len(shown)]) == []
    assert "regard train --source YOUR.en --target YOUR.de" in result.stdout
    facts = json.loads((tmp_path / "runs" / "demo" / "model" / "config.json").read_text())["facts"]
    assert facts["accuracy"] >= 0.95 and facts["bleu"] >= 90


def test_a_demo_that_learned_less_differs_from_the_readme() -> None:
    shown = shown_output()
    worse = [re.sub(r"\d+\.\d%", "90.0%", line) for line in shown]
    assert len(differences(shown, worse)) >= 2
    assert differences(shown, [line.replace(" es zu ", " sie zu ") for line in shown]) != []
    assert differences(shown, [line.replace("layer 2, head", "layer 1, head") for line in shown]) == []

"""The JavaScript of the page passes the checks of `make check`: format, lint, types, unit tests."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DENO = Path(sys.executable).parent / "deno"


@pytest.mark.parametrize(
    "arguments",
    [["fmt", "--check"], ["lint"], ["check", "src/regard/web"], ["test", "--no-check", "--quiet", "tests/page"]],
    ids=lambda arguments: arguments[0],
)
def test_javascript_passes(arguments: list[str]) -> None:
    result = subprocess.run([DENO, *arguments], cwd=ROOT, capture_output=True, text=True, env={"NO_COLOR": "1"})
    assert result.returncode == 0, result.stdout + result.stderr

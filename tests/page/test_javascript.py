"""The JavaScript of the page passes the checks of `make check`: format, lint, types, unit tests; all texts are used."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "src" / "regard" / "web"
DENO = Path(sys.executable).parent / "deno"


@pytest.mark.parametrize(
    "arguments",
    [["fmt", "--check"], ["lint"], ["check", "src/regard/web"], ["test", "--no-check", "--quiet", "tests/page"]],
    ids=lambda arguments: arguments[0],
)
def test_javascript_passes(arguments: list[str]) -> None:
    result = subprocess.run([DENO, *arguments], cwd=ROOT, capture_output=True, text=True, env={"NO_COLOR": "1"})
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_text_of_the_page_is_used() -> None:
    """As a whole key such as "try.heads", or by a template such as `theme.${theme}`."""
    texts = {path.name: path.read_text() for path in (WEB / "texts").glob("*.en.js")}
    code = "".join(path.read_text() for path in WEB.rglob("*.*") if not re.search(r"\.(en|ko)\.js$", path.name))
    prefixes = tuple(re.findall(r"`([\w.]+\.)\$\{", code))
    for name, prefix in (("page.en.js", ""), ("look.en.js", "look.")):
        exported = texts[name].partition("export const")[2]
        keys = [prefix + key for key in re.findall(r'^  "?([\w.]+)"?:', exported, re.MULTILINE)]
        assert len(keys) > 50
        unused = [key for key in keys if not re.search(rf'"{re.escape(key)}[".]', code)]
        assert [key for key in unused if not f"{key}.".startswith(prefixes)] == []

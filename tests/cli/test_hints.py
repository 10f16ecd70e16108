"""Hints name commands that work from a clone of the repository."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from regard.cli import demo, serve
from regard.errors import UserError

ROOT = Path(__file__).parents[2]


def test_hints_install_extras_from_the_clone() -> None:
    """Regard is not on PyPI: `pip install 'regard[serve]'` fails, or installs something else."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    assert not [line for text in sources for line in text.splitlines() if re.search(r"pip install '?\"?regard", line)]
    extras = {extra for text in sources for extra in re.findall(r"pip install '\.\[(\w+)\]'", text)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"serve", "plot", "import"} <= extras <= set(project["optional-dependencies"])


def test_serve_without_its_dependencies_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "regard.serve", None)
    with pytest.raises(UserError, match=r"not installed; hint: in Regard's directory, run: pip install '\.\[serve\]'"):
        serve.serve([Path("run")])


def test_demo_without_the_page_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    demo._open_page(Path("runs/demo"), 8000)
    assert "in Regard's directory, run: pip install '.[serve]'; then: regard serve runs/demo" in capsys.readouterr().out

"""The structure of the source: import layers, and the length of files and functions."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regard"
FILES = sorted(SOURCE.rglob("*.py"))
MAX_FILE_LINES, MAX_FUNCTION_LINES = 500, 60

BROKEN_CONTRACT = """
[importlinter]
root_package = regard
[importlinter:contract:upside-down]
name = Upside down
type = layers
layers =
    regard.errors
    regard.text
"""


def lint_imports(*flags: str | Path) -> "subprocess.CompletedProcess[str]":
    command = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [str(command), "--no-cache", *map(str, flags)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def test_imports_go_down_the_layers_only() -> None:
    result = lint_imports()
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


def test_an_upward_import_is_reported(tmp_path: Path) -> None:
    (tmp_path / "contract.ini").write_text(BROKEN_CONTRACT)
    assert lint_imports("--config", tmp_path / "contract.ini").returncode != 0


def layered_packages(pyproject: str) -> list[str]:
    """The packages in the layers contract, as often as each is listed."""
    contracts = tomllib.loads(pyproject)["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [package.strip() for layer in layers for package in layer.split("|")]


def packages_of(entries: Iterable[Path]) -> list[str]:
    """The packages and modules directly below `regard`."""
    modules = {path.stem for path in entries if path.suffix == ".py" or (path / "__init__.py").exists()}
    return [f"regard.{name}" for name in modules if not name.startswith("__")]


def test_every_package_is_in_exactly_one_layer() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert sorted(layered_packages(pyproject)) == sorted(packages_of(SOURCE.iterdir()))


@pytest.mark.parametrize(
    "layers", ["'regard.text'", "'regard.text', 'regard.nn | regard.text'", "'regard.text', 'regard.nnn'"]
)
def test_a_package_that_is_missing_or_listed_twice_is_noticed(layers: str, tmp_path: Path) -> None:
    (tmp_path / "nn").mkdir()
    for module in ("nn/__init__.py", "text.py", "__init__.py"):
        (tmp_path / module).touch()
    contract = "# regard.nn in a comment is no layer\n[[tool.importlinter.contracts]]\ntype = 'layers'\nlayers = [{}]"
    packages = sorted(packages_of(tmp_path.iterdir()))
    assert packages == ["regard.nn", "regard.text"]
    assert sorted(layered_packages(contract.format("'regard.nn | regard.text'"))) == packages
    assert sorted(layered_packages(contract.format(layers))) != packages


def test_files_are_short_enough_to_read() -> None:
    lengths = {path.relative_to(SOURCE): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert len(lengths) > 50
    assert {str(path): length for path, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_functions_are_short_enough_to_read() -> None:
    assert {name: length for path in FILES for name, length in functions_of(path) if length > MAX_FUNCTION_LINES} == {}


def functions_of(path: Path) -> Iterator[tuple[str, int]]:
    """Names of the functions in a file, and the lines of their bodies: a command's parameters hold its help."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = node.end_lineno or node.lineno
            yield f"{path.name}:{node.name}", last - node.body[0].lineno + 1


def test_no_module_has_a_catch_all_name() -> None:
    assert [path.name for path in FILES if path.stem in {"utils", "util", "helpers", "common", "misc"}] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_has_a_docstring(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not text or ast.get_docstring(ast.parse(text))

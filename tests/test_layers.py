"""The shape of the source: who may import whom, and how long anything may be."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regard"
FILES = sorted(SOURCE.rglob("*.py"))
MAX_FILE_LINES, MAX_FUNCTION_LINES = 500, 60

CONTRACT = """
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


def test_imports_go_down_the_floors_only() -> None:
    done = lint_imports()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_a_broken_floor_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "contract.ini").write_text(CONTRACT)
    assert lint_imports("--config", tmp_path / "contract.ini").returncode != 0


def test_every_room_stands_on_a_floor() -> None:
    stated = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert sorted(room for room in rooms if not room.startswith("__") and f"regard.{room}" not in stated) == []


def test_files_are_short_enough_to_read() -> None:
    lengths = {path.relative_to(SOURCE): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert len(lengths) > 50
    assert {str(path): length for path, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_functions_are_short_enough_to_read() -> None:
    assert {name: length for path in FILES for name, length in functions_of(path) if length > MAX_FUNCTION_LINES} == {}


def functions_of(path: Path) -> Iterator[tuple[str, int]]:
    """Names and lines of a file's functions; what a command's parameters say is its documentation, and not counted."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = node.end_lineno or node.lineno
            yield f"{path.name}:{node.name}", last - node.body[0].lineno + 1


def test_there_is_no_room_for_odds_and_ends() -> None:
    assert [path.name for path in FILES if path.stem in {"utils", "util", "helpers", "common", "misc"}] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_file_says_what_it_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not text or ast.get_docstring(ast.parse(text))

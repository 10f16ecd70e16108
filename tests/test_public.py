"""The public names of `regard`, and what importing it and asking for help loads."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "numpy", "sentencepiece", "ctranslate2", "matplotlib", "fastapi")


def modules_after(program: str) -> set[str]:
    """All modules that a program loads in a fresh interpreter."""
    program += "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    return set(json.loads(process.stdout.splitlines()[-1]))


def test_importing_regard_loads_no_heavy_modules() -> None:
    assert modules_after("import regard; regard.__version__").isdisjoint(HEAVY)


@pytest.mark.parametrize("arguments", [("--help",), ("train", "--help"), ("--version",)], ids=" ".join)
def test_help_loads_few_modules_and_no_heavy_ones(arguments: tuple[str, ...]) -> None:
    """Loading modules is what takes time; unlike seconds, their number does not depend on the load of the machine."""
    modules = modules_after(
        f"import sys, regard.cli\nsys.argv = ['regard', *{arguments!r}]\n"
        "try: regard.cli.main()\nexcept SystemExit as error: assert not error.code"
    )
    assert modules.isdisjoint(HEAVY)
    assert len(modules) < 450  # about 330: Typer, Rich and the standard library


@pytest.mark.parametrize("name", regard.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(regard, name) is not None
    assert name in dir(regard)


def test_unknown_attribute_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'nothing'"):
        regard.nothing  # noqa: B018


def test_the_version_is_that_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert regard.__version__ == project["version"]


def test_the_command_and_the_module_are_the_same() -> None:
    processes = [
        subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=120)
        for command in ([sys.executable, "-m", "regard"], [str(Path(sys.executable).with_name("regard"))])
    ]
    assert {(process.returncode, process.stdout, process.stderr) for process in processes} == {
        (0, f"regard {regard.__version__}\n", "")
    }

"""The public names of `regard`, and the time it takes to import it."""

import json
import resource
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "numpy", "sentencepiece", "ctranslate2", "matplotlib", "fastapi")


def modules_after(program: str) -> set[str]:
    """The top-level modules that a program loads in a fresh interpreter."""
    program += "\nimport json, sys; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(process.stdout.splitlines()[-1]))


def test_importing_regard_loads_no_heavy_modules() -> None:
    assert modules_after("import regard; regard.__version__").isdisjoint(HEAVY)


def test_help_loads_no_heavy_modules() -> None:
    program = (
        "import sys, regard.cli\nsys.argv = ['regard', {}]\n"
        "try: regard.cli.main()\nexcept SystemExit as error: assert not error.code"
    )
    for flags in ("'--help'", "'train', '--help'", "'--version'"):
        assert modules_after(program.format(flags)).isdisjoint(HEAVY), flags


def test_help_is_fast() -> None:
    """Best of five, in CPU time, so that other processes do not count."""

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "regard", "--help"], capture_output=True, timeout=60, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(5)) < 0.4


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
        subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60)
        for command in ([sys.executable, "-m", "regard"], [str(Path(sys.executable).with_name("regard"))])
    ]
    assert {(process.returncode, process.stdout, process.stderr) for process in processes} == {
        (0, f"regard {regard.__version__}\n", "")
    }

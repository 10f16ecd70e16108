"""The public face: light to import, and what it promises is there."""

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
    """The top-level modules that a fresh interpreter has loaded after a program."""
    program += "\nimport json, sys; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_regard_loads_nothing_heavy() -> None:
    assert modules_after("import regard; regard.__version__").isdisjoint(HEAVY)


def test_asking_for_help_loads_nothing_heavy() -> None:
    program = (
        "import sys, regard.cli\nsys.argv = ['regard', {}]\n"
        "try: regard.cli.main()\nexcept SystemExit as ended: assert not ended.code"
    )
    for flags in ("'--help'", "'train', '--help'", "'--version'"):
        assert modules_after(program.format(flags)).isdisjoint(HEAVY), flags


def test_help_comes_at_once() -> None:
    """Best of five, in seconds of the processor: what else runs on the machine is not counted."""

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "regard", "--help"], capture_output=True, timeout=60, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(5)) < 0.4


@pytest.mark.parametrize("name", regard.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(regard, name) is not None
    assert name in dir(regard)


def test_a_name_that_is_not_there_is_said_so() -> None:
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'nothing'"):
        regard.nothing  # noqa: B018


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert regard.__version__ == project["version"]


def test_the_command_is_the_module() -> None:
    done = [
        subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60)
        for command in ([sys.executable, "-m", "regard"], [str(Path(sys.executable).with_name("regard"))])
    ]
    assert {(one.returncode, one.stdout, one.stderr) for one in done} == {(0, f"regard {regard.__version__}\n", "")}

"""A separate virtual environment for each implementation that Regard is compared with, created once."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def peer_python(name: str) -> Path:
    """The interpreter of an environment with exactly the packages in peers/NAME.txt."""
    requirements = HERE / "peers" / f"{name}.txt"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    home = HERE / ".venv-peers" / name
    python, stamp = home / "bin" / "python", home / "made-from"
    if not stamp.exists() or stamp.read_text() != digest:
        print(f"creating the environment of {name} …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if torch := re.search(r"^torch==\S+$", requirements.read_text(), re.MULTILINE):
            subprocess.run([*pip, torch[0]], check=True)  # alone, so that pip finds the CPU build
        subprocess.run([*pip, "--no-deps", "-r", str(requirements)], check=True)
        stamp.write_text(digest)
    return python


def peer_version(name: str, package: str) -> str:
    """The version that peers/NAME.txt pins."""
    pin = re.search(rf"^{package}==(\S+)$", (HERE / "peers" / f"{name}.txt").read_text(), re.MULTILINE)
    assert pin, f"{name}.txt does not pin {package}"
    return pin[1]

"""The peers' virtual environments: each has its own, made once, beside nothing of ours."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def peer_python(name: str) -> Path:
    """The interpreter of an environment that has what peers/NAME.txt lists, and nothing else."""
    listed = HERE / "peers" / f"{name}.txt"
    wanted = hashlib.sha256(listed.read_bytes()).hexdigest()
    home = HERE / ".venv-peers" / name
    python, stamp = home / "bin" / "python", home / "made-from"
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"making the environment of {name} …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if torch := re.search(r"^torch==\S+$", listed.read_text(), re.MULTILINE):
            subprocess.run([*pip, torch[0]], check=True)  # alone: only so is the CPU build found
        subprocess.run([*pip, "--no-deps", "-r", str(listed)], check=True)
        stamp.write_text(wanted)
    return python


def peer_version(name: str, package: str) -> str:
    """As peers/NAME.txt pins it."""
    found = re.search(rf"^{package}==(\S+)$", (HERE / "peers" / f"{name}.txt").read_text(), re.MULTILINE)
    assert found, f"{name}.txt does not pin {package}"
    return found[1]

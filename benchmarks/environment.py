"""The peers' own virtual environment, made once, beside nothing of ours."""

import hashlib
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def peer_python() -> Path:
    """The interpreter of an environment that has what requirements.txt says."""
    wanted = hashlib.sha256((HERE / "requirements.txt").read_bytes()).hexdigest()
    home = HERE / ".venv-peers"
    python, stamp = home / "bin" / "python", home / "made-from"
    if not stamp.exists() or stamp.read_text() != wanted:
        print("making the peers' environment …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "torch==2.13.0"], check=True)
        subprocess.run([*pip, "-r", str(HERE / "requirements.txt")], check=True)
        stamp.write_text(wanted)
    return python

"""What all measurements use: a model, sentences, and the real command as a subprocess."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

FAULTY_SERVICE = Path(__file__).parent / "faulty_service.py"


@dataclass(frozen=True)
class Result:
    """What was measured, and whether it passed."""

    text: str
    passed: bool


@dataclass
class Child:
    """A running service."""

    process: subprocess.Popen[str]
    port: int
    log: Path
    lines: list[str] = field(default_factory=list)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    @property
    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


@dataclass(frozen=True)
class Harness:
    model: Path
    sentences: list[str]
    seconds: float  # duration of a long measurement
    quick: bool

    def sample(self, n: int) -> list[str]:
        """`n` sentences, repeated if there are not enough."""
        return list(islice(cycle(self.sentences), n))

    def choose(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    @contextmanager
    def run_service(self, *options: str) -> Iterator[Child]:
        """Runs `regard serve` on a free port."""
        command = [sys.executable, "-m", "regard", "serve", str(self.model), "--port", "0", *options]
        with self._run(command) as child:
            yield child

    @contextmanager
    def run_faulty_service(self) -> Iterator[Child]:
        """Runs the same service with an engine that dies or blocks on certain words."""
        with self._run([sys.executable, str(FAULTY_SERVICE), str(self.model)]) as child:
            yield child

    @contextmanager
    def _run(self, command: list[str]) -> Iterator[Child]:
        with tempfile.TemporaryDirectory(prefix="regard-serve-") as folder:
            log = Path(folder) / "log"
            with log.open("w") as stderr:
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
            assert process.stdout is not None
            try:
                line = process.stdout.readline()
                if not line:
                    raise RuntimeError(log.read_text()[-500:])
                yield Child(process, int(line.rpartition(":")[2]), log, [line])
            finally:
                process.kill()
                process.wait()
                process.stdout.close()

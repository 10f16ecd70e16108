"""Peak memory of `regard translate` on a long stream of lines.

python benchmarks/stream_memory.py [--model DIR] [--lines 2000000]
"""

import argparse
import platform
import subprocess
import sys
import threading
import time
from datetime import date
from pathlib import Path

HERE = Path(__file__).parent
LIMIT_MIB = 100  # growth from the first tenth to the end


def peak_mib(pid: int) -> float:
    """VmHWM of a running process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, default=HERE.parent / "tests" / "golden" / "model")
    parser.add_argument("--lines", type=int, default=2_000_000)
    args = parser.parse_args()
    command = [sys.executable, "-m", "regard", "translate", str(args.model), "--beam", "1"]
    started_at = time.perf_counter()
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdin is not None and child.stdout is not None

    def feed() -> None:
        for number in range(args.lines):
            child.stdin.write(b"\n" if number % 10 == 9 else b"%d %d %d\n" % (number % 10, number % 7, number % 3))
        child.stdin.close()

    threading.Thread(target=feed, daemon=True).start()
    n_lines, early, late = 0, 0.0, 0.0
    for _ in child.stdout:
        n_lines += 1
        if n_lines == args.lines // 10:
            early = peak_mib(child.pid)
        if n_lines == args.lines - 1:  # one before the end, while the process still runs
            late = peak_mib(child.pid)
    code, seconds = child.wait(), time.perf_counter() - started_at
    passed = code == 0 and n_lines == args.lines and late - early <= LIMIT_MIB
    text = "\n".join([
        "# Memory of translating",
        "",
        f"{date.today()}, {platform.machine()}: `python benchmarks/stream_memory.py --lines {args.lines}`",
        "",
        f"{args.lines:,} lines in, {n_lines:,} out, {seconds:,.0f} s. Peak after a tenth of them {early:,.0f} MiB, "
        f"at the end {late:,.0f} MiB: {'pass' if passed else 'FAIL'} (limit: +{LIMIT_MIB} MiB).",
        "",
    ])  # fmt: skip
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "stream_memory.md").write_text(text)
    print(text)
    sys.exit(not passed)


if __name__ == "__main__":
    main()

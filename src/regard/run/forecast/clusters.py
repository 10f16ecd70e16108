"""GPUs: what they compute at most, how much of it a training uses, and how long they take to exchange gradients.

Peaks are dense: the figures of data sheets "with sparsity" are twice as high and do not apply to training.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import NamedTuple

from regard.errors import UserError

_DATA_SHEET = "NVIDIA data sheet"


class Gpu(NamedTuple):
    """One kind of GPU. Regard trains in float32, or in bfloat16 where there is one."""

    float32: float  # FLOP/s
    bfloat16: float | None
    memory: float  # bytes
    link: float  # bytes/s, in one direction, to the other GPUs of its host
    source: str = _DATA_SHEET


GPUS = {
    "K80": Gpu(2.8e12, None, 12e9, 12e9, "the paper, footnote 5; memory of one of its two chips"),
    "K40": Gpu(3.7e12, None, 12e9, 12e9, "the paper, footnote 5"),
    "M40": Gpu(6.0e12, None, 12e9, 12e9, "the paper, footnote 5"),
    "P100": Gpu(9.5e12, None, 16e9, 80e9, "the paper, footnote 5 (data sheet: 9.3 PCIe, 10.6 SXM2)"),
    "V100": Gpu(15.7e12, None, 16e9, 150e9, "NVIDIA data sheet, SXM2 (its 125 TFLOPS are float16, which is not used)"),
    "T4": Gpu(8.1e12, None, 16e9, 16e9, "NVIDIA data sheet (its 65 TFLOPS are float16, which is not used)"),
    "L4": Gpu(30.3e12, 121e12, 24e9, 32e9),
    "L40S": Gpu(91.6e12, 362e12, 48e9, 32e9),
    "A10": Gpu(31.2e12, 125e12, 24e9, 32e9),
    "A100": Gpu(19.5e12, 312e12, 80e9, 300e9, "NVIDIA data sheet, 80 GB SXM; torchtitan, get_peak_flops"),
    "H100": Gpu(67e12, 989e12, 80e9, 450e9, "NVIDIA data sheet, SXM; torchtitan, get_peak_flops"),
    "H100-PCIe": Gpu(51e12, 756e12, 80e9, 64e9, "NVIDIA data sheet; torchtitan, get_peak_flops"),
    "H200": Gpu(67e12, 989e12, 141e9, 450e9, "NVIDIA data sheet, SXM; torchtitan, get_peak_flops"),
    "B200": Gpu(75e12, 2250e12, 180e9, 900e9, "NVIDIA data sheet, HGX; torchtitan, get_peak_flops"),
}
GPUS_PER_HOST = 8
NETWORK_GBITS = 100.0  # per second and host, if the GPUs are in several

# The share of the peak that a training of such a width reaches: judgement, not measured here, where no GPU was at hand.
UTILISATION = ((1024, (0.25, 0.45)), (512, (0.10, 0.30)), (257, (0.03, 0.15)), (1, (0.01, 0.05)))
SEQUENTIAL_UTILISATION = (0.01, 0.05)  # recurrence: many small products that wait for one another
# Between the starts of two kernels, from Python, however little they compute: judgement, too.
SECONDS_PER_KERNEL = (5e-6, 15e-6)


class Cluster(NamedTuple):
    """So many GPUs of one kind, which share the batches of each step."""

    name: str
    n: int
    gpu: Gpu
    network_gbits: float = NETWORK_GBITS

    @classmethod
    def parse(cls, text: str, network_gbits: float | None = None) -> Cluster:
        """`8xA100`, or `H200` for one; upper and lower case are the same."""
        match = re.fullmatch(r"(?:(\d+)\s*[x×]\s*)?(.+)", text.strip(), re.IGNORECASE)
        count, name = match.groups() if match else (None, text)
        known = {kind.lower(): kind for kind in GPUS}
        kind = known.get(name.lower())
        if kind is None or (count is not None and not 1 <= int(count) <= 100_000):
            near = get_close_matches(name.lower(), known, n=1)
            what = f"did you mean {known[near[0]]}?" if near and kind is None else f"the GPUs are {', '.join(GPUS)}"
            raise UserError(f"--cluster: {text!r} is not a number of GPUs, such as 8xA100", hint=what)
        n = int(count or 1)
        return cls(f"{n} × {kind}" if n > 1 else kind, n, GPUS[kind], network_gbits or NETWORK_GBITS)

    @property
    def n_hosts(self) -> int:
        return -(-self.n // GPUS_PER_HOST)

    def peak(self, precision: str) -> float:
        """FLOP/s of all GPUs. What has no bfloat16 trains in float32."""
        each = self.gpu.bfloat16 if precision == "bfloat16" and self.gpu.bfloat16 else self.gpu.float32
        return self.n * each

    def network_seconds(self, n_bytes: int) -> float:
        """Of a step, for the sum of the gradients: each link carries 2 (n − 1) / n of their bytes."""
        inside = min(self.n, GPUS_PER_HOST)
        seconds = 2 * n_bytes * (inside - 1) / inside / self.gpu.link
        between = 2 * n_bytes * (self.n_hosts - 1) / self.n_hosts / (self.network_gbits * 1e9 / 8)
        return seconds + between


def utilisation(width: int, sequential: bool) -> tuple[float, float]:
    """The lowest and the highest share of the peak to expect."""
    if sequential:
        return SEQUENTIAL_UTILISATION
    return next(share for narrowest, share in UTILISATION if width >= narrowest)

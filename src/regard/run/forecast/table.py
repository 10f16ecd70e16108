"""A forecast as text, and where its figures come from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from regard.metrics import Measure
from regard.report.wording import duration, size_text
from regard.run.forecast.clusters import NETWORK_GBITS, SECONDS_PER_KERNEL, SEQUENTIAL_UTILISATION, UTILISATION, Cluster
from regard.run.forecast.forecast import Forecast, Range
from regard.run.forecast.trial import MAX_TRIAL_FLOPS
from regard.run.forecast.work import MAX_BATCHES
from regard.run.plan import TRIAL_STEPS

_LABEL = 11
_NOUNS = {"translation": "target token", "answering": "sentence", "images": "patch"}  # what the lengths count


def shown(result: Forecast, curve: dict[str, Any] | None = None) -> str:
    """The table."""
    rows = [*_rows(result), *([] if curve is None else _curve_rows(curve))]
    rows += [("note", note) for note in result.notes]
    lines, last = [], ""
    for label, text in rows:
        lines.append(f"{'' if label == last else label:{_LABEL}}{text}\n")
        last = label
    return "".join(lines)


def _rows(result: Forecast) -> Iterable[tuple[str, str]]:
    work, flops, examples = result.work, result.flops, result.examples
    origin = {"text": "", "sample": ", estimated from a sample", "stated": ", as stated"}[examples["from"]]
    yield "model", f"{result.architecture}, {result.size}: {result.parameters:,} parameters, {result.precision}"
    yield "text", f"{examples['n']:,} {examples['unit']}{origin}"
    padding = 1 - work.flops / work.padded_flops
    yield "steps", f"{result.steps:,}, {result.epochs:.1f} epochs; each {_tokens(result)}"
    muon = f", and {flops['optimizer']:.2g} of the optimizer" if flops["optimizer"] else ""
    yield (
        "FLOPs",
        f"{flops['without_padding']:.2g} without padding, {flops['with_padding']:.2g} with it ({padding:.1%}){muon}",
    )
    yield "FLOPs", f"{flops['per_token']:.3g} per {_NOUNS.get(result.task, 'token')}, {flops['per_step']:.2g} per step"
    if result.hardware_flops is not None:
        yield "FLOPs", f"as counted {flops['without_padding']:.2g}"
        yield "FLOPs", f"as the paper counts {_span(result.hardware_flops, '{:.2g}')}: time × GPUs × their peak"
    where = "per GPU" if result.n_gpus else "here"
    yield "memory", f"{size_text(sum(result.memory.values()))} {where}, {result.memory_source}: {_parts(result.memory)}"
    yield "disk", f"{size_text(sum(result.disk.values()))} at most: {_parts(result.disk)}"
    yield from _time_rows(result)


def _tokens(result: Forecast) -> str:
    work = result.work
    unit = "stretches" if result.task == "language" else result.examples["unit"]
    noun = _NOUNS.get(result.task, "token") + ("es" if result.task == "images" else "s")
    return f"{work.n_examples:,.0f} {unit} with {work.n_tokens:,.0f} {noun}"


def _time_rows(result: Forecast) -> Iterable[tuple[str, str]]:
    total = result.total_seconds
    if result.step_seconds is None or total is None:
        yield "time", "cannot be measured here"
        return
    used = "" if result.utilisation is None else f", using {_share(result.utilisation)} of the peak"
    yield "time", f"{result.where}: {_span(result.step_seconds, '{:.3g}')} s per step{used}"
    parts = ", ".join(f"{name} {_time(part)}" for name, part in result.seconds.items())
    budget = ", the budget" if result.budget_seconds is not None else ""
    yield "time", f"{_time(total)} in all{budget}" + (f": {parts}" if len(result.seconds) > 1 else "")
    if result.cost is not None:
        yield "price", _span(result.cost, "{:,.2f}")


def _curve_rows(curve: dict[str, Any]) -> Iterable[tuple[str, str]]:
    label, show = curve["measure"]["label"], Measure(**curve["measure"]).format
    for run in curve["runs"]:
        yield "curve", f"{run['share']} of the text, {duration(run['seconds'])}: {label} {show(run['value'])}"
    for name, words in (("text", "twice the text"), ("time", "twice the time")):
        gain = curve["gains"][name]
        between = "" if gain["interval"] is None else " (95%: {:+.2g} to {:+.2g})".format(*gain["interval"])
        each = " and then ".join(f"{doubling:+.2g}" for doubling in gain["doublings"])
        yield "curve", f"{words}: {label} {gain['value']:+.2g}{between}: {each}"
    if any(gain["changes"] for gain in curve["gains"].values()):
        yield (
            "curve",
            "one doubling is worth much more than the other, so their mean says little: give --curve more time",
        )


def _parts(parts: dict[str, int]) -> str:
    return ", ".join(f"{name} {size_text(size)}" for name, size in parts.items() if size)


def _span(span: Range, form: str) -> str:
    low, high = form.format(span.low), form.format(span.high)
    return low if low == high else f"{low} to {high}"


def _share(span: Range) -> str:
    return _span(span.times(100), "{:.2g}%")


def _time(span: Range) -> str:
    low, high = duration(span.low), duration(span.high)
    return low if low == high else f"{low} to {high}"


def explained(result: Forecast, cluster: Cluster | None) -> str:
    """Where every figure comes from."""
    return "\n" + "".join(f"{line}\n" for line in [*_SOURCES, *(_TIME_HERE if cluster is None else _of_gpus(cluster))])


_SOURCES = (
    "parameters: counted in the model, built without memory for its weights; a shared matrix counts once",
    "FLOPs: two for each multiplication with addition in a product of matrices. Forward by the formulas of every\n"
    "  layer; forward and backward are 3 times as many, less where no gradient is needed. Tests compare them with\n"
    "  what PyTorch's FlopCounterMode counts (within 1%). Element-wise operations are not counted",
    f"lengths: those of the batches of the first epoch, or of {MAX_BATCHES} of them if there are more. With padding,\n"
    "  every example is as long as the longest of its batch; logits are computed for real targets only. Recurrent\n"
    "  encoders skip padding, so for them the figure with padding is too high",
    "optimizer: five Newton–Schulz iterations of Muon per matrix and step",
    "memory: float32 weights and gradients, 4 bytes each per parameter; Adam 8, Muon 4, moving average 4. Measured:\n"
    "  what the system counts for all processes of the trial steps, one of which has the heaviest batch. Calculated:\n"
    "  the tensors that some examples of that batch keep for the backward pass, times their number",
    "disk: the text as numbers, the last checkpoints and the best, if it is not one of them, and the model, which a\n"
    "  translator has twice (for CTranslate2); before there is a model, one more checkpoint while it is saved",
)
_TIME_HERE = (
    f"time: the median of {TRIAL_STEPS - 1} trial steps on this machine; of smaller batches, if a step has more than\n"
    f"  {MAX_TRIAL_FLOPS:.0e} FLOPs. Preparation: as it took just now. Validation: of the untrained model, halved,\n"
    "  because translations end earlier when it is trained. Checkpoints: from the time a file takes to reach the disk",
)


def _of_gpus(cluster: Cluster) -> Iterable[str]:
    gpu = cluster.gpu
    in_bfloat16 = f", {gpu.bfloat16 / 1e12:g} in bfloat16" if gpu.bfloat16 else ", no bfloat16"
    yield f"peak: {gpu.float32 / 1e12:g} TFLOPS in float32{in_bfloat16}, dense; {gpu.memory / 1e9:g} GB ({gpu.source})"
    shares = ", ".join(f"{low:.0%} to {high:.0%} from width {width}" for width, (low, high) in UTILISATION)
    low, high = SEQUENTIAL_UTILISATION
    yield (
        f"share of the peak: judgement, not measured ({shares}; "
        f"recurrent models {low:.0%} to {high:.0%}). The paper's own trainings used 29% (base) and 42% (big)"
    )
    least, most = (1e6 * seconds for seconds in SECONDS_PER_KERNEL)
    yield (
        f"kernels: a step is not shorter than its operations times {least:g} to {most:g} µs, the time in which Python\n"
        "  starts one (judgement). Those of the forward pass are counted, and the backward pass has twice as many"
    )
    yield (
        f"network: 2 (n − 1) / n times the bytes of the float32 gradients per step, at {gpu.link / 1e9:g} GB/s inside\n"
        f"  a host (data sheet) and {cluster.network_gbits:g} Gbit/s between hosts (default {NETWORK_GBITS:g},\n"
        "  assumed), as if it did not overlap with computing"
    )
    yield "time: without the preparation of the text, validations and checkpoints"
    yield "as the paper counts: time × GPUs × their sustained single-precision speed (section 6.1, footnote 5)"

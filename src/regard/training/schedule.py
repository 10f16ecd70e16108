"""The learning rate as a pure function of the step: the paper's (section 5.3) and three newer schedules."""

from math import cos, pi

from regard.training.config import TrainingConfig


def noam(step: int, d_model: int, warmup: int) -> float:
    """Equation 3: d_model^−0.5 · min(step^−0.5, step · warmup^−1.5). Steps count from 1."""
    return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


def constant(step: int, warmup: int) -> float:
    """Rises linearly from 0 to 1 during the warm-up, then stays."""
    return min(1.0, step / warmup)


def cosine(step: int, warmup: int, steps: int) -> float:
    """Rises to 1, then falls to 0 along half a cosine."""
    share = max(0.0, (step - warmup) / max(1, steps - warmup))
    return constant(step, warmup) * 0.5 * (1 + cos(pi * min(1.0, share)))


def cooldown(step: int, warmup: int, steps: int, cooldown_from: float) -> float:
    """Rises to 1, stays, and falls linearly from step `cooldown_from` to 0 after the last step."""
    share_left = (steps - step + 1) / (steps - cooldown_from + 1)
    return constant(step, warmup) * max(0.0, min(1.0, share_left))


def learning_rate(config: TrainingConfig, step: int, steps: int, cooldown_from: float, d_model: int) -> float:
    """The learning rate of a step in a run of `steps`, which a budget may change during the run."""
    noam_peak = noam(config.warmup, d_model, config.warmup)
    peak = noam_peak if config.rate is None else config.rate
    if config.schedule == "noam":
        return peak * noam(step, d_model, config.warmup) / noam_peak
    if config.schedule == "cosine":
        return peak * cosine(step, config.warmup, steps)
    if config.schedule == "cooldown":
        return peak * cooldown(step, config.warmup, steps, cooldown_from)
    return peak * constant(step, config.warmup)

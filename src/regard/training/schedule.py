"""The learning rate as a pure function of the step: the paper's (section 5.3) and four other schedules."""

from math import cos, pi

from regard.training.config import TrainingConfig


def noam(step: int, width: int, warmup: int) -> float:
    """Equation 3: width^−0.5 · min(step^−0.5, step · warmup^−1.5), with d_model as width. Steps count from 1."""
    return float(width**-0.5 * min(step**-0.5, step * warmup**-1.5))


def constant(step: int, warmup: int) -> float:
    """Rises linearly from 0 to 1 during the warm-up, then stays."""
    return min(1.0, step / warmup)


def halving(step: int, warmup: int, halve_every: int) -> float:
    """Rises to 1, and is halved `halve_every` steps after the end of the warm-up, and so on."""
    return constant(step, warmup) * float(0.5 ** (max(0, step - warmup) // halve_every))


def cosine(step: int, warmup: int, steps: int) -> float:
    """Rises to 1, then falls to 0 along half a cosine."""
    share = max(0.0, (step - warmup) / max(1, steps - warmup))
    return constant(step, warmup) * 0.5 * (1 + cos(pi * min(1.0, share)))


def cooldown(step: int, warmup: int, steps: int, cooldown_from: float) -> float:
    """Rises to 1, stays, and falls linearly from step `cooldown_from` to 0 after the last step."""
    share_left = (steps - step + 1) / (steps - cooldown_from + 1)
    return constant(step, warmup) * max(0.0, min(1.0, share_left))


def learning_rate(config: TrainingConfig, step: int, steps: int, cooldown_from: float, width: int) -> float:
    """The learning rate of a step in a run of `steps`, which a budget may change during the run."""
    noam_peak = noam(config.warmup, width, config.warmup)
    peak = noam_peak if config.rate is None else config.rate
    if config.schedule == "noam":
        return peak * noam(step, width, config.warmup) / noam_peak
    if config.schedule == "cosine":
        return peak * cosine(step, config.warmup, steps)
    if config.schedule == "cooldown":
        return peak * cooldown(step, config.warmup, steps, cooldown_from)
    if config.schedule == "halving":
        assert config.halve_every is not None  # TrainingConfig checks it
        return peak * halving(step, config.warmup, config.halve_every)
    return peak * constant(step, config.warmup)

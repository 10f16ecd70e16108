"""The learning rate as a pure function of the step (section 5.3), and three that came later."""

from math import cos, pi

from regard.training.config import TrainingConfig


def noam(step: int, d_model: int, warmup: int) -> float:
    """Equation 3: d_model^−0.5 · min(step^−0.5, step · warmup^−1.5). Steps count from 1."""
    return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


def warmed(step: int, warmup: int) -> float:
    """Rises in a line from 0 to 1, then stays."""
    return min(1.0, step / warmup)


def cosine(step: int, warmup: int, steps: int) -> float:
    """Rises to 1, then falls to 0 along half a cosine."""
    done = max(0.0, (step - warmup) / max(1, steps - warmup))
    return warmed(step, warmup) * 0.5 * (1 + cos(pi * min(1.0, done)))


def cooldown(step: int, warmup: int, steps: int, fall_from: float) -> float:
    """Rises to 1, stays, and falls in a line from step `fall_from` to 0 behind the last step."""
    left = (steps - step + 1) / (steps - fall_from + 1)
    return warmed(step, warmup) * max(0.0, min(1.0, left))


def rate(config: TrainingConfig, step: int, steps: int, fall_from: float, d_model: int) -> float:
    """The rate of a step, of a run of `steps` (which a budget may have changed since the recipe was made)."""
    top = noam(config.warmup, d_model, config.warmup)
    peak = top if config.rate is None else config.rate
    if config.schedule == "noam":
        return peak * noam(step, d_model, config.warmup) / top
    if config.schedule == "cosine":
        return peak * cosine(step, config.warmup, steps)
    if config.schedule == "cooldown":
        return peak * cooldown(step, config.warmup, steps, fall_from)
    return peak * warmed(step, config.warmup)

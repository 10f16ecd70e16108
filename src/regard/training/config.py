"""Training configuration. The defaults are the paper's (section 5) for the base model."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

RateFactor = Annotated[float, Field(ge=0)]  # 0: this part of the model does not learn
Step = Annotated[int, Field(ge=1)]


class TrainingConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """The [training] section of a recipe."""

    seed: int = Field(default=1, ge=0, lt=2**63)
    steps: int = Field(default=100_000, ge=1, le=10**12)

    # tokens per batch and language, padding included; an update sums the gradients of `accumulate` batches per process
    max_tokens: int = Field(default=25_000, ge=8)
    accumulate: int = Field(default=1, ge=1)
    processes: int = Field(default=1, ge=1, le=100_000)  # that share each update; set by --processes and torchrun
    # the same bits for any number of processes: these share the `accumulate` batches, and compute with one thread each
    exact: bool = False
    # steps in which examples get longer, from the shortest to all; 0: batches of all lengths from the start
    curriculum: int = Field(default=0, ge=0)

    # section 5.3
    schedule: Literal["noam", "constant", "cosine", "cooldown", "halving"] = "noam"
    rate: float | None = Field(default=None, gt=0)  # peak learning rate; unset: from the paper's formula
    warmup: int = Field(default=4000, ge=1)  # steps
    cooldown: float = Field(default=0.6, gt=0, le=1)  # share of the steps, at the end, over which "cooldown" falls
    halve_every: int | None = Field(default=None, ge=1)  # steps after which "halving" halves the rate, again and again
    # "muon": orthogonalised updates of matrices, Adam for the rest; "sgd": plain gradient descent
    optimizer: Literal["adam", "muon", "sgd"] = "adam"
    momentum: float | None = Field(default=None, ge=0, lt=1)  # of Muon (unset: 0.95) and SGD (unset: 0)
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.98, ge=0, lt=1)
    epsilon: float = Field(default=1e-9, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)  # weights shrink by rate · weight_decay; not biases and norms
    rate_factors: dict[str, RateFactor] = {}  # for parts of the model: {"encoder.0": 0.5}; the longest name counts
    clip: float | None = Field(default=None, gt=0)  # maximum gradient norm; unset: no clipping
    clip_each: bool = False  # clip the gradient of every parameter apart, not of all together

    # section 5.4, and newer regularisation
    smoothing: float = Field(default=0.1, ge=0, lt=1)
    r_drop: float = Field(default=0.0, ge=0)  # weight of the divergence between two passes; 0 is off
    ema: float | None = Field(default=None, gt=0, lt=1)  # decay of the moving average of the weights; unset: no average

    # section 6.1: the final model is the average of `average` checkpoints
    save_every: int = Field(default=1500, ge=1)  # steps; the paper saved every 10 minutes, at 0.4 s per step
    average: int = Field(default=5, ge=1)
    average_of: Literal["last", "best"] = "last"

    validate_every: int = Field(default=1500, ge=1)  # steps
    validate_at: tuple[Step, ...] = ()  # more steps to validate at, such as early ones, to see it learn
    translated: int = Field(default=200, ge=0)  # number of validation sentences to translate each time
    best_by: str = "loss"  # the measure that decides which checkpoint is best
    patience: int | None = Field(default=None, ge=1)  # stop after this many validations without improvement
    precision: Literal["float32", "bfloat16"] = "float32"
    # a second process for half of each batch; "auto" is the faster way, which a run then keeps
    two_processes: Literal["auto", "on", "off"] = "auto"
    budget_seconds: float | None = Field(default=None, gt=0, le=1e9)  # of the whole run; sets the number of steps

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        if self.budget_seconds is not None and self.schedule != "cooldown":
            raise ValueError("budget_seconds needs schedule = 'cooldown': other schedules need a fixed number of steps")
        if self.schedule == "halving" and self.halve_every is None:
            raise ValueError("schedule = 'halving' needs halve_every, the number of steps between two halvings")
        if self.average_of == "best" and self.save_every % self.validate_every:
            raise ValueError("average_of = 'best' needs save_every to be a multiple of validate_every")
        if self.clip_each and self.clip is None:
            raise ValueError("clip_each needs clip, the maximum norm")
        if self.exact and self.processes != 1:
            raise ValueError("exact leaves the number of processes open: leave out processes")
        if self.exact and self.two_processes == "on":
            raise ValueError("exact computes with one thread per process: leave out two_processes")
        return self

    @property
    def n_batches(self) -> int:
        """The number of batches of an update, in all processes."""
        return self.accumulate * self.processes

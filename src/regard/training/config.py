"""How a model is trained. The defaults are the paper's (section 5) for the base model."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator


class TrainingConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Every value of a run's loop; a recipe's [training]."""

    seed: int = Field(default=1, ge=0, lt=2**63)
    steps: int = Field(default=100_000, ge=1, le=10**12)

    # a batch: at most this many symbols a side, padding included; an update adds up `accumulate` of them
    max_tokens: int = Field(default=25_000, ge=8)
    accumulate: int = Field(default=1, ge=1)

    # section 5.3
    schedule: Literal["noam", "constant", "cosine", "cooldown"] = "noam"
    rate: float | None = Field(default=None, gt=0)  # at its highest; unset: what the paper's formula gives
    warmup: int = Field(default=4000, ge=1)  # steps
    cooldown: float = Field(default=0.6, gt=0, le=1)  # share of the steps, at the end, that "cooldown" falls over
    optimizer: Literal["adam", "muon"] = "adam"  # "muon": orthogonal steps for the matrices, Adam for the rest
    momentum: float = Field(default=0.95, ge=0, lt=1)  # of Muon
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.98, ge=0, lt=1)
    epsilon: float = Field(default=1e-9, gt=0)
    clip: float | None = Field(default=None, gt=0)  # largest norm of the gradient; unset: as it comes

    # section 5.4, and what came after it
    smoothing: float = Field(default=0.1, ge=0, lt=1)
    r_drop: float = Field(default=0.0, ge=0)  # weight of the two passes' divergence; 0 is off
    ema: float | None = Field(default=None, gt=0, lt=1)  # decay of the running average of the weights

    # section 6.1: the product is the average of this many checkpoints
    save_every: int = Field(default=1500, ge=1)  # steps; the paper saved every 10 minutes, at 0.4 s a step
    average: int = Field(default=5, ge=1)
    average_of: Literal["last", "best"] = "last"

    validate_every: int = Field(default=1500, ge=1)  # steps
    translated: int = Field(default=200, ge=0)  # validation sentences that are translated each time; 0: none
    best_by: Literal["loss", "bleu", "chrf"] = "loss"  # what says which checkpoint is best
    patience: int | None = Field(default=None, ge=1)  # validations without a better one before it stops early
    precision: Literal["float32", "bfloat16"] = "float32"
    budget_seconds: float | None = Field(default=None, gt=0, le=1e9)  # whole run; the steps are fitted to it as it goes

    @model_validator(mode="after")
    def _a_budget_needs_a_cooldown(self) -> Self:
        if self.budget_seconds is not None and self.schedule != "cooldown":
            raise ValueError("budget_seconds needs schedule = 'cooldown': the other rates must know their last step")
        return self

    @model_validator(mode="after")
    def _the_best_are_known(self) -> Self:
        if self.average_of == "best" and self.save_every % self.validate_every:
            raise ValueError("average_of = 'best' needs save_every to be a multiple of validate_every")
        if self.best_by != "loss" and not self.translated:
            raise ValueError(f"best_by = '{self.best_by}' needs translated to be above 0")
        return self

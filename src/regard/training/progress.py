"""The state of a training run."""

from dataclasses import dataclass, field

from regard.data import Cursor


@dataclass(frozen=True)
class Progress:
    """How far a run has come. Every checkpoint stores all of it, under these names."""

    step: int  # the last completed step
    steps: int  # the last step of the run; a budget changes it, from when the learning rate begins to fall
    cooldown_from: float  # the step where the learning rate begins to fall
    cursor: Cursor = field(default_factory=Cursor)
    elapsed_seconds: float = 0.0
    prepared_seconds: float = 0.0  # the part of elapsed_seconds before the first step
    best_score: float | None = None  # lower is better
    refit_at: int = 0  # the step after which the budget sets `steps` next
    n_worse: int = 0  # validations since the best one
    validation_seconds: float = 0.0  # duration of the last validation
    stopped_early: bool = False
    budget_seconds: float | None = None  # that `steps` was set for; a run can be given more

    @property
    def finished(self) -> bool:
        return self.stopped_early or self.step >= self.steps

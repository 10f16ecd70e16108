"""What can go wrong, as a tree.

RegardError
├── UserError            what a person can mend; printed as one line with a hint, exit code 2
│   ├── DataError        a text file: names the file and, where there is one, the line
│   ├── RecipeError      a recipe or a setting
│   ├── ArtifactError    a model directory that is refused
│   └── RunError         a run directory: its checkpoints, its lock, its disk
└── TrainingStopped      training ended before its last step, on purpose; the state is saved
"""


class RegardError(Exception):
    """Root of everything that Regard raises on purpose."""


class UserError(RegardError):
    """Something a person can mend: what happened, where, and what to do about it."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """One line: the message, then the hint."""
        return f"{self.message}; hint: {self.hint}" if self.hint else self.message


class DataError(UserError):
    """A text file can not be used as it is."""


class RecipeError(UserError):
    """A recipe, or a value given on the command line, makes no sense."""


class ArtifactError(UserError):
    """A model directory is damaged, or not what it says it is."""


class RunError(UserError):
    """A run directory can not be used as asked: damaged, locked, full, or of another recipe."""


class TrainingStopped(RegardError):
    """Training was asked to stop (a signal) and did, with its state saved."""

    def __init__(self, step: int, signal_number: int) -> None:
        super().__init__(f"stopped by signal {signal_number} after step {step}; the state is saved")
        self.step = step
        self.signal_number = signal_number

"""The exceptions of Regard.

RegardError
├── UserError            the user can fix it; printed as one line with a hint, exit code 2
│   ├── DataError        a text file; the message names the file and, if possible, the line
│   ├── RecipeError      a recipe or a setting
│   ├── ArtifactError    a model directory
│   └── RunError         a run directory: its checkpoints, lock or disk
└── TrainingStopped      training was interrupted; its state is saved
"""


class RegardError(Exception):
    """Base class of all exceptions that Regard raises."""


class UserError(RegardError):
    """An error that the user can fix: what is wrong, where, and what to do."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """One line: the message, then the hint."""
        return f"{self.message}; hint: {self.hint}" if self.hint else self.message


class DataError(UserError):
    """A text file cannot be used."""


class RecipeError(UserError):
    """A recipe, or a value on the command line, is invalid."""


class ArtifactError(UserError):
    """A model directory is damaged or invalid."""


class RunError(UserError):
    """A run directory cannot be used: it is damaged, locked, on a full disk, or of another recipe."""


class TrainingStopped(RegardError):
    """Training was stopped by a signal, and its state is saved."""

    def __init__(self, step: int, signal_number: int) -> None:
        super().__init__(f"stopped by signal {signal_number} after step {step}; the state is saved")
        self.step = step
        self.signal_number = signal_number

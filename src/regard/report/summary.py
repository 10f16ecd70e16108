"""The summary of a run: plain records for the report and for JSON."""

from dataclasses import dataclass, field
from typing import Any, Literal

FORMAT = "regard-run/1"

State = Literal["running", "finished", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPoint:
    """One update. The loss includes label smoothing, the perplexity does not."""

    step: int
    loss: float | None
    perplexity: float | None
    rate: float | None
    tokens_per_second: float | None
    elapsed_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationPoint:
    """One validation; BLEU and chrF only if sentences were translated."""

    step: int
    loss: float | None
    perplexity: float | None
    accuracy: float | None
    bleu: float | None
    chrf: float | None


@dataclass(frozen=True, kw_only=True)
class SampleHistory:
    """A validation sentence and its translations during training: (step, translation)."""

    source: str
    reference: str
    translations: tuple[tuple[int, str], ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "reference": self.reference,
            "translations": [{"step": step, "text": text} for step, text in self.translations],
        }


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """Everything in the report of a run; its size is bounded."""

    name: str
    state: State
    recipe: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] | None = None
    steps: tuple[StepPoint, ...] = ()
    validations: tuple[ValidationPoint, ...] = ()
    samples: tuple[SampleHistory, ...] = ()
    corpora: tuple[dict[str, Any], ...] = ()  # counts and lengths of each pair of files, from the data doctor
    findings: tuple[dict[str, Any], ...] = ()  # of the data doctor, each with the name of its "corpus"
    notes: tuple[str, ...] = ()  # resumes, warnings
    speed: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] | None = None  # of the finished model
    n_steps: int | None = None  # planned number of steps
    eta_seconds: float | None = None
    started_at: str | None = None  # ISO 8601, times of the first and the last event
    updated_at: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "format": FORMAT,
            "name": self.name,
            "state": self.state,
            "recipe": self.recipe,
            "plan": self.plan,
            "steps": [_fields(point) for point in self.steps],
            "validations": [_fields(point) for point in self.validations],
            "samples": [sample.to_dict() for sample in self.samples],
            "corpora": list(self.corpora),
            "findings": list(self.findings),
            "notes": list(self.notes),
            "speed": self.speed,
            "facts": self.facts,
            "n_steps": self.n_steps,
            "eta_seconds": self.eta_seconds,
            "started_at": self.started_at,
            "updated_at": self.updated_at,
        }


def _fields(point: StepPoint | ValidationPoint) -> dict[str, Any]:
    return {name: getattr(point, name) for name in point.__slots__}

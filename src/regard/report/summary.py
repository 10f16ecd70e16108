"""The summary of a run: plain records for the report and for JSON."""

from dataclasses import dataclass, field
from typing import Any, Literal

from regard.metrics import Measure, read_measures

FORMAT = "regard-run/2"

State = Literal["running", "finished", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPoint:
    """One update. The loss includes label smoothing, the negative log-likelihood `nll` does not."""

    step: int
    loss: float | None
    nll: float | None
    rate: float | None
    tokens_per_second: float | None
    elapsed_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationPoint:
    """One validation: the values of the measures, by name."""

    step: int
    metrics: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class SampleHistory:
    """A validation example and the model's outputs for it during training: (step, text)."""

    given: tuple[tuple[str, str], ...]  # names and texts: the input, then what the output should be
    outputs: tuple[tuple[int, str], ...]

    @property
    def expected(self) -> str | None:
        return self.given[-1][1] if len(self.given) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        outputs = [{"step": step, "text": text} for step, text in self.outputs]
        return {"given": dict(self.given), "expected": self.expected, "outputs": outputs}


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

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What the run measures, in the order in which it is shown."""
        return read_measures(self.plan, self.facts)

    @property
    def unit(self) -> str:
        """What training processes per second."""
        unit = (self.plan or {}).get("unit")
        return unit if isinstance(unit, str) else "tokens"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "format": FORMAT,
            **vars(self),
            "measures": [measure._asdict() for measure in self.measures],
            "unit": self.unit,
            "steps": [{name: getattr(point, name) for name in point.__slots__} for point in self.steps],
            "validations": [{"step": point.step, **point.metrics} for point in self.validations],
            "samples": [sample.to_dict() for sample in self.samples],
        }

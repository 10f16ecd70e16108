"""What is done with the inputs of a batch: translate them with certain options, or predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from regard.decoding.options import DecodingOptions
from regard.errors import UserError
from regard.serve.http.problem import Problem
from regard.translator import Translation

if TYPE_CHECKING:
    from regard.tasks import Predictor


class TranslatorLike(Protocol):
    """What the service needs of a Translator, besides `predict`."""

    def translate(
        self, lines: Sequence[str], *, options: DecodingOptions, target: str | None, details: bool
    ) -> list[Translation]: ...


@dataclass(frozen=True)
class TranslateJob:
    """Texts → translations."""

    options: DecodingOptions = field(default_factory=DecodingOptions)
    target: str | None = None
    details: bool = False

    @property
    def beam(self) -> int:
        return self.options.beam

    def run(self, translator: TranslatorLike, texts: Sequence[str]) -> Sequence[Translation]:
        return translator.translate(texts, options=self.options, target=self.target, details=self.details)

    def refusal(self, error: UserError) -> Problem:
        return Problem(400, "can_not_translate", str(error))


@dataclass(frozen=True)
class PredictJob:
    """Inputs of any task → predictions as JSON."""

    beam: ClassVar = DecodingOptions().beam  # of a translator

    def run(self, predictor: Predictor, inputs: Sequence[Any]) -> Sequence[dict[str, Any]]:
        return [prediction.to_dict() for prediction in predictor.predict(inputs)]

    def refusal(self, error: UserError) -> Problem:
        return Problem(400, "can_not_predict", str(error))


Job = TranslateJob | PredictJob

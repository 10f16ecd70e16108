"""What is done with the inputs of a batch: translate them with certain options, or predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from regard.decoding.options import DecodingOptions
from regard.translator import Translation, Translator

if TYPE_CHECKING:
    from regard.tasks import Predictor


@dataclass(frozen=True)
class TranslateJob:
    """Texts → translations."""

    options: DecodingOptions = field(default_factory=DecodingOptions)
    target: str | None = None
    details: bool = False
    split: bool = True
    refusal_code: ClassVar = "can_not_translate"

    @property
    def beam(self) -> int:
        return self.options.beam

    def run(self, translator: Translator, texts: Sequence[str]) -> Sequence[Translation]:
        return translator.translate(
            texts, options=self.options, target=self.target, details=self.details, split=self.split
        )


@dataclass(frozen=True)
class PredictJob:
    """Inputs of any task → predictions as JSON."""

    beam: ClassVar = DecodingOptions().beam  # of a translator
    refusal_code: ClassVar = "can_not_predict"

    def run(self, predictor: Predictor, inputs: Sequence[Any]) -> Sequence[dict[str, Any]]:
        return [prediction.to_dict() for prediction in predictor.predict(inputs)]


Job = TranslateJob | PredictJob

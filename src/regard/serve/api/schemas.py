"""Requests and responses of /v1, as OpenAPI describes them."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.serve.inside.examples import Examples, read_examples
from regard.serve.models import ServedModel
from regard.text import normalise
from regard.text.vocabulary import SPACE
from regard.translator import Token, Translation

Count = Annotated[int, Field(ge=0, le=100)]
TextList = Annotated[list[str], Field(fail_fast=True)]  # one error, not one per element


class _Request(BaseModel):
    """Strict: "4" is not accepted for 4, and unknown keys are errors."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class TranslateRequest(_Request):
    text: str | TextList = Field(description="One text or a list of texts.", examples=["It was too tired."])
    source: str | None = Field(default=None, description="Source language; used to select a model.")
    target: str | None = Field(default=None, description="Target language; used to select a model.")
    model: str | None = Field(default=None, description="Model name from /v1/models; the default is the first model.")
    beam: int = Field(default=4, ge=1, le=100, description="Beam size; 1 is greedy.")
    alternatives: Count = Field(default=0, description="Number of alternative translations to return.")
    split: bool = Field(
        default=True,
        description="Sentence by sentence, if the model was trained on single sentences; false: line by line.",
    )
    details: bool = Field(default=False, description="Also return words, tokens, their probabilities, and alignment.")


class PredictRequest(_Request):
    input: list[Any] = Field(  # what is parsed from JSON is JSON: JsonValue would check every value again
        description="Inputs of the model's task: texts, or other JSON values.", examples=[["It was too tired."]]
    )
    model: str | None = Field(default=None, description="Model name from /v1/models; the default is the first model.")


class HeadRequest(_Request):
    attention: Literal["encoder", "decoder", "cross"]
    layer: Annotated[int, Field(ge=0, le=1_000)]
    head: Annotated[int, Field(ge=0, le=1_000)]


class InterventionsRequest(_Request):
    heads_off: Annotated[list[HeadRequest], Field(max_length=4_000, fail_fast=True)] = Field(
        default_factory=list, description="Attention heads to switch off."
    )
    scale: bool = Field(default=True, description="false: attention scores are not divided by √d_k.")
    mask: bool = Field(default=True, description="false: the decoder sees future tokens.")
    positions: Literal["normal", "shuffled", "none"] = Field(default="normal", description="Positional encodings.")


class LookRequest(_Request):
    text: str = Field(
        description="A sentence; for a model of another task, an input as a line of text.",
        examples=["The animal did not cross the street because it was too tired."],
    )
    translation: str | None = Field(
        default=None, description="Translation to inspect; the default is the model's own translation."
    )
    model: str | None = Field(default=None, description="Model name from /v1/models; the default is the first model.")
    source: str | None = Field(default=None, description="Source language; used to select a model.")
    target: str | None = Field(default=None, description="Target language; used to select a model.")
    beam: int = Field(default=4, ge=1, le=100, description="Beam size; 1 is greedy.")
    interventions: InterventionsRequest = Field(
        default_factory=InterventionsRequest, description="Changes to the model for this request."
    )
    dependence: bool = Field(
        default=False, description="Also measure how much each output depends on each source word."
    )
    arrays: Literal["list", "base64"] = Field(
        default="list", description="Encoding of arrays: nested lists, or base64 (smaller)."
    )


class ProjectionRequest(_Request):
    text: str = Field(description="A sentence.", examples=["It was too tired."])
    translation: str = Field(description="Its translation, as in the reply of /v1/look.")
    head: HeadRequest
    model: str | None = Field(default=None, description="Model name from /v1/models; the default is the first model.")
    target: str | None = Field(default=None, description="Target language; used to select a model.")
    arrays: Literal["list", "base64"] = Field(default="list", description="Encoding of arrays, as for /v1/look.")


class TextProbability(BaseModel):
    text: str
    probability: float | None = Field(description="null if tokens cannot be assigned to words.")


class Alternative(BaseModel):
    text: str
    score: float


class TranslationReply(BaseModel):
    """words, source_words, alignment and tokens are present only if the request has details: true."""

    text: str
    score: float = Field(description="Length-normalised log-probability.")
    alternatives: list[Alternative]
    warnings: list[str] = Field(
        description="What is wrong, or may be: numbers, placeholder, unsure, detached, unknown, language, capitals, "
        "length, left-out (with details), loops, copied."
    )
    n_parts: int = Field(description="Number of parts that the text was split into; 0 for blank text.")
    words: list[TextProbability] = []
    source_words: list[str] = []
    alignment: list[tuple[int, int]] = Field(default=[], description="Pairs (source word, target word), from 0.")
    tokens: list[TextProbability] = []


class TranslateReply(BaseModel):
    model: str
    milliseconds: float
    translations: list[TranslationReply]


class PredictReply(BaseModel):
    model: str
    output: list[dict[str, Any]] = Field(description="One object per input; its fields depend on the model's task.")


class ModelReply(BaseModel):
    name: str
    task: str | None = Field(description='"translation", for example; null while the model is still training.')
    architecture: str | None
    size: str | None = Field(default=None, description="The configuration in a few words; null if not known.")
    config: dict[str, Any] | None = Field(default=None, description="The fields depend on the architecture.")
    n_parameters: int | None = None
    engine: str | None = None
    source: str | None
    targets: list[str]
    training: bool = Field(description="Whether the run directory is available, for /v1/training.")
    ready: bool = Field(description="Whether the model can translate; false while it is still training.")
    image: dict[str, Any] | None = Field(
        default=None, description="The height, width and channels of the images that the model reads."
    )
    examples: Examples | None = Field(description="Sentences to look at, from `examples.json` of the run directory.")


class ModelsReply(BaseModel):
    models: list[ModelReply]


class ErrorBody(BaseModel):
    code: str
    message: str
    request_id: str


class ErrorReply(BaseModel):
    error: ErrorBody


class Status(BaseModel):
    status: Literal["ok", "failed", "stopping", "training"]


REQUESTS: tuple[type[BaseModel], ...] = (TranslateRequest, PredictRequest, LookRequest, ProjectionRequest)

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorReply, "description": "The request cannot be fulfilled: languages, beam size or text."},
    401: {"model": ErrorReply, "description": "API key missing or invalid."},
    404: {"model": ErrorReply, "description": "Not found."},
    408: {"model": ErrorReply, "description": "The request was sent too slowly."},
    413: {"model": ErrorReply, "description": "Too many texts, or too long."},
    415: {"model": ErrorReply, "description": "Content-Type is not application/json."},
    422: {"model": ErrorReply, "description": "Invalid JSON, or it does not match the schema."},
    429: {"model": ErrorReply, "description": "The queue is full; see Retry-After."},
    503: {
        "model": ErrorReply,
        "description": "The service is stopping, the engine has failed, or the model is still training.",
    },
    504: {"model": ErrorReply, "description": "The deadline was exceeded."},
}


def translation_record(text: str, translation: Translation, details: bool) -> dict[str, Any]:
    """A TranslationReply as a dictionary: Pydantic would take longer."""
    record = translation.to_dict()
    record["alternatives"] = [{"text": other.text, "score": other.score} for other in translation.alternatives]
    record["n_parts"] = translation.n_parts
    if details:
        record["words"] = _words(translation)
        record["source_words"] = normalise(text).split()
        record["alignment"] = translation.alignment
        record["tokens"] = [{"text": token.piece, "probability": token.probability} for token in translation.tokens]
    return record


def model_record(model: ServedModel, ready: bool) -> dict[str, Any]:
    """A ModelReply as a dictionary."""
    return {
        "name": model.name,
        "task": model.task,
        "architecture": None,  # while it trains
        **model.facts,
        "source": model.source,
        "targets": model.targets,
        "training": model.run is not None,
        "examples": None if (examples := read_examples(model.run)) is None else examples.model_dump(),
        "ready": ready and model.ready,
    }


def _words(translation: Translation) -> list[dict[str, Any]]:
    """Words separated by spaces; the probability of a word is the product over its tokens."""
    words = translation.text.split()
    groups: list[list[Token]] = []
    for token in translation.tokens:
        if token.piece.startswith(SPACE) or not groups:
            groups.append([])
        groups[-1].append(token)
    groups = [group for group in groups if any(token.piece != SPACE for token in group)]
    if len(groups) != len(words):
        return [{"text": word, "probability": None} for word in words]
    return [
        {"text": word, "probability": prod((token.probability for token in group), start=1.0)}
        for word, group in zip(words, groups, strict=True)
    ]

"""What clients send and get: the records behind the OpenAPI description."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0, le=100)]


class _Asked(BaseModel):
    """Strict: "4" is not 4, and an unknown key is a mistake that its writer wants to hear of."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class TranslateRequest(_Asked):
    text: str | list[str] = Field(description="One text, or several.", examples=["It was too tired."])
    source: str | None = Field(default=None, description="Language of the text; picks a model.")
    target: str | None = Field(default=None, description="Language to translate into; picks a model.")
    model: str | None = Field(default=None, description="A name from /v1/models; the default is the first.")
    beam: int = Field(default=4, ge=1, le=100, description="Hypotheses kept a step; 1 is greedy.")
    alternatives: Count = Field(default=0, description="How many of the next best translations to give as well.")
    details: bool = Field(default=False, description="Also words, sub-words and their probabilities, and alignment.")


class HeadRequest(_Asked):
    attention: Literal["encoder", "decoder", "cross"]
    layer: Annotated[int, Field(ge=0, le=1_000)]
    head: Annotated[int, Field(ge=0, le=1_000)]


class InterventionsRequest(_Asked):
    heads_off: Annotated[list[HeadRequest], Field(max_length=10_000)] = Field(default_factory=list)
    scale: bool = Field(default=True, description="false: scores are not divided by √d_k.")
    mask: bool = Field(default=True, description="false: the decoder sees the future.")
    positions: Literal["normal", "shuffled", "none"] = "normal"


class LookRequest(_Asked):
    text: str = Field(examples=["The animal did not cross the street because it was too tired."])
    translation: str | None = Field(default=None, description="Look at this translation, not at the model's own.")
    model: str | None = None
    source: str | None = None
    target: str | None = None
    beam: int = Field(default=4, ge=1, le=100)
    interventions: InterventionsRequest = Field(default_factory=InterventionsRequest)
    arrays: Literal["list", "base64"] = Field(default="list", description="How numbers are written.")


class Probable(BaseModel):
    text: str
    probability: float | None = Field(description="null where sub-words and words do not fit together.")


class Alternative(BaseModel):
    text: str
    score: float


class TranslationReply(BaseModel):
    """words, source_words, tokens and alignment are there when details were asked for."""

    text: str
    score: float = Field(description="Length-normalised log-probability.")
    alternatives: list[Alternative]
    warnings: list[str] = Field(description="Signs of a hallucination: loops, copies, short, long.")
    n_parts: int = Field(description="Into how many parts the text was split; 0 for a blank one.")
    words: list[Probable] = []
    source_words: list[str] = []
    alignment: list[tuple[int, int]] = Field(default=[], description="(source word, word), counted from 0.")
    tokens: list[Probable] = []


class TranslateReply(BaseModel):
    model: str
    milliseconds: float
    translations: list[TranslationReply]


class ModelReply(BaseModel):
    name: str
    source: str | None
    targets: list[str]
    engine: str | None = None
    n_parameters: int | None = None
    d_model: int | None = None
    n_encoder_layers: int | None = None
    n_decoder_layers: int | None = None
    n_heads: int | None = None
    training: bool = Field(description="Whether the run directory is there.")
    ready: bool


class ModelsReply(BaseModel):
    models: list[ModelReply]


class ErrorBody(BaseModel):
    code: str
    message: str
    request_id: str


class ErrorReply(BaseModel):
    error: ErrorBody


class Status(BaseModel):
    status: Literal["ok", "failed", "stopping"]


ASKED: tuple[type[BaseModel], ...] = (TranslateRequest, LookRequest)

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorReply, "description": "It makes no sense as it was asked."},
    401: {"model": ErrorReply, "description": "The service wants an API key."},
    404: {"model": ErrorReply, "description": "There is no such thing here."},
    408: {"model": ErrorReply, "description": "The request came too slowly."},
    413: {"model": ErrorReply, "description": "More, or longer, than the service takes."},
    415: {"model": ErrorReply, "description": "Not application/json."},
    422: {"model": ErrorReply, "description": "Not JSON, or not what is described here."},
    429: {"model": ErrorReply, "description": "Too much is waiting; see Retry-After."},
    503: {"model": ErrorReply, "description": "Stopping, the engine has failed, or the model still trains."},
    504: {"model": ErrorReply, "description": "Not done before the deadline."},
}

"""How much a look is, before it is looked: the numbers that it would write, and the work of a search without a mask."""

from __future__ import annotations

from typing import Any

from regard.serve.api.schemas import LookRequest
from regard.serve.http.problem import Problem
from regard.serve.models import ServedModel
from regard.serve.settings import Settings

_UNMASKED_ROWS = 256  # pieces × beam: without the mask all of a translation is computed anew for each of its pieces


def check_look(model: ServedModel, asked: LookRequest, settings: Settings) -> None:
    """A Problem when it is too much. A translation that is still to be made is taken to be as long as the text."""
    if model.described is None:
        return
    n_source = 1 + model.count_tokens(asked.text)
    n_target = n_source if asked.translation is None else 1 + model.count_tokens(asked.translation)
    check_numbers(model.described.model, n_source, n_target, asked, settings)
    if not asked.interventions.mask and asked.translation is None and n_source * asked.beam > _UNMASKED_ROWS:
        most = _UNMASKED_ROWS // asked.beam - 1
        raise Problem(413, "too_long", f"without the mask, with beam {asked.beam}: a text of {most} pieces at most")


def check_numbers(config: dict[str, Any], n_source: int, n_target: int, asked: LookRequest, settings: Settings) -> None:
    """A Problem when there is more to write than one answer may have."""
    n_numbers = count_numbers(config, n_source, n_target)
    as_lists = asked.arrays == "list"
    most = settings.max_numbers // 4 if as_lists else settings.max_numbers
    if n_numbers > most:
        more = f", or {settings.max_numbers:,} with arrays: base64" if as_lists else ""
        raise Problem(413, "too_long", f"a look of {n_numbers:,} numbers; {most:,} at most{more}: give a shorter text")


def count_numbers(config: dict[str, Any], n_source: int, n_target: int) -> int:
    """In the JSON of a look: embeddings, then each layer."""
    d_model, d_ff, n_heads = (_size(config, name) for name in ("d_model", "d_ff", "n_heads"))

    def added(rows: int) -> int:  # with lengths
        return rows * (2 * d_model + 3)

    def attention(rows: int, columns: int) -> int:
        ends = 2 * (rows + columns) * d_model  # q, k, v and what the heads give
        return ends + (3 * n_heads + 1) * rows * columns + added(rows)

    def feed_forward(rows: int) -> int:
        return rows * d_ff + added(rows)

    encoder = attention(n_source, n_source) + feed_forward(n_source)
    decoder = attention(n_target, n_target) + attention(n_target, n_source) + feed_forward(n_target)
    embeddings = 3 * (n_source + n_target) * d_model
    return embeddings + _size(config, "n_encoder_layers") * encoder + _size(config, "n_decoder_layers") * decoder


def _size(config: dict[str, Any], name: str) -> int:
    value = config.get(name)
    return value if isinstance(value, int) else 0

"""A translator whose every word is known beforehand: upper case, and the words in reverse."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

from starlette.testclient import TestClient

from regard.artifact import Description
from regard.decoding.options import DecodingOptions
from regard.serve import Keys, ServedModel, Service, Settings, create_app
from regard.translator import Translation

from ..text.street_profiles import profiles


def mirrored(text: str) -> str:
    return " ".join(reversed(text.upper().split()))


class Mirror:
    """As much of a Translator as the service needs."""

    def __init__(self, front: str = "") -> None:
        self.front = front
        self.seen: list[str] = []

    def translate(
        self, lines: Sequence[str], *, options: DecodingOptions, target: str | None, details: bool
    ) -> list[Translation]:
        self.seen += lines
        return [self._one(line, options.n_best, details) for line in lines]

    def _one(self, line: str, n_best: int, details: bool) -> Translation:
        n_words = len(line.split())
        alignment = tuple((n_words - 1 - place, place) for place in range(n_words)) if details else ()
        others = tuple(Translation(f"{mirrored(line)} {number}") for number in range(2, n_best + 1))
        return Translation(self.front + mirrored(line), alignment=alignment, alternatives=others)


def served(name: str, source: str | None, *targets: str, translator: Mirror | None = None) -> ServedModel:
    """A model of these languages; English and German come with their profiles."""
    source_side = SimpleNamespace(encode=lambda text: text.split(), tags=())
    facts = {"profiles": {code: profile for code, profile in profiles().items() if code in (source, *targets)}}
    described = cast(Description, SimpleNamespace(facts=facts, tokenizers=SimpleNamespace(source=source_side)))
    return ServedModel(name, [translator or Mirror()], source=source, targets=targets, description=described)


@contextmanager
def client(*models: ServedModel, keys: Sequence[str] = (), **limits: Any) -> Iterator[TestClient]:
    """A client of a whole application over these models; English to German when none is given."""
    service = Service(models or (served("en-de", "en", "de"),), Settings(**limits), Keys(keys) if keys else None)
    with TestClient(create_app(service), base_url="http://localhost") as connected:
        yield connected

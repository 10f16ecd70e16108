"""A fake translator with predictable alignment, and a client of a service over it."""

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


def reverse_words(text: str) -> str:
    return " ".join(reversed(text.upper().split()))


class ReversingTranslator:
    """Translates into upper case with the words in reverse order."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.texts: list[str] = []

    def translate(
        self, lines: Sequence[str], *, options: DecodingOptions, target: str | None, details: bool, **_: Any
    ) -> list[Translation]:
        self.texts += lines
        return [self._translation(line, options.n_best, details) for line in lines]

    def _translation(self, line: str, n_best: int, details: bool) -> Translation:
        n_words = len(line.split())
        alignment = tuple((n_words - 1 - index, index) for index in range(n_words)) if details else ()
        alternatives = tuple(Translation(f"{reverse_words(line)} {number}") for number in range(2, n_best + 1))
        return Translation(self.prefix + reverse_words(line), alignment=alignment, alternatives=alternatives)


def served(name: str, source: str | None, *targets: str, translator: ReversingTranslator | None = None) -> ServedModel:
    """A model for these languages; English and German have language profiles."""
    source_tokenizer = SimpleNamespace(encode=lambda text: text.split(), tags=())
    facts = {"profiles": {code: profile for code, profile in profiles().items() if code in (source, *targets)}}
    tokenizers = SimpleNamespace(source=source_tokenizer)
    description = cast(Description, SimpleNamespace(facts=facts, tokenizers=tokenizers, has_tokenizers=True))
    translators = [translator or ReversingTranslator()]
    return ServedModel(name, translators, source=source, targets=targets, description=description)


@contextmanager
def create_client(*models: ServedModel, keys: Sequence[str] = (), **settings: Any) -> Iterator[TestClient]:
    """A client of an application over these models; the default is one model from English to German."""
    service = Service(models or (served("en-de", "en", "de"),), Settings(**settings), Keys(keys) if keys else None)
    with TestClient(create_app(service), base_url="http://localhost") as client:
        yield client

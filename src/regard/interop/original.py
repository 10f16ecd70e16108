"""A model of ours that is exported, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from regard.artifact import Description, LoadedModel
from regard.engines.ctranslate2.convert import Quantization
from regard.errors import ArtifactError
from regard.interop.probe import Probe
from regard.models import Transformer, TransformerConfig
from regard.text.languages import Languages, language_name

OnProgress = Callable[[str, int, int | None], None]  # what is being done, how much of it, of how much

_MAX_CARD_BYTES = 1_000_000
_ABOUT_FILES = "`config.json` has the architecture"  # of a card: from here on it is about files that are not exported


@dataclass(frozen=True)
class Original:
    """A translator."""

    described: Description
    loaded: LoadedModel
    probe: Probe  # lines to compare both models on
    report: OnProgress

    @property
    def model(self) -> Transformer:
        assert isinstance(self.loaded.model, Transformer)
        return self.loaded.model

    @property
    def config(self) -> TransformerConfig:
        return self.model.config

    @cached_property
    def languages(self) -> Languages:
        return Languages.from_facts(self.loaded.facts)

    @property
    def title(self) -> str:
        """Such as "A translator from English into German"."""
        source, targets = self.languages.source, [language_name(code) for code in self.languages.targets]
        parts = [f"from {language_name(source)}" if source else "", f"into {', '.join(targets)}" if targets else ""]
        return " ".join(["A translator", *filter(None, parts)])

    def refused(self, reason: str, hint: str | None = None) -> ArtifactError:
        return ArtifactError(f"{self.described.directory} cannot be exported: {reason}", hint=hint)


@dataclass(frozen=True)
class Target:
    """Where the files go, and how numbers are stored in them."""

    directory: Path
    quantization: Quantization | None


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What the user and the card are told."""

    usage: str  # Markdown: how to run it
    verified: tuple[str, ...] = ()  # a sentence each
    not_verified: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what is different there
    front_matter: str = ""  # of the card, where the format has one


def read_card(described: Description) -> str:
    """What the card says about the model, one level below that of the export; it may name a licence and the data."""
    if "README.md" not in described.files:
        return "It has no card.\n"
    text = described.read_asset("README.md", _MAX_CARD_BYTES).decode(errors="replace")
    lines = text.partition(_ABOUT_FILES)[0].rstrip().splitlines()
    return "".join(f"#{line}\n" if line.startswith("#") else f"{line}\n" for line in lines)

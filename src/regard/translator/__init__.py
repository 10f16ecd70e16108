"""Text → text, over an engine."""

from regard.translator.translator import Translation, Translator
from regard.translator.words import Token

__all__ = ["Token", "Translation", "Translator"]

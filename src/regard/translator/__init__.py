"""Text → text, over an engine."""

from regard.translator.details import Token
from regard.translator.translator import Translation, Translator

__all__ = ["Token", "Translation", "Translator"]

"""Normalises text, before it is tokenized and after it is decoded.

Only what cannot be intended is changed. Joiners, bidi marks, variation selectors and emoji are kept.
"""

import re
import unicodedata

# Control characters, all white space, line and paragraph separators, byte order marks inside the text, and the code
# points that Unicode reserves for internal use by programs (the tokenizer uses one of them).
_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    chr(plane * 0x10000 + last) for plane in range(17) for last in (0xFFFE, 0xFFFF)
)
SPACES = f"\\s\x00-\x1f\x7f-\x9f\ufeff{_NONCHARACTERS}"
_REPLACED_BY_SPACE = re.compile(f"[{SPACES}]+")
WORD = re.compile(f"[^{SPACES}]+")  # as separated by `normalise`, in a text before normalisation
_PLAIN = re.compile(r"[!-~]+(?: [!-~]+)*")
_SURROGATE = re.compile("[\ud800-\udfff]")


def normalise(line: str) -> str:
    """Composed characters (NFC), single spaces, no control characters. Idempotent."""
    if _PLAIN.fullmatch(line):  # a shortcut for most English lines
        return line
    composed = unicodedata.normalize("NFC", without_surrogates(line))
    return _REPLACED_BY_SPACE.sub(" ", composed).strip(" ")


def without_surrogates(line: str) -> str:
    """What UTF-8 can encode; half of a surrogate pair becomes U+FFFD."""
    return _SURROGATE.sub("\ufffd", line)

"""One spelling for every text: what the tokenizer sees, and what a translation looks like.

Only what can not be meant is changed. Joiners, bidi marks, variation selectors and emoji stay as they are.
"""

import re
import unicodedata

# Control characters, every kind of white space, line and paragraph separators, a byte order mark inside the text,
# and the code points that Unicode keeps free for a program's own use (the tokenizer needs one of them).
_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    chr(plane * 0x10000 + last) for plane in range(17) for last in (0xFFFE, 0xFFFF)
)
_SPACE_LIKE = re.compile(f"[\\s\x00-\x1f\x7f-\x9f\ufeff{_NONCHARACTERS}]+")
_PLAIN = re.compile(r"[!-~]+(?: [!-~]+)*")
_SURROGATE = re.compile("[\ud800-\udfff]")


def normalise(line: str) -> str:
    """Composed characters (NFC), single spaces, no controls; doing it twice changes nothing."""
    if _PLAIN.fullmatch(line):  # most English lines: nothing to do
        return line
    composed = unicodedata.normalize("NFC", _SURROGATE.sub("\ufffd", line))
    return _SPACE_LIKE.sub(" ", composed).strip(" ")

"""The wire format of protocol buffers, of which a SentencePiece model file consists."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def read_fields(message: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """The number, wire type and value of each field, one at a time. Raises ValueError if the message is damaged."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, position = _varint(message, position)
            yield number, kind, value
            continue
        if kind not in (FIXED64, BYTES, FIXED32):
            raise ValueError("a field has an unknown type")
        size, position = _varint(message, position) if kind == BYTES else (8 if kind == FIXED64 else 4, position)
        if size > len(message) - position:
            raise ValueError("a field is truncated")
        yield number, kind, message[position : position + size]
        position += size


def write_field(number: int, kind: int, value: int | bytes) -> bytes:
    """One field."""
    if isinstance(value, int):
        return _encoded(number << 3 | kind) + _encoded(value)
    size = _encoded(len(value)) if kind == BYTES else b""
    return _encoded(number << 3 | kind) + size + value


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if position == len(message):
            raise ValueError("a number is truncated")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a number is too long")


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))

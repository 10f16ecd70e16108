"""API keys: a file with one a line, kept and compared as hashes."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from pathlib import Path

from regard.errors import UserError
from regard.serve.http.problem import Problem

SHORTEST = 16  # characters; what is shorter can be guessed
_HASHED = "sha256:"
_HEXADECIMAL = re.compile("[0-9a-fA-F]{64}")


class Keys:
    """The keys of a service. Whether one is right takes as long as whether it is wrong."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    def allow(self, key: str) -> bool:
        given = _sha256(key)
        known = [hmac.compare_digest(given, digest) for digest in self._digests]  # all of them, whichever fits
        return any(known)

    def require(self, key: str | None) -> None:
        """A Problem (401) unless the key is one of ours."""
        if not key or not self.allow(key):
            raise Problem(401, "key", "a valid API key is needed: Authorization: Bearer KEY")


def read_keys(path: Path) -> Keys:
    """From a file: one key a line, or `sha256:` and its hash in hexadecimal; # begins a comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the keys can not be read from {path}: {error}", hint="one key a line, as text") from error
    keys = []
    for number, line in enumerate(lines, start=1):
        key = line.split("#", 1)[0].strip()
        if not key:
            continue
        if len(key) < SHORTEST:
            raise UserError(f"{path}:{number}: a key needs {SHORTEST} characters", hint="openssl rand -hex 24")
        if key.startswith(_HASHED) and not _HEXADECIMAL.fullmatch(key.removeprefix(_HASHED)):
            raise UserError(f"{path}:{number}: behind {_HASHED} come 64 hexadecimal digits", hint="sha256sum")
        keys.append(key)
    if not keys:
        raise UserError(f"there is no key in {path}", hint="write one a line, or leave out --keys")
    return Keys(keys)


def _digest(key: str) -> bytes:
    return bytes.fromhex(key.removeprefix(_HASHED)) if key.startswith(_HASHED) else _sha256(key)


def _sha256(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()

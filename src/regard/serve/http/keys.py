"""API keys: read from a file with one key per line, stored and compared as hashes."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from pathlib import Path

from regard.errors import UserError
from regard.serve.http.problem import Problem

MIN_KEY_LENGTH = 16  # characters; shorter keys can be guessed
_HASH_PREFIX = "sha256:"
_HEX_DIGEST = re.compile("[0-9a-fA-F]{64}")


class Keys:
    """The API keys of a service, compared in constant time."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    def allow(self, key: str) -> bool:
        given = _sha256(key)
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]  # always all of them: constant time
        return any(matches)

    def require(self, key: str | None) -> None:
        """Raises a Problem (401) unless `key` is valid."""
        if not key or not self.allow(key):
            raise Problem(401, "key", "a valid API key is required: Authorization: Bearer KEY")


def read_keys(path: Path) -> Keys:
    """Reads one key per line, in plain text or as `sha256:` and its hash in hexadecimal; # starts a comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"cannot read API keys from {path}: {error}", hint="use a text file, one key per line"
        ) from error
    keys = []
    for number, line in enumerate(lines, start=1):
        key = line.split("#", 1)[0].strip()
        if not key:
            continue
        if len(key) < MIN_KEY_LENGTH:
            message = f"{path}:{number}: a key needs at least {MIN_KEY_LENGTH} characters"
            raise UserError(message, hint="openssl rand -hex 24")
        if key.startswith(_HASH_PREFIX) and not _HEX_DIGEST.fullmatch(key.removeprefix(_HASH_PREFIX)):
            raise UserError(f"{path}:{number}: expected 64 hexadecimal digits after {_HASH_PREFIX}", hint="sha256sum")
        keys.append(key)
    if not keys:
        raise UserError(f"{path} contains no keys", hint="write one key per line, or drop --keys")
    return Keys(keys)


def _digest(key: str) -> bytes:
    return bytes.fromhex(key.removeprefix(_HASH_PREFIX)) if key.startswith(_HASH_PREFIX) else _sha256(key)


def _sha256(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()

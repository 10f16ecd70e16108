"""Reads directories that may be damaged or come from an untrusted source, without hanging or reading outside of them.

`manifest.json` lists each file with its size and SHA-256. Directories are nested one level deep at most, such as
`ctranslate2/model.bin`.
"""

import hashlib
import json
import os
import re
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

from regard.durable.temporary import READ_UNTRUSTED, error_text, recover
from regard.errors import ArtifactError

MANIFEST_NAME = "manifest.json"
MANIFEST_FORMAT = 1
MANIFEST_MAX_BYTES = 1_000_000

_SHA256 = re.compile(r"[0-9a-f]{64}")


class FileRecord(NamedTuple):
    """Size and SHA-256 of a file, from the manifest."""

    size: int
    sha256: str


def verify_directory(path: Path) -> dict[str, FileRecord]:
    """The files of a directory by relative name.

    They are checked to be exactly those of the manifest, with equal size and SHA-256, and all regular files.
    """
    try:
        recover(path)
        if not path.is_dir():
            raise ArtifactError(f"{path} is not a directory" if path.exists() else f"{path} is missing")
        records = _read_manifest(path / MANIFEST_NAME)
        present = set(list_files(path)) - {MANIFEST_NAME}
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error_text(error)}") from error
    for name in sorted(records.keys() - present):
        raise ArtifactError(f"{path / name} is missing")
    for name in sorted(present - records.keys()):
        raise ArtifactError(f"{str(path / name)!r} is not in the manifest: it was added later")
    for name, record in records.items():
        _verify_file(path / name, record)
    return records


def read_regular_file(path: Path, max_bytes: int) -> bytes:
    """The bytes of a regular file. Links, FIFOs, devices and files larger than `max_bytes` raise an ArtifactError."""
    with open_regular_file(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ArtifactError(f"{path} is larger than {max_bytes:,} bytes")
    return data


def read_json_file(path: Path, max_bytes: int) -> dict[str, Any]:
    """The JSON object in a regular file; an ArtifactError for anything else."""
    try:
        value = json.loads(read_regular_file(path, max_bytes))
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ArtifactError(f"{path} is not a JSON object")
    return value


def open_regular_file(path: Path) -> BufferedReader:
    """Open a regular file for reading. Links, FIFOs and devices raise an ArtifactError, without blocking."""
    try:
        _require_regular(path, path.lstat())  # before opening: opening a device may have side effects
        descriptor = os.open(path, READ_UNTRUSTED)
    except FileNotFoundError:
        raise ArtifactError(f"{path} is missing") from None
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error_text(error)}") from error
    file = os.fdopen(descriptor, "rb")
    try:
        _require_regular(path, os.fstat(descriptor))
    except ArtifactError:
        file.close()
        raise
    return file


def list_files(directory: Path) -> list[str]:
    """The relative names of all files, sorted. Anything but regular files raises an ArtifactError."""
    names = []
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            inner = list(entry.iterdir())
            if not inner:
                raise ArtifactError(f"{str(entry)!r} is an empty directory: it was added later")
        else:
            inner = [entry]
        for file in inner:
            _require_regular(file, file.lstat())
            names.append(file.relative_to(directory).as_posix())
    return sorted(names)


def _verify_file(path: Path, record: FileRecord) -> None:
    with open_regular_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size != record.size:
            raise ArtifactError(f"{path} has {size:,} bytes, not {record.size:,} as in the manifest")
        if hashlib.file_digest(file, "sha256").hexdigest() != record.sha256:
            raise ArtifactError(f"{path} is damaged: its SHA-256 differs from the manifest")


def _read_manifest(path: Path) -> dict[str, FileRecord]:
    content = read_json_file(path, MANIFEST_MAX_BYTES)
    if content.get("format") != MANIFEST_FORMAT:
        raise ArtifactError(
            f"{path} has format {str(content.get('format'))[:20]!r}, this version reads {MANIFEST_FORMAT}",
            hint="use the version of regard that wrote it, or a newer one",
        )
    files = content.get("files")
    if not isinstance(files, dict):
        raise ArtifactError(f"{path} lists no files")
    return {name: _parse_record(path, name, record) for name, record in files.items()}


def _parse_record(path: Path, name: str, record: object) -> FileRecord:
    parts = name.split("/")
    plain = len(parts) <= 2 and not {"", ".", ".."} & set(parts) and name.isprintable() and "\\" not in name
    if not plain or name == MANIFEST_NAME:
        raise ArtifactError(f"{path} lists {name[:80]!r}, which is not a valid file name")
    match record:
        case {"size": int(size), "sha256": str(sha256)} if _SHA256.fullmatch(sha256):
            return FileRecord(size, sha256)
    raise ArtifactError(f"{path} lacks the size or SHA-256 of {name[:80]!r}")


def _require_regular(path: Path, info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        kind = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO"}
        raise ArtifactError(f"{str(path)!r} is {kind.get(stat.S_IFMT(info.st_mode), 'a device')}, not a regular file")

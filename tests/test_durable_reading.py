"""Damaged or malicious directories raise an ArtifactError, without hanging."""

import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from regard.durable import commit_directory, read_regular_file, verify_directory
from regard.errors import ArtifactError


@pytest.fixture
def good(tmp_path: Path) -> Path:
    def write(directory: Path) -> None:
        (directory / "a.txt").write_text("old")
        (directory / "inner").mkdir()
        (directory / "inner" / "b.bin").write_bytes(b"old" * 10)

    commit_directory(tmp_path / "model", write)
    return tmp_path / "model"


@pytest.mark.parametrize("name", ["a.txt", "inner/b.bin"])
def test_every_flipped_bit_is_detected(good: Path, name: str) -> None:
    data = (good / name).read_bytes()
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        (good / name).write_bytes(flipped)
        with pytest.raises(ArtifactError, match=re.escape(name)):
            verify_directory(good)


def test_a_flipped_bit_in_the_manifest_is_detected_or_has_no_effect(good: Path) -> None:
    manifest, data = good / "manifest.json", (good / "manifest.json").read_bytes()
    before = verify_directory(good)
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        manifest.write_bytes(flipped)
        with suppress(ArtifactError):
            assert verify_directory(good) == before


def test_every_truncated_file_is_detected(good: Path) -> None:
    for name in ("a.txt", "inner/b.bin", "manifest.json"):
        data = (good / name).read_bytes()
        for size in range(len(data) - 1):  # the last byte of the manifest is an optional line end
            (good / name).write_bytes(data[:size])
            with pytest.raises(ArtifactError, match=re.escape(name)):
                verify_directory(good)
        (good / name).write_bytes(data)


@pytest.mark.parametrize("name", ["a.txt", "inner/b.bin", "manifest.json"])
def test_a_missing_file_raises_an_error_with_its_name(good: Path, name: str) -> None:
    (good / name).unlink()
    with pytest.raises(ArtifactError, match=re.escape(name.split("/")[0])):
        verify_directory(good)


@pytest.mark.parametrize("name", ["c.txt", ".hidden", "inner/c.txt", "new/c.txt"])
def test_an_added_file_raises_an_error_with_its_name(good: Path, name: str) -> None:
    (good / name).parent.mkdir(exist_ok=True)
    (good / name).write_text("")
    with pytest.raises(ArtifactError, match=re.escape(name)):
        verify_directory(good)


def make_link(path: Path) -> None:
    path.symlink_to(path.parent / "elsewhere")
    (path.parent.parent / "elsewhere").write_text("old")


def make_device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a device file")
    try:
        os.mknod(path, 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this container allows no device files")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("make", [make_link, os.mkfifo, make_device, Path.mkdir])
@pytest.mark.parametrize("name", ["a.txt", "inner/b.bin", "manifest.json", "extra", "inner/extra"])
def test_links_fifos_and_devices_are_refused_without_blocking(
    good: Path, name: str, make: Callable[[Path], None]
) -> None:
    (good / name).unlink(missing_ok=True)
    make(good / name)
    with pytest.raises(ArtifactError, match=re.escape(name)):
        verify_directory(good)
    with pytest.raises(ArtifactError, match=re.escape(name)):
        read_regular_file(good / name, 100)


@pytest.mark.parametrize(
    "name",
    ["../outside", "/etc/hostname", "..", ".", "", "a//b", "a/../../b", "a\\b", "a/b/c", "a\x00", "\ud800", "a\nb"],
)
def test_names_outside_the_directory_are_refused(good: Path, name: str) -> None:
    (good.parent / "outside").write_text("")
    record = {"size": 0, "sha256": "0" * 64}
    (good / "manifest.json").write_text(json.dumps({"format": 1, "files": {name: record}}))
    with pytest.raises(ArtifactError, match="not a valid file name"):
        verify_directory(good)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": 2, "files": {}}',
        b'{"format": 1, "files": []}',
        b'{"format": 1, "files": {"a.txt": null}}',
        b'{"format": 1, "files": {"a.txt": {"size": "3", "sha256": "0"}}}',
        b'{"format": 1, "files": {"a.txt": {"size": ' + b"9" * 5000 + b', "sha256": ""}}}',
        b" " * 1_000_001,
    ],
)
def test_an_invalid_manifest_raises_artifact_error(good: Path, content: bytes) -> None:
    (good / "manifest.json").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        verify_directory(good)


def test_files_larger_than_the_limit_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_regular_file(tmp_path / "a", 5) == b"12345"
    with pytest.raises(ArtifactError, match="larger than 4 bytes"):
        read_regular_file(tmp_path / "a", 4)
    with pytest.raises(ArtifactError, match="missing"):
        read_regular_file(tmp_path / "b", 4)
    with pytest.raises(ArtifactError, match="missing"):
        verify_directory(tmp_path / "b")
    with pytest.raises(ArtifactError, match="not a directory"):
        verify_directory(tmp_path / "a")

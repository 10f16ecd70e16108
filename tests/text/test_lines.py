"""Reading lines: only LF ends a line, and every error names its file and line."""

import gzip
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import DataError
from regard.text.lines import ReadNotes, read_lines, read_lines_or_none

SEPARATORS = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\x1f"


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\x00"), max_size=20), max_size=20))
def test_lines_with_any_code_points_are_read_unchanged(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    lines = [line.removesuffix("\r").removeprefix("\ufeff") for line in lines]
    lines = [line for line in lines if not line.endswith("\r") and not line.startswith("\ufeff")]
    path = write(tmp_path_factory.mktemp("any") / "t", "".join(line + "\n" for line in lines).encode())
    assert list(read_lines(path)) == lines


@pytest.mark.parametrize("character", [*SEPARATORS, "\r"])
def test_only_lf_ends_a_line(tmp_path: Path, character: str) -> None:
    path = write(tmp_path / "t", f"a{character}b\nc\n".encode())
    assert list(read_lines(path)) == [f"a{character}b", "c"]


@pytest.mark.parametrize(("data", "lines"), [(b"", []), (b"\n", [""]), (b"a", ["a"]), (b"a\n\n", ["a", ""])])
def test_the_last_lf_is_optional(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    assert list(read_lines(write(tmp_path / "t", data))) == lines


def test_bom_and_crlf_are_removed_and_noted(tmp_path: Path) -> None:
    notes = ReadNotes()
    path = write(tmp_path / "t", b"\xef\xbb\xbfa\r\nb\r\nc\n")
    assert list(read_lines(path, notes=notes)) == ["a", "b", "c"]
    assert (notes.has_bom, notes.n_crlf, notes.n_lines) == (True, 2, 3)
    assert len(notes.messages(path)) == 2


def compress_zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize("compress", [gzip.compress, compress_zstd])
def test_compressed_files_are_recognised_by_content_and_may_have_several_members(
    tmp_path: Path, compress: object
) -> None:
    assert callable(compress)
    path = write(tmp_path / "no-suffix", compress(b"a\nb") + compress(b"c\nd\n") + compress("ü\n".encode() * 50_000))
    assert list(read_lines(path))[:4] == ["a", "bc", "d", "ü"]
    assert len(list(read_lines(path))) == 50_003


@pytest.mark.parametrize("compress", [gzip.compress, compress_zstd])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
def test_a_truncated_compressed_file_raises_an_error(tmp_path: Path, compress: object, share: float) -> None:
    assert callable(compress)
    data = compress(bytes(i * i % 251 + 1 for i in range(40_000)).replace(b"\n", b" "))
    with pytest.raises(DataError, match="truncated: cannot be decompressed"):
        list(read_lines(write(tmp_path / "truncated", data[: int(len(data) * share)]), on_bad="replace"))


def test_invalid_text_raises_an_error_with_file_line_and_column(tmp_path: Path) -> None:
    path = write(tmp_path / "t", "fine\nüber\xff\n".encode("latin1"))
    with pytest.raises(DataError, match=r"t:2: not valid UTF-8 \(byte 0xfc at column 1\)"):
        list(read_lines(path))
    with pytest.raises(DataError, match=r"t:1: NUL character at column 2"):
        list(read_lines(write(path, b"a\x00b\n")))


def test_invalid_lines_can_be_none_skipped_or_replaced(tmp_path: Path) -> None:
    path, notes = write(tmp_path / "t", b"a\nb\xff\nc\x00\nd"), ReadNotes()
    assert list(read_lines_or_none(path, notes=notes)) == ["a", None, None, "d"]
    assert (notes.n_bad, notes.bad_lines) == (2, [2, 3])
    assert list(read_lines(path, on_bad="replace")) == ["a", "b\ufffd", "c\ufffd", "d"]


def test_unreadable_files_raise_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        list(read_lines(tmp_path / "none"))
    with pytest.raises(DataError, match="directory"):
        list(read_lines(tmp_path))
    with pytest.raises(DataError, match="UTF-16"):
        list(read_lines(write(tmp_path / "t", "hello\n".encode("utf-16"))))


def test_a_line_may_have_a_megabyte(tmp_path: Path) -> None:
    path = write(tmp_path / "t", b"x" * 1_000_000 + b"\ny\n")
    assert [len(line) for line in read_lines(path)] == [1_000_000, 1]

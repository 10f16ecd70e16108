"""Files of running text as one text, and which of its lines are for validation."""

from itertools import pairwise
from pathlib import Path

import pytest

from regard.errors import DataError
from regard.text.running_text import RunningText, TextCounts, default_held_out, held_out_blocks, split_lines


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_files_follow_one_another_and_blank_lines_stay(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", b"one  two\n\n three\r\n"), write(tmp_path / "b", b"four")
    assert list(RunningText((first, second)).lines()) == ["one two", "", "three", "four"]


def test_a_bad_line_is_an_error_with_its_number_or_left_out(tmp_path: Path) -> None:
    file = write(tmp_path / "a", b"one\n\xff\ntwo\n")
    with pytest.raises(DataError, match="line 2: not valid UTF-8") as error:
        list(RunningText((file,)).lines())
    assert "data.on_bad=skip" in str(error.value.hint)
    assert list(RunningText((file,), on_bad="skip").lines()) == ["one", "two"]


def test_counts_are_those_of_the_published_perplexities() -> None:
    """Every line, also a blank one, has one more token: its end."""
    counts = TextCounts.of(iter(["= Title =", "", "a <unk> b"]))
    assert (counts.n_lines, counts.n_words, counts.n_characters) == (3, 6, 18)


@pytest.mark.parametrize(("n_lines", "share"), [(2, 0.05), (3, 0.5), (50, 0.1), (1_000, 0.05), (12_345, 0.3)])
def test_held_out_lines_are_blocks_of_about_the_share(n_lines: int, share: float) -> None:
    is_held_out = held_out_blocks(n_lines, share)
    held_out = [is_held_out(number) for number in range(n_lines)]
    assert 0 < sum(held_out) < n_lines
    if n_lines >= 1_000:
        assert sum(held_out) / n_lines == pytest.approx(share, abs=0.01)
        n_changes = sum(a != b for a, b in pairwise(held_out))
        assert n_changes <= 2 * share * 100


def test_nothing_is_held_out_without_a_share() -> None:
    assert not any(map(held_out_blocks(100, 0.0), range(100)))


def test_the_parts_have_every_line_once() -> None:
    lines = [str(number) for number in range(500)]
    is_held_out = held_out_blocks(500, 0.1)
    parts = [list(split_lines(iter(lines), is_held_out, held_out)) for held_out in (False, True)]
    assert sorted(parts[0] + parts[1], key=int) == lines


def test_a_large_text_holds_out_a_smaller_share() -> None:
    assert default_held_out(TextCounts(n_characters=1_000)) == 0.05
    assert default_held_out(TextCounts(n_characters=100_000_000)) == 0.01

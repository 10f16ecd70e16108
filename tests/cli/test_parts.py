"""A file that is translated in parts has the lines of one that is translated at once. No model is needed."""

import gzip
from pathlib import Path

import pytest

from regard.cli.parts import parse_part
from regard.cli.translate.parts import join_parts, part_lines, part_path
from regard.cli.translate.stream import FilePair, LineStream
from regard.errors import RecipeError, RunError, UserError

LINES = ["one", "", "two\u2028three", "four", "five", "six", "seven"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in").write_text("\n".join(LINES))  # the last line has no line feed
    return tmp_path / "in"


def translate(source: Path, out: Path, part: tuple[int, int], identity: str = "x", upto: int | None = None) -> None:
    """Upper case; if `upto` is given, killed after so many batches."""
    pair = FilePair(source, part_path(out, part))
    lines = part_lines(source, part)
    stream = LineStream(pair, resume=True, identity=identity, max_characters=1, keep_state=True, lines=lines)
    if stream.sink.finished:
        return
    with stream.sink as sink:
        for number, batch in enumerate(batch for batch in stream.batches() if batch):
            if number == upto:
                return
            sink.write("".join(f"{line.upper()}\n" for line in batch).encode(), len(batch))
        sink.finish()


@pytest.mark.parametrize("name", ["out", "out.gz", "out.zst"])
@pytest.mark.parametrize("n", [1, 3, 9])
def test_joined_parts_are_the_whole(source: Path, tmp_path: Path, name: str, n: int) -> None:
    out = tmp_path / name
    assert [i for part in range(1, n + 1) for i in part_lines(source, (part, n))] == list(range(7))
    for part in reversed(range(1, n + 1)):
        translate(source, out, (part, n), upto=1)
        translate(source, out, (part, n))
    assert join_parts(source, out) == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", name]
    if name == "out":
        assert out.read_text().split("\n") == [*(line.upper() for line in LINES), ""]
    if name == "out.gz":
        assert gzip.decompress(out.read_bytes()).decode().split("\n") == [*(line.upper() for line in LINES), ""]


def test_parts_are_only_joined_if_all_are_finished_and_belong_together(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UserError, match=r"there are no parts; hint: .*--part 1/N to --part N/N"):
        join_parts(source, out)
    translate(source, out, (1, 2))
    translate(source, out, (2, 2), upto=1)
    with pytest.raises(RunError, match=r"part 2 of 2 is not finished; hint: run it again with --part 2/2"):
        join_parts(source, out)
    part_path(out, (2, 2)).with_name(".out.part-2-of-2.part.json").unlink()
    translate(source, out, (2, 2), identity="another model")
    with pytest.raises(RunError, match="with different models or options"):
        join_parts(source, out)
    whole = part_path(out, (1, 2)).read_text()
    part_path(out, (1, 2)).write_text(whole.replace("\n", " ", 1))
    with pytest.raises(RunError, match="has 2 lines, not 3"):
        join_parts(source, out)
    source.write_text("changed")
    with pytest.raises(RunError, match="was made from another version of"):
        join_parts(source, out)
    assert not out.exists() and part_path(out, (2, 2)).exists()


def test_warnings_about_a_part_have_the_line_numbers_of_the_file(source: Path, tmp_path: Path) -> None:
    translate(source, tmp_path / "out", (2, 2), upto=1)
    pair = FilePair(source, part_path(tmp_path / "out", (2, 2)))
    for resume, n_before in ((True, 4), (False, 3)):  # "four" has been translated
        stream = LineStream(pair, resume=resume, identity="x", max_characters=1, keep_state=True, lines=range(3, 7))
        assert stream.n_before == n_before


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", ""])
def test_what_is_not_a_part_is_refused(text: str) -> None:
    assert parse_part("3/64") == (3, 64)
    with pytest.raises(RecipeError, match="is not a part; hint: write it as 3/64"):
        parse_part(text)

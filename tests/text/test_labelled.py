"""What the columns of a labelled file are is found out; what is wrong with a line is said with its number."""

import gzip
from pathlib import Path

import pytest

from regard.errors import DataError
from regard.text import LabelledFile, read_labelled, sort_labels

TEXTS = [f"sentence number {i} has some words" for i in range(40)]
LABELS = [("yes", "no", "maybe")[i % 3] for i in range(40)]


def write(path: Path, rows: list[tuple[str, ...]]) -> LabelledFile:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return LabelledFile(path)


@pytest.mark.parametrize("label_first", [True, False])
@pytest.mark.parametrize("header", [None, ("label", "sentence"), ("verdict", "text")])
def test_label_and_text_in_either_order_with_or_without_a_header(
    tmp_path: Path, label_first: bool, header: tuple[str, str] | None
) -> None:
    rows = [*([header] if header else []), *zip(LABELS, TEXTS, strict=True)]
    lines = read_labelled(write(tmp_path / "a.tsv", [row if label_first else row[::-1] for row in rows]))
    assert (lines.labels, lines.texts) == (LABELS, [(text,) for text in TEXTS])
    assert lines.numbers[0] == (2 if header else 1)
    assert lines.layout.has_header == (header is not None)
    expected = "label in column 1, text in column 2" if label_first else "label in column 2, text in column 1"
    assert lines.layout.describe() == f"{expected}, {'a' if header else 'no'} header"


def test_a_number_column_named_by_words_is_a_header(tmp_path: Path) -> None:
    rows = [("stars", "opinion"), *((str(i % 5), text) for i, text in enumerate(TEXTS))]
    assert read_labelled(write(tmp_path / "a.tsv", rows)).layout.has_header


def test_a_first_label_that_is_rare_is_no_header(tmp_path: Path) -> None:
    rows = [("seldom", "an unusual sentence"), *zip(LABELS, TEXTS, strict=True)]
    lines = read_labelled(write(tmp_path / "a.tsv", rows))
    assert lines.labels[0] == "seldom" and not lines.layout.has_header


def test_numbers_identifiers_and_repeated_values_are_not_text(tmp_path: Path) -> None:
    rows = [(str(i), LABELS[i], TEXTS[i], f"source{i % 9}", "news of today") for i in range(40)]
    lines = read_labelled(write(tmp_path / "a.tsv", rows))
    assert lines.layout.columns == ("-", "label", "text", "-", "-")
    assert "column 1 and 4 and 5 not used" in lines.layout.describe()


def test_pairs_of_texts(tmp_path: Path) -> None:
    rows = [(TEXTS[i], TEXTS[-i], LABELS[i]) for i in range(40)]
    lines = read_labelled(write(tmp_path / "a.tsv", rows))
    assert lines.layout.n_texts == 2
    assert lines.texts[3] == (TEXTS[3], TEXTS[-3])


def test_labels_and_texts_in_two_files(tmp_path: Path) -> None:
    (tmp_path / "labels").write_text("".join(f"{label}\n" for label in LABELS))
    (tmp_path / "texts.gz").write_bytes(gzip.compress("".join(f"{text}\n" for text in TEXTS).encode()))
    lines = read_labelled(LabelledFile(tmp_path / "labels", tmp_path / "texts.gz"))
    assert (lines.labels, lines.texts) == (LABELS, [(text,) for text in TEXTS])
    (tmp_path / "texts").write_text("one\ntwo\n")
    with pytest.raises(DataError, match=r"labels has 40 lines, .*texts has 2"):
        read_labelled(LabelledFile(tmp_path / "labels", tmp_path / "texts"), on_bad="skip")


def test_given_columns_and_header_are_used(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.tsv", [("yes", "no", "a text here"), ("no", "yes", "another text"), ("no", "no", "third")]
    )
    lines = read_labelled(file, columns=("-", "label", "text"), header=True)
    assert (lines.labels, lines.texts) == (["yes", "no"], [("another text",), ("third",)])


def test_known_labels_decide_for_a_test_file(tmp_path: Path) -> None:
    rows = [("no", "yes"), ("maybe", "the second text"), ("no", "yes")]
    lines = read_labelled(write(tmp_path / "a.tsv", rows), known={"maybe", "no"})
    assert lines.labels == ["no", "maybe", "no"]


ROWS = list(zip(LABELS, TEXTS, strict=True))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (("yes", "a", "b"), "3 columns instead of 2"),
        (("yes",), "1 columns instead of 2"),
        ((" ", "a text"), "no label"),
        (("yes", " "), "no text"),
        (("other", "a text"), "label 'other' is not one of maybe, no, yes"),
    ],
)
def test_bad_lines_are_errors_with_file_and_line_or_are_skipped(
    tmp_path: Path, line: tuple[str, ...], problem: str
) -> None:
    file = write(tmp_path / "a.tsv", [*ROWS[:20], line, *ROWS[20:]])
    with pytest.raises(DataError) as raised:
        read_labelled(file, known=set(LABELS))
    assert raised.value.message == f"{tmp_path}/a.tsv:21: {problem}"
    assert "data.on_bad=skip" in str(raised.value.hint)
    lines = read_labelled(file, known=set(LABELS), on_bad="skip")
    assert (lines.labels, lines.n_bad) == (LABELS, 1)


def test_invalid_utf8_is_an_error_with_its_line_or_is_skipped(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", ROWS)
    file.labels.write_bytes(file.labels.read_bytes() + b"yes\t\xff\xfe\n")
    with pytest.raises(DataError, match=r"a\.tsv: line 41: not valid UTF-8"):
        read_labelled(file)
    assert read_labelled(file, on_bad="skip").n_bad == 1


def test_blank_lines_are_left_out(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", ROWS)
    file.labels.write_text(file.labels.read_text() + "\n\n")
    assert len(read_labelled(file).labels) == 40


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([(text,) for text in TEXTS], "1: no tab"),
        (
            [(f"{i}", text) for i, text in enumerate(TEXTS)],
            "no column looks like labels: column 1 has 39 different values",
        ),
        ([(LABELS[i], TEXTS[i], TEXTS[-i], f"{TEXTS[i]}!") for i in range(40)], "3 columns of text"),
        ([], "no labelled text"),
    ],
)
def test_a_file_without_labels_is_refused(tmp_path: Path, rows: list[tuple[str, ...]], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read_labelled(write(tmp_path / "a.tsv", rows))


def test_labels_are_sorted_as_numbers_if_they_are() -> None:
    assert sort_labels(["10", "9", "-1", "9"]) == ["-1", "9", "10"]
    assert sort_labels(["b", "10", "9"]) == ["10", "9", "b"]

"""From labelled files to ids: the split, what is found in the text, and what is cut off."""

from itertools import product
from pathlib import Path

import pytest

from regard.data import cut
from regard.errors import DataError, RunError
from regard.tasks.classification.prepare import encode, read_split
from regard.tasks.classification.sections import ClassificationDataConfig
from regard.text import Tokenizer, train_tokenizer

from ...labelled import write_labelled


def config(train: Path, validation: Path | None = None, **values: object) -> ClassificationDataConfig:
    files = {"train": [{"labels": train}], "validation": [{"labels": validation}] if validation else []}
    return ClassificationDataConfig.model_validate(files | values)


def messages(data: ClassificationDataConfig) -> list[str]:
    return [finding["message"] for report in read_split(data).reports for finding in report["findings"]]


def test_some_texts_are_held_out_and_are_the_same_every_time(tmp_path: Path) -> None:
    path = write_labelled(tmp_path / "a.tsv", 400)
    first, again = read_split(config(path)), read_split(config(path))
    assert first.validation == again.validation
    assert 10 < len(first.validation) < 90 and len(first.train) + len(first.validation) == 400
    assert not {texts for _, texts in first.train} & {texts for _, texts in first.validation}
    assert first.values["columns"] == ("label", "text")
    assert len(read_split(config(path, held_out=0.5)).validation) > 150


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = write_labelled(tmp_path / "a.tsv", 100)
    data = config(path, fingerprint=read_split(config(path)).values["fingerprint"])
    assert read_split(data).labels == ["bad", "good"]
    write_labelled(path, 101)
    with pytest.raises(RunError, match="changed since this run began"):
        read_split(data)


def test_validation_is_read_in_its_own_layout_with_the_labels_of_the_training_text(tmp_path: Path) -> None:
    path = write_labelled(tmp_path / "a.tsv", 100)
    (tmp_path / "b.tsv").write_text("sentence\tyear\tlabel\nthe film was cold\t1999\tbad\nwarm and fine\t2001\tgood\n")
    split = read_split(config(path, tmp_path / "b.tsv"))
    assert split.validation == [("bad", ("the film was cold",)), ("good", ("warm and fine",))]
    (tmp_path / "b.tsv").write_text("bad\ta film\nawful\tanother film\n")
    with pytest.raises(DataError, match=r"b\.tsv:2: label 'awful' is not one of bad, good"):
        read_split(config(path, tmp_path / "b.tsv"))


def test_leaks_and_contradictions_are_found(tmp_path: Path) -> None:
    path = write_labelled(tmp_path / "a.tsv", 100)
    first, second = path.read_text().splitlines()[:2]
    label = {"good": "bad", "bad": "good"}[first.split("\t")[0]]
    path.write_text(path.read_text() + f"{label}\t{first.split(chr(9))[1].upper()}\n")
    (tmp_path / "b.tsv").write_text(f"{second}\ngood\ta new text here\n")
    found = messages(config(path, tmp_path / "b.tsv"))
    assert found[0].startswith(f"{tmp_path}/a.tsv: label in column 1, text in column 2, no header; labels bad (")
    assert "1 of 2 validation texts are also in the training text" in found
    assert "1 training texts occur with different labels" in found


def test_one_label_is_nothing_to_learn(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"good\tsentence {i} of many\n" for i in range(40)))
    with pytest.raises(DataError, match="all labels are 'good'"):
        read_split(config(tmp_path / "a.tsv"))


@pytest.mark.parametrize(("a", "b", "limit"), list(product((0, 1, 5, 30), (0, 3, 30), (1, 7, 40))))
def test_the_longer_text_of_a_pair_is_cut_first(a: int, b: int, limit: int) -> None:
    first, second = cut([list(range(a)), list(range(b))], limit)
    assert len(first) + len(second) == min(a + b, limit)
    assert (first, second) == (list(range(len(first))), list(range(len(second))))
    if a + b > limit:
        lost = [length for length, kept in ((a, first), (b, second)) if len(kept) < length]
        assert max(len(first), len(second)) - min(len(first), len(second)) <= 1 or len(lost) == 1


def test_long_texts_are_cut_and_counted(tmp_path: Path) -> None:
    tokenizer = Tokenizer(train_tokenizer(["the film was lovely"] * 9, size=300))
    texts, n_cut = encode([("a", ("the film was lovely",)), ("b", ("film",))], ["a", "b"], tokenizer, 2)
    assert (n_cut, texts.classes.tolist()) == (1, [0, 1])
    assert [len(texts[0][0]), texts[1][0].tolist()] == [2, tokenizer.encode("film")]

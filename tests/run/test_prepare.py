"""From files to token stores: what is held out, tagged, weighed and kept."""

import gzip
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data import TokenStore
from regard.demo.digits import reversed_digits
from regard.errors import DataError, RunError
from regard.run import Recipe
from regard.run.prepare import Corpora, examine_all, fingerprint_all, make_stores, make_tokenizers, settle_data
from regard.run.recipe import DataConfig
from regard.text import TokenizerPair

Stage = tuple[str, int, int | None]


def write(directory: Path, name: str, pairs: list[tuple[str, str]]) -> dict[str, str]:
    paths = {"source": directory / f"{name}.src", "target": directory / f"{name}.tgt"}
    for side, path in enumerate(paths.values()):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return {key: str(path) for key, path in paths.items()}


class Prepared:
    """A recipe's text, prepared as a run would."""

    def __init__(self, out: Path, data: dict[str, Any], **text: Any) -> None:
        model = {"tie": "target"} if text.get("joint") is False else {}
        first = Recipe.build({"data": data, "text": text, "model": model})
        self.stages: list[Stage] = []
        n_pairs = examine_all(first.data, self.show).n_pairs
        self.settled = settle_data(first.data, n_pairs, first.training.seed)
        recipe = Recipe.build({"data": data | self.settled, "text": text, "model": model})
        self.corpora = Corpora.of(recipe.data, recipe.training.seed)
        self.tokenizers = make_tokenizers(out / "tokenizer", self.corpora, recipe.text, self.show)
        self.train, self.validation = make_stores(out, self.corpora, self.tokenizers, 256, self.show)

    def show(self, stage: str, done: int, total: int | None) -> None:
        self.stages.append((stage, done, total))


def texts(store: TokenStore, tokenizers: TokenizerPair) -> list[tuple[str, str]]:
    found = (store.pair(i) for i in range(len(store)))
    return [(tokenizers.source.decode(src.tolist()), tokenizers.target.decode(tgt.tolist())) for src, tgt in found]


def test_what_is_held_out_is_never_trained_on_and_nothing_is_lost(tmp_path: Path) -> None:
    pairs = reversed_digits(400, seed=1)
    made = Prepared(tmp_path / "data", {"train": [write(tmp_path, "a", pairs + pairs[:50])]})
    train, validation = (texts(store, made.tokenizers) for store in (made.train, made.validation))
    assert sorted(train + validation) == sorted(pairs + pairs[:50])
    assert not {source for source, _ in train} & {source for source, _ in validation}
    assert 10 < len(validation) < 100


def test_a_given_validation_set_is_used_and_nothing_held_out(tmp_path: Path) -> None:
    pairs = reversed_digits(120, seed=1)
    data = {"train": [write(tmp_path, "a", pairs[:100])], "validation": [write(tmp_path, "v", pairs[100:])]}
    made = Prepared(tmp_path / "data", data)
    assert made.settled["held_out"] == 0.0
    assert texts(made.train, made.tokenizers) == pairs[:100]
    assert texts(made.validation, made.tokenizers) == pairs[100:]


def test_two_files_a_tsv_and_a_gzip_are_one_text_with_their_numbers(tmp_path: Path) -> None:
    pairs = reversed_digits(90, seed=1)
    two = write(tmp_path, "a", pairs[:30])
    tsv, packed = tmp_path / "b.tsv", tmp_path / "c.tsv.gz"
    tsv.write_text("".join(f"{one}\t{other}\n" for one, other in pairs[30:60]), encoding="utf-8")
    packed.write_bytes(gzip.compress("".join(f"{one}\t{other}\n" for one, other in pairs[60:]).encode()))
    made = Prepared(tmp_path / "data", {"train": [two, {"tsv": str(tsv)}, {"tsv": str(packed)}], "held_out": 0.1})
    train, validation = (texts(store, made.tokenizers) for store in (made.train, made.validation))
    assert sorted(train + validation) == sorted(pairs)
    where = {pair: number for number, start in enumerate((0, 30, 60)) for pair in pairs[start : start + 30]}
    assert made.train.corpora.tolist() == [where[pair] for pair in train]


def test_a_tag_stands_before_the_source_and_no_text_can_forge_it(tmp_path: Path) -> None:
    pairs = [(f"{one} >>de<<", other) for one, other in reversed_digits(60, seed=1)]
    tagged = [write(tmp_path, "de", pairs[:30]) | {"tag": "de"}, write(tmp_path, "fr", pairs[30:]) | {"tag": "fr"}]
    made = Prepared(tmp_path / "data", {"train": tagged})
    fronts = [made.tokenizers.source.encode("", tag=tag) for tag in ("de", "fr")]
    assert len({tuple(front) for front in fronts}) == 2
    for number in range(len(made.train)):
        source, _ = made.train.pair(number)
        assert source[:1].tolist() == fronts[made.train.corpora[number]]
        assert not np.isin(source[1:], np.concatenate(fronts)).any()


def test_a_vocabulary_a_side_knows_its_own_side_only(tmp_path: Path) -> None:
    pairs = [(one, other.translate(str.maketrans("0123456789", "abcdefghij"))) for one, other in reversed_digits(80, 1)]
    made = Prepared(tmp_path / "data", {"train": [write(tmp_path, "a", pairs)]}, joint=False)
    assert not made.tokenizers.joint
    assert made.tokenizers.source.to_bytes() != made.tokenizers.target.to_bytes()
    assert sorted(texts(made.train, made.tokenizers) + texts(made.validation, made.tokenizers)) == sorted(pairs)


def test_what_is_there_is_used_again_and_what_is_deleted_comes_back_the_same(tmp_path: Path) -> None:
    data = {"train": [write(tmp_path, "a", reversed_digits(200, seed=1))]}
    out = tmp_path / "data"
    first = Prepared(out, data)
    files = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert "making the vocabulary" in [stage for stage, *_ in first.stages]
    again = Prepared(out, data)
    assert [stage for stage, *_ in again.stages if not stage.startswith("examining")] == []
    shutil.rmtree(out)
    Prepared(out, data)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == files


def test_a_damaged_vocabulary_is_made_again(tmp_path: Path) -> None:
    data = {"train": [write(tmp_path, "a", reversed_digits(200, seed=1))]}
    made = Prepared(tmp_path / "data", data)
    model = tmp_path / "data" / "tokenizer" / "tokenizer.model"
    model.write_bytes(model.read_bytes()[:-10])
    assert Prepared(tmp_path / "data", data).tokenizers.source.to_bytes() == made.tokenizers.source.to_bytes()


def test_another_text_makes_another_vocabulary(tmp_path: Path) -> None:
    Prepared(tmp_path / "data", {"train": [write(tmp_path, "a", reversed_digits(100, seed=1))]})
    other = Prepared(tmp_path / "data", {"train": [write(tmp_path, "b", [("xyz", "zyx"), ("xy", "yx")] * 20)]})
    assert "making the vocabulary" in [stage for stage, *_ in other.stages]


def test_an_edited_file_is_noticed(tmp_path: Path) -> None:
    data = {"train": [write(tmp_path, "a", reversed_digits(20, seed=1))]}
    before = fingerprint_all(DataConfig.model_validate(data))
    target = Path(data["train"][0]["target"])
    target.write_text(target.read_text().replace("1", "2", 1))
    with pytest.raises(RunError, match="the training text was edited since this run began"):
        Corpora.of(DataConfig.model_validate(data | {"fingerprint": before}), seed=1)


@pytest.mark.parametrize("n_pairs", range(2, 30))
def test_even_a_handful_of_pairs_is_divided(tmp_path: Path, n_pairs: int) -> None:
    data = DataConfig.model_validate({"train": [write(tmp_path, "a", reversed_digits(n_pairs, seed=n_pairs))]})
    settled = settle_data(data, n_pairs, seed=1)
    corpora = Corpora.of(data.model_copy(update=settled), seed=1)
    n_train, n_validation = len(list(corpora.training_pairs())), len(list(corpora.validation_pairs()))
    assert n_train + n_validation == n_pairs
    assert 1 <= n_validation <= max(1, n_pairs // 2)


@pytest.mark.parametrize("pairs", [[("a b", "b a")], [("a b", "b a")] * 7])
def test_what_can_not_be_divided_asks_for_a_validation_set(tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    data = DataConfig.model_validate({"train": [write(tmp_path, "a", pairs)]})
    with pytest.raises(DataError, match=r"too few pairs \(\d\) to hold some .*--valid-source"):
        settle_data(data, len(pairs), seed=1)


def test_holding_nothing_out_without_a_validation_set_is_refused(tmp_path: Path) -> None:
    data = {"train": [write(tmp_path, "a", reversed_digits(50, seed=1))], "held_out": 0.0}
    with pytest.raises(DataError, match="there is no pair to validate on"):
        Prepared(tmp_path / "data", data)


def test_what_would_spoil_a_training_is_refused_unless_told_otherwise(tmp_path: Path) -> None:
    same = [(one, one) for one, _ in reversed_digits(50, seed=1)]
    data = {"train": [write(tmp_path, "a", same)]}
    with pytest.raises(DataError, match=r"--set data\.doctor=false"):
        Prepared(tmp_path / "data", data)
    made = Prepared(tmp_path / "data", data | {"doctor": False})
    assert len(made.train) + len(made.validation) == 50


def test_bad_lines_are_counted_and_left_out_when_told_to(tmp_path: Path) -> None:
    paths = write(tmp_path, "a", reversed_digits(60, seed=1))
    lines = Path(paths["source"]).read_bytes().split(b"\n")
    Path(paths["source"]).write_bytes(b"\n".join([*lines[:10], b"\xff 1 2", *lines[11:]]))
    with pytest.raises(DataError, match="11"):
        examine_all(DataConfig.model_validate({"train": [paths]}), lambda *_: None)
    made = Prepared(tmp_path / "data", {"train": [paths], "on_bad": "skip"})
    assert len(made.train) + len(made.validation) == 59


def test_a_fault_of_the_validation_set_is_found_before_any_work(tmp_path: Path) -> None:
    train, valid = (write(tmp_path, name, reversed_digits(40, seed=1)) for name in "av")
    Path(valid["target"]).write_text("1 2 3\n")
    data = DataConfig.model_validate({"train": [train], "validation": [valid]})
    with pytest.raises(DataError, match=r"has 40 lines, .* has 1"):
        examine_all(data, lambda *_: None)


def sources_by_front(made: Prepared) -> dict[int, set[str]]:
    """The first symbol of a source → the texts that begin with it."""
    found: dict[int, set[str]] = {}
    for number in range(len(made.train)):
        source, _ = made.train.pair(number)
        found.setdefault(int(source[0]), set()).add(made.tokenizers.source.decode(source.tolist()))
    return found


def test_swapped_tags_make_another_store(tmp_path: Path) -> None:
    pairs = reversed_digits(120, seed=1)
    one, other = write(tmp_path, "a", pairs[:60]), write(tmp_path, "b", pairs[60:])
    first = Prepared(tmp_path / "data", {"train": [one | {"tag": "de"}, other | {"tag": "fr"}]})
    second = Prepared(tmp_path / "data", {"train": [one | {"tag": "fr"}, other | {"tag": "de"}]})
    assert first.corpora.fingerprint == second.corpora.fingerprint
    de, fr = (first.tokenizers.source.encode("", tag=tag)[0] for tag in ("de", "fr"))
    before, after = sources_by_front(first), sources_by_front(second)
    assert (after[de], after[fr]) == (before[fr], before[de])


def test_a_corpus_that_becomes_the_validation_set_is_no_longer_trained_on(tmp_path: Path) -> None:
    pairs = reversed_digits(120, seed=1)
    parts = [write(tmp_path, name, pairs[start : start + 40]) for name, start in (("a", 0), ("b", 40), ("c", 80))]
    data = {"train": parts[:2], "validation": parts[2:]}
    Prepared(tmp_path / "data", data)
    moved = Prepared(tmp_path / "data", {"train": parts[:1], "validation": parts[1:]})
    assert texts(moved.train, moved.tokenizers) == pairs[:40]
    assert texts(moved.validation, moved.tokenizers) == pairs[40:]
    assert "making the vocabulary" in [stage for stage, *_ in moved.stages]


def test_leaving_bad_lines_out_makes_another_store(tmp_path: Path) -> None:
    data = DataConfig.model_validate({"train": [write(tmp_path, "a", reversed_digits(40, seed=1))], "held_out": 0.1})
    keys = {Corpora.of(data.model_copy(update={"on_bad": on_bad}), seed=1).key for on_bad in ("raise", "skip")}
    assert len(keys) == 2


def test_a_share_to_hold_out_takes_nothing_away_where_a_validation_set_is_given(tmp_path: Path) -> None:
    data = {"train": [write(tmp_path, "a", reversed_digits(200, seed=1))], "held_out": 0.3}
    made = Prepared(tmp_path / "data", data | {"validation": [write(tmp_path, "v", reversed_digits(20, seed=2))]})
    assert (len(made.train), len(made.validation)) == (200, 20)


def test_validation_text_that_is_learned_from_is_said_but_not_refused(tmp_path: Path) -> None:
    pairs = reversed_digits(200, seed=1)
    data = DataConfig.model_validate({
        "train": [write(tmp_path, "a", pairs)], "validation": [write(tmp_path, "v", pairs[:40])]
    })  # fmt: skip
    [report] = examine_all(data, lambda *_: None).reports
    assert not report.has_errors
    leaks = [finding.message for finding in report.findings if finding.kind == "leak"]
    assert len(leaks) == 2 and leaks[0].endswith("distinct lines are also in the training data (100.0%)")

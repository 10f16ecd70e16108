"""From text files to token stores: held-out pairs, tags, vocabularies and caching."""

import gzip
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data import TokenStore
from regard.errors import DataError, RunError
from regard.run import Recipe
from regard.tasks.translation.prepare import (
    Corpora,
    data_values,
    examine_corpora,
    fingerprint_all,
    make_stores,
    make_tokenizers,
)
from regard.tasks.translation.sections import DataConfig
from regard.text import Tokenizer, TokenizerPair, train_tokenizer
from regard.text.encoding import Encoding

from ...digits import reversed_digits

Stage = tuple[str, int, int | None]


def write(directory: Path, name: str, pairs: list[tuple[str, str]]) -> dict[str, str]:
    paths = {"source": directory / f"{name}.src", "target": directory / f"{name}.tgt"}
    for side, path in enumerate(paths.values()):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return {key: str(path) for key, path in paths.items()}


class PreparedText:
    """The text of a recipe, prepared as in a run."""

    def __init__(self, out: Path, data: dict[str, Any], **text: Any) -> None:
        model = {"tie": "target"} if text.get("joint") is False else {}
        first = Recipe.build({"data": data, "text": text, "model": model})
        self.stages: list[Stage] = []
        n_pairs, _ = examine_corpora(first.data, self.on_progress)
        self.values = data_values(first.data, n_pairs, first.training.seed)
        recipe = Recipe.build({"data": data | self.values, "text": text, "model": model})
        self.corpora = Corpora.of(recipe.data, recipe.training.seed)
        self.tokenizers = make_tokenizers(out / "tokenizer", self.corpora, recipe.text, self.on_progress)
        self.train, self.validation, _ = make_stores(out, self.corpora, self.tokenizers, 256, self.on_progress)

    def on_progress(self, stage: str, done: int, total: int | None) -> None:
        self.stages.append((stage, done, total))


def texts(store: TokenStore, tokenizers: TokenizerPair) -> list[tuple[str, str]]:
    pairs = (store.pair(i) for i in range(len(store)))
    return [(tokenizers.source.decode(src.tolist()), tokenizers.target.decode(tgt.tolist())) for src, tgt in pairs]


def test_every_pair_is_either_for_training_or_held_out(tmp_path: Path) -> None:
    pairs = reversed_digits(400, seed=1)
    prepared = PreparedText(tmp_path / "data", {"train": [write(tmp_path, "a", pairs + pairs[:50])]})
    train, validation = (texts(store, prepared.tokenizers) for store in (prepared.train, prepared.validation))
    assert sorted(train + validation) == sorted(pairs + pairs[:50])
    assert not {source for source, _ in train} & {source for source, _ in validation}
    assert 10 < len(validation) < 100


def test_held_out_targets_are_not_in_the_training_set_either(tmp_path: Path) -> None:
    pairs = reversed_digits(400, seed=1)
    repeated = [(f"{source} 7", target.upper()) for source, target in pairs[::5]]  # other sources, the same targets
    prepared = PreparedText(tmp_path / "data", {"train": [write(tmp_path, "a", pairs + repeated)]})
    train, validation = (texts(store, prepared.tokenizers) for store in (prepared.train, prepared.validation))
    assert not {target for _, target in train} & {target for _, target in validation}
    assert 10 < len(validation) < len(pairs + repeated) - len(train)  # some are in neither


def test_targets_that_repeat_by_nature_are_held_out_all_the_same(tmp_path: Path) -> None:
    pairs = [(source, "yes" if number % 2 else "no") for number, (source, _) in enumerate(reversed_digits(400, seed=1))]
    prepared = PreparedText(tmp_path / "data", {"train": [write(tmp_path, "a", pairs)]})
    assert 10 < len(prepared.validation) == len(pairs) - len(prepared.train)


def test_nothing_is_held_out_if_a_validation_set_is_given(tmp_path: Path) -> None:
    pairs = reversed_digits(120, seed=1)
    data = {"train": [write(tmp_path, "a", pairs[:100])], "validation": [write(tmp_path, "v", pairs[100:])]}
    prepared = PreparedText(tmp_path / "data", data)
    assert prepared.values["held_out"] == 0.0
    assert texts(prepared.train, prepared.tokenizers) == pairs[:100]
    assert texts(prepared.validation, prepared.tokenizers) == pairs[100:]


def test_text_files_tsv_and_gzip_are_combined_and_numbered(tmp_path: Path) -> None:
    pairs = reversed_digits(90, seed=1)
    text_files = write(tmp_path, "a", pairs[:30])
    tsv, packed = tmp_path / "b.tsv", tmp_path / "c.tsv.gz"
    tsv.write_text("".join(f"{source}\t{target}\n" for source, target in pairs[30:60]), encoding="utf-8")
    packed.write_bytes(gzip.compress("".join(f"{source}\t{target}\n" for source, target in pairs[60:]).encode()))
    prepared = PreparedText(
        tmp_path / "data", {"train": [text_files, {"tsv": str(tsv)}, {"tsv": str(packed)}], "held_out": 0.1}
    )
    train, validation = (texts(store, prepared.tokenizers) for store in (prepared.train, prepared.validation))
    assert sorted(train + validation) == sorted(pairs)
    where = {pair: number for number, start in enumerate((0, 30, 60)) for pair in pairs[start : start + 30]}
    assert prepared.train.corpora.tolist() == [where[pair] for pair in train]


def test_tag_precedes_the_source_and_cannot_be_forged_by_text(tmp_path: Path) -> None:
    pairs = [(f"{source} >>de<<", target) for source, target in reversed_digits(60, seed=1)]
    tagged = [write(tmp_path, "de", pairs[:30]) | {"tag": "de"}, write(tmp_path, "fr", pairs[30:]) | {"tag": "fr"}]
    prepared = PreparedText(tmp_path / "data", {"train": tagged})
    tag_ids = [prepared.tokenizers.source.encode("", tag=tag) for tag in ("de", "fr")]
    assert len({tuple(ids) for ids in tag_ids}) == 2
    for number in range(len(prepared.train)):
        source, _ = prepared.train.pair(number)
        assert source[:1].tolist() == tag_ids[prepared.train.corpora[number]]
        assert not np.isin(source[1:], np.concatenate(tag_ids)).any()


def test_separate_vocabularies_are_built_per_language(tmp_path: Path) -> None:
    letters = str.maketrans("0123456789", "abcdefghij")
    pairs = [(source, target.translate(letters)) for source, target in reversed_digits(80, 1)]
    prepared = PreparedText(tmp_path / "data", {"train": [write(tmp_path, "a", pairs)]}, joint=False)
    assert not prepared.tokenizers.joint
    assert prepared.tokenizers.source.to_bytes() != prepared.tokenizers.target.to_bytes()
    assert sorted(
        texts(prepared.train, prepared.tokenizers) + texts(prepared.validation, prepared.tokenizers)
    ) == sorted(pairs)


def test_cached_files_are_reused_and_deleted_ones_rebuilt_identically(tmp_path: Path) -> None:
    data = {"train": [write(tmp_path, "a", reversed_digits(200, seed=1))]}
    out = tmp_path / "data"
    first = PreparedText(out, data)
    files = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert "building the vocabulary" in [stage for stage, *_ in first.stages]
    again = PreparedText(out, data)
    assert [stage for stage, *_ in again.stages if not stage.startswith("examining")] == []
    shutil.rmtree(out)
    PreparedText(out, data)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == files


def test_damaged_vocabulary_is_rebuilt(tmp_path: Path) -> None:
    data = {"train": [write(tmp_path, "a", reversed_digits(200, seed=1))]}
    prepared = PreparedText(tmp_path / "data", data)
    model = tmp_path / "data" / "tokenizer" / "tokenizer.model"
    model.write_bytes(model.read_bytes()[:-10])
    assert PreparedText(tmp_path / "data", data).tokenizers.source.to_bytes() == prepared.tokenizers.source.to_bytes()


def test_vocabulary_is_rebuilt_for_another_text(tmp_path: Path) -> None:
    PreparedText(tmp_path / "data", {"train": [write(tmp_path, "a", reversed_digits(100, seed=1))]})
    rebuilt = PreparedText(tmp_path / "data", {"train": [write(tmp_path, "b", [("xyz", "zyx"), ("xy", "yx")] * 20)]})
    assert "building the vocabulary" in [stage for stage, *_ in rebuilt.stages]


def test_edited_file_raises_run_error(tmp_path: Path) -> None:
    data = {"train": [write(tmp_path, "a", reversed_digits(20, seed=1))]}
    before = fingerprint_all(DataConfig.model_validate(data))
    target = Path(data["train"][0]["target"])
    target.write_text(target.read_text().replace("1", "2", 1))
    with pytest.raises(RunError, match="the training text has changed since this run began"):
        Corpora.of(DataConfig.model_validate(data | {"fingerprint": before}), seed=1)


@pytest.mark.parametrize("n_pairs", range(2, 30))
def test_very_small_corpus_is_split(tmp_path: Path, n_pairs: int) -> None:
    data = DataConfig.model_validate({"train": [write(tmp_path, "a", reversed_digits(n_pairs, seed=n_pairs))]})
    values = data_values(data, n_pairs, seed=1)
    corpora = Corpora.of(data.model_copy(update=values), seed=1)
    tokenizer = Tokenizer(train_tokenizer(["0 1 2 3 4 5 6 7 8 9"]))
    how = partial(Encoding, tokenizers=TokenizerPair(tokenizer, tokenizer), max_length=9)
    [(_, train, held_out)] = corpora.encoded(corpora.train, corpora.splits, how, lambda n_bytes: None)
    n_train, n_validation = train.n_read, held_out.n_read
    assert n_train + n_validation == n_pairs
    assert 1 <= n_validation <= max(1, n_pairs // 2)


@pytest.mark.parametrize("pairs", [[("a b", "b a")], [("a b", "b a")] * 7])
def test_corpus_that_cannot_be_split_raises_data_error(tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    data = DataConfig.model_validate({"train": [write(tmp_path, "a", pairs)]})
    with pytest.raises(DataError, match=r"too few pairs \(\d(, 1 of them different)?\) to hold out .*--valid-source"):
        data_values(data, len(pairs), seed=1)


def test_empty_validation_set_raises_data_error(tmp_path: Path) -> None:
    data = {"train": [write(tmp_path, "a", reversed_digits(50, seed=1))], "held_out": 0.0}
    with pytest.raises(DataError, match="the validation set is empty"):
        PreparedText(tmp_path / "data", data)


def test_text_with_errors_is_refused_unless_the_doctor_is_off(tmp_path: Path) -> None:
    same = [(source, source) for source, _ in reversed_digits(50, seed=1)]
    data = {"train": [write(tmp_path, "a", same)]}
    with pytest.raises(DataError, match=r"--set data\.doctor=false"):
        PreparedText(tmp_path / "data", data)
    prepared = PreparedText(tmp_path / "data", data | {"doctor": False})
    assert len(prepared.train) + len(prepared.validation) == 50


def test_bad_lines_are_skipped_on_request(tmp_path: Path) -> None:
    paths = write(tmp_path, "a", reversed_digits(60, seed=1))
    lines = Path(paths["source"]).read_bytes().split(b"\n")
    Path(paths["source"]).write_bytes(b"\n".join([*lines[:10], b"\xff 1 2", *lines[11:]]))
    with pytest.raises(DataError, match="11"):
        examine_corpora(DataConfig.model_validate({"train": [paths]}), lambda *_: None)
    prepared = PreparedText(tmp_path / "data", {"train": [paths], "on_bad": "skip"})
    assert len(prepared.train) + len(prepared.validation) == 59


def test_error_in_the_validation_set_is_found_first(tmp_path: Path) -> None:
    train, valid = (write(tmp_path, name, reversed_digits(40, seed=1)) for name in "av")
    Path(valid["target"]).write_text("1 2 3\n")
    data = DataConfig.model_validate({"train": [train], "validation": [valid]})
    with pytest.raises(DataError, match=r"has 40 lines, .* has 1"):
        examine_corpora(data, lambda *_: None)


def sources_by_tag(prepared: PreparedText) -> dict[int, set[str]]:
    """The id of each tag → the source texts that begin with it."""
    by_tag: dict[int, set[str]] = {}
    for number in range(len(prepared.train)):
        source, _ = prepared.train.pair(number)
        by_tag.setdefault(int(source[0]), set()).add(prepared.tokenizers.source.decode(source.tolist()))
    return by_tag


def test_store_is_rebuilt_if_tags_change(tmp_path: Path) -> None:
    pairs = reversed_digits(120, seed=1)
    a, b = write(tmp_path, "a", pairs[:60]), write(tmp_path, "b", pairs[60:])
    first = PreparedText(tmp_path / "data", {"train": [a | {"tag": "de"}, b | {"tag": "fr"}]})
    second = PreparedText(tmp_path / "data", {"train": [a | {"tag": "fr"}, b | {"tag": "de"}]})
    assert first.corpora.fingerprint == second.corpora.fingerprint
    de, fr = (first.tokenizers.source.encode("", tag=tag)[0] for tag in ("de", "fr"))
    before, after = sources_by_tag(first), sources_by_tag(second)
    assert (after[de], after[fr]) == (before[fr], before[de])


def test_store_is_rebuilt_if_a_corpus_moves_to_the_validation_set(tmp_path: Path) -> None:
    pairs = reversed_digits(120, seed=1)
    parts = [write(tmp_path, name, pairs[start : start + 40]) for name, start in (("a", 0), ("b", 40), ("c", 80))]
    data = {"train": parts[:2], "validation": parts[2:]}
    PreparedText(tmp_path / "data", data)
    moved = PreparedText(tmp_path / "data", {"train": parts[:1], "validation": parts[1:]})
    assert texts(moved.train, moved.tokenizers) == pairs[:40]
    assert texts(moved.validation, moved.tokenizers) == pairs[40:]
    assert "building the vocabulary" in [stage for stage, *_ in moved.stages]


def test_skipping_bad_lines_changes_the_key_of_the_store(tmp_path: Path) -> None:
    data = DataConfig.model_validate({"train": [write(tmp_path, "a", reversed_digits(40, seed=1))], "held_out": 0.1})
    keys = {Corpora.of(data.model_copy(update={"on_bad": on_bad}), seed=1).key for on_bad in ("raise", "skip")}
    assert len(keys) == 2


def test_held_out_share_is_ignored_if_a_validation_set_is_given(tmp_path: Path) -> None:
    data = {"train": [write(tmp_path, "a", reversed_digits(200, seed=1))], "held_out": 0.3}
    prepared = PreparedText(
        tmp_path / "data", data | {"validation": [write(tmp_path, "v", reversed_digits(20, seed=2))]}
    )
    assert (len(prepared.train), len(prepared.validation)) == (200, 20)


def test_leaked_validation_text_is_reported_but_not_refused(tmp_path: Path) -> None:
    pairs = reversed_digits(200, seed=1)
    data = DataConfig.model_validate({
        "train": [write(tmp_path, "a", pairs)], "validation": [write(tmp_path, "v", pairs[:40])]
    })  # fmt: skip
    _, [report] = examine_corpora(data, lambda *_: None)
    assert not report.has_errors
    leaks = [finding.message for finding in report.findings if finding.kind == "leak"]
    assert len(leaks) == 2 and leaks[0].endswith("distinct lines are also in the training data (100.0%)")


@pytest.mark.parametrize("stage", ["building the vocabulary", "encoding"])
def test_text_that_changes_while_it_is_prepared_is_noticed_and_nothing_of_it_is_cached(
    tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = reversed_digits(200, seed=1)
    data = {"train": [write(tmp_path, "a", pairs)]}
    source = Path(data["train"][0]["source"])
    original = source.read_bytes()

    def change(self: PreparedText, name: str, done: int, total: int | None) -> None:
        if name == stage:
            source.write_bytes(original.replace(b"1", b"2"))

    with monkeypatch.context() as patched:
        patched.setattr(PreparedText, "on_progress", change)
        with pytest.raises(RunError, match="was changed while it was being prepared"):
            PreparedText(tmp_path / "data", data)
    source.write_bytes(original)
    prepared = PreparedText(tmp_path / "data", data)
    shutil.rmtree(tmp_path / "data")
    again = PreparedText(tmp_path / "data", data)
    assert prepared.tokenizers.source.to_bytes() == again.tokenizers.source.to_bytes()
    assert texts(prepared.train, prepared.tokenizers) == texts(again.train, again.tokenizers)


def test_a_file_that_is_only_touched_is_not_a_change(tmp_path: Path) -> None:
    files = write(tmp_path, "a", reversed_digits(200, seed=1))
    prepared = PreparedText(tmp_path / "data", {"train": [files]})
    os.utime(files["source"], (1, 1))
    prepared.corpora.require_unchanged()


def test_a_line_is_never_held_out_and_trained_on_whatever_its_case_and_spaces(tmp_path: Path) -> None:
    pairs = [(f"a sentence number {number} of many", target) for number, (_, target) in
             enumerate(reversed_digits(300, seed=1))]  # fmt: skip
    variants = [(f"  {source.upper()}   ".replace("NUMBER", "Number  "), target) for source, target in pairs]
    data = {"train": [write(tmp_path, "a", pairs + variants)], "doctor": False}
    prepared = PreparedText(tmp_path / "data", data)
    train, validation = (texts(store, prepared.tokenizers) for store in (prepared.train, prepared.validation))
    assert len(train) + len(validation) == 600 and validation
    assert not {source.casefold() for source, _ in train} & {source.casefold() for source, _ in validation}


def test_identical_pairs_are_counted_once_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"too few pairs \(500, 1 of them different\)"):
        PreparedText(tmp_path / "data", {"train": [write(tmp_path, "a", [("1 2", "2 1")] * 500)], "doctor": False})

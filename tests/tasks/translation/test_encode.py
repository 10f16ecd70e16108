"""A store of shards: the same bytes however it was built, read window by window, and resumed anywhere."""

import filecmp
import gzip
import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data import Cursor, Loader, PairCollator
from regard.data.shards import ShardedStore, ShardIndex, shard_path
from regard.errors import ArtifactError, DataError, RecipeError, RunError
from regard.run import Recipe
from regard.run.build import prepare_run
from regard.run.callbacks import Callbacks
from regard.tasks import TASKS
from regard.tasks.translation.encode import EncodingPlan, build_shards, join_shards, plan_encoding
from regard.tasks.translation.sections import DataConfig, TextConfig
from regard.text import Tokenizer, TokenizerPair, read_tokenizers
from regard.text.blocks import line_ranges

from ...digits import reversed_digits

N_SHARDS = 7


def quiet(stage: str, done: int, total: int | None) -> None: ...


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("text")
    pairs = [*reversed_digits(650, seed=1), ("", "blank"), *reversed_digits(29, seed=2)]
    for side, name in enumerate(("a.src", "a.tgt")):
        (directory / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    return directory


def plan(text: Path, out: Path, **settings: Any) -> EncodingPlan:
    data = DataConfig.model_validate({"train": [{"source": text / "a.src", "target": text / "a.tgt"}]})
    options: dict[str, Any] = {"seed": 1, "lines_per_shard": 100, "start_from": None, "n_processes": 1} | settings
    return plan_encoding(out, data, TextConfig(vocabulary=300), **options, on_progress=quiet)


@pytest.fixture(scope="module")
def built(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "store"
    made = plan(text, out)
    build_shards(out, made, (1, 1), 1, quiet)
    join_shards(out, made, quiet)
    return out


def files(directory: Path) -> list[Path]:
    return sorted(path.relative_to(directory) for path in directory.rglob("*") if path.is_file())


def test_parts_in_any_order_and_in_several_processes_give_the_same_bytes(
    text: Path, built: Path, tmp_path: Path
) -> None:
    made = plan(text, tmp_path / "parts")
    build_shards(tmp_path / "parts", made, (3, 3), 1, quiet)
    with pytest.raises(RunError, match=r"5 of 7 shards are missing in .*: 0, 1, 3, 4, 6"):
        join_shards(tmp_path / "parts", made, quiet)
    build_shards(tmp_path / "parts", made, (2, 3), 1, quiet)
    shutil.rmtree(shard_path(tmp_path / "parts", 4))  # as if it had been killed
    build_shards(tmp_path / "parts", EncodingPlan.read(tmp_path / "parts"), (1, 1), 2, quiet)
    join_shards(tmp_path / "parts", made, quiet)
    assert files(tmp_path / "parts") == files(built) and len(files(built)) > 50
    assert filecmp.cmpfiles(built, tmp_path / "parts", list(map(str, files(built))), shallow=False)[1:] == ([], [])


def test_compressed_text_gives_the_same_shards(text: Path, built: Path, tmp_path: Path) -> None:
    data = []
    for name in ("a.src", "a.tgt"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((text / name).read_bytes()))
        data.append(tmp_path / f"{name}.gz")
    ranges = [[*line_ranges(paths, 100)] for paths in (data, [text / "a.src", text / "a.tgt"])]
    for compressed, plain in zip(*ranges, strict=True):
        assert (compressed.first, compressed.n_lines) == (plain.first, plain.n_lines)
        lines = [
            b"".join(block.files[1] for block in part.blocks(paths))
            for part, paths in ((compressed, data), (plain, [text / "a.src", text / "a.tgt"]))
        ]
        assert lines[0] == lines[1]
    assert [len(part) for part in ranges] == [N_SHARDS, N_SHARDS]


def test_a_plan_is_of_one_text(text: Path, built: Path, tmp_path: Path) -> None:
    assert plan(text, built) == plan(text, built, lines_per_shard=None) == EncodingPlan.read(built)
    with pytest.raises(RunError, match="have 100 lines, not 200"):
        plan(text, built, lines_per_shard=200)
    shutil.copytree(text, tmp_path / "other")
    with (tmp_path / "other" / "a.src").open("a") as a, (tmp_path / "other" / "a.tgt").open("a") as b:
        a.write("one\n")
        b.write("one\ntwo\n")
    with pytest.raises(DataError, match=r"a.src has 681 lines, .*a.tgt has 682"):
        plan(tmp_path / "other", tmp_path / "new")
    with pytest.raises(RunError, match="is of other text, or the text has changed"):
        plan(tmp_path / "other", built)


def store(built: Path, width: int) -> ShardedStore:
    return ShardedStore(built, replace(ShardIndex.read(built), shards_per_window=width))


def loader(pairs: ShardedStore, **settings: Any) -> Loader:
    tokenizer = Tokenizer((pairs.directory / "tokenizer" / "tokenizer.model").read_bytes())
    ids = {"pad_id": tokenizer.pad_id, "bos_id": tokenizer.bos_id, "eos_id": tokenizer.eos_id}
    return Loader(examples=pairs, collate=PairCollator(store=pairs, **ids), max_tokens=200, seed=3, **settings)


@pytest.mark.parametrize("width", [1, 3, 7])
def test_an_epoch_has_every_pair_once_and_epochs_differ(built: Path, width: int) -> None:
    pairs = store(built, width)
    assert pairs.n_windows == -(-N_SHARDS // width) and len(pairs) == pairs.meta.n_pairs
    epochs: list[list[int]] = [[], [], []]
    for [batch], _ in loader(pairs).updates(Cursor()):
        if batch.place.epoch == 2:
            break
        epochs[batch.place.epoch] += batch.indices.tolist()
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(len(pairs)))
    assert epochs[0] != epochs[1]
    assert len(pairs._opened) <= width


def test_one_sequence_of_batches_resumes_anywhere(built: Path) -> None:
    alone = list(islice(loader(store(built, 2), n_batches=2).updates(Cursor()), 60))
    assert len({cursor.window for _, cursor in alone}) == 4 and alone[-1][1].epoch > 0
    for at in (3, 17, 41):
        again = islice(loader(store(built, 2), n_batches=2).updates(alone[at][1], at + 2), 5)
        for (update, cursor), (other, position) in zip(alone[at + 1 :], again, strict=False):
            assert cursor == position
            assert [batch.place for batch in update] == [batch.place for batch in other]
            assert [batch.indices.tolist() for batch in update] == [batch.indices.tolist() for batch in other]


def test_a_damaged_shard_is_noticed_when_it_is_used(built: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(built, copy)
    path = shard_path(copy, 5) / "target.ids"
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)
    pairs = store(copy, 1)
    pairs.gather(np.array([0, 150]))
    with pytest.raises(ArtifactError, match=r"00005 is missing or damaged; hint: .*"):
        pairs.gather(np.array([len(pairs) - 150]))


def test_a_recipe_takes_text_and_validation_set_from_the_store(built: Path, tmp_path: Path) -> None:
    first = Recipe.build({"data": {"store": str(built)}})
    examined = TASKS["translation"].examine(first, quiet)
    recipe = Recipe.build({"data": {"store": str(built)} | examined.values["data"], "text": examined.values["text"]})
    data: Any = prepare_run(recipe, None, tmp_path, Callbacks()).data
    tokenizers: TokenizerPair = read_tokenizers(built / "tokenizer")
    source, target = data.validation.pair(0)
    assert tokenizers.source.decode(source.tolist()) == tokenizers.target.decode(target.tolist())[::-1]
    assert len(data.train) + len(data.validation) + 1 == 680
    assert data.counts["n_blank"] == 1 and data.counts["vocabulary"] == tokenizers.target.size
    with pytest.raises(RecipeError, match=r"text.kind cannot be 'char': it is 'bpe'"):
        other = Recipe.build({"data": {"store": str(built)}, "text": {"kind": "char"}})
        TASKS["translation"].examine(other, quiet)


def test_without_an_index_a_store_is_not_finished(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"has no index.json.*regard encode --join"):
        ShardIndex.read(tmp_path)

"""Heads over a corpus: what is said of each can be counted by hand, and silencing one by one is exact."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.artifact import LoadedModel
from regard.data.batch import collate
from regard.decoding import DecodingOptions
from regard.errors import UserError
from regard.lens import Head, HeadsTable, Interventions, Lens
from regard.lens.ablate import altered
from regard.lens.interventions import all_heads
from regard.lens.search import find
from regard.models import Transformer

from .conftest import TEXT, LensMaker

PAIRS = [
    ("one two three", "eins zwei drei"),
    ("the animal did not cross the street", "das Tier überquerte die Straße nicht"),
    ("four five", "fünf vier sechs"),
    ("it was too tired .", TEXT[1]),
]


@pytest.fixture(scope="module")
def table(lens: Lens) -> HeadsTable:
    return lens.heads(PAIRS)


def teacher_forced(loaded: LoadedModel, model: Transformer) -> tuple[float, float]:
    """(accuracy, loss) over the pairs, each alone."""
    tokenizer, nll, right, n = loaded.tokenizers.source, 0.0, 0, 0
    for source, target in PAIRS:
        pair = (tokenizer.encode(source), tokenizer.encode(target))
        batch = collate([pair], pad_id=0, bos_id=2, eos_id=3)
        with torch.no_grad():
            log_probs = model(batch.src, batch.tgt_in)[0].double().log_softmax(-1)
        nll -= float(log_probs.gather(1, batch.tgt_out[0][:, None]).sum())
        right += int((log_probs.argmax(-1) == batch.tgt_out[0]).sum())
        n += batch.n_tokens
    return right / n, nll / n


def test_every_head_has_a_row(lens: Lens, table: HeadsTable) -> None:
    assert [row.head for row in table.heads] == all_heads(lens.loaded.config)
    assert len(table.heads) == (2 + 2 + 2) * 4
    assert table.n_sentences == 4


def test_the_baseline_is_the_model_on_each_pair_alone(lens: Lens, table: HeadsTable) -> None:
    accuracy, loss = teacher_forced(lens.loaded, lens.loaded.model)
    assert table.accuracy == pytest.approx(accuracy)
    assert table.loss == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_going_on_from_the_silenced_layer_equals_the_whole_altered_model(make_lens: LensMaker, norm: str) -> None:
    lens = make_lens(norm=norm)
    table = lens.heads(PAIRS)
    rises = set()
    for row in table.heads:
        changed = altered(lens.loaded.model, Interventions(heads_off=frozenset([row.head])), 1)
        accuracy, loss = teacher_forced(lens.loaded, changed)
        assert row.accuracy_drop == pytest.approx(table.accuracy - accuracy, abs=1e-6)
        assert row.loss_rise == pytest.approx(loss - table.loss, abs=1e-4)
        rises.add(round(loss, 6))
    assert len(rises) == len(table.heads)  # each head does something of its own


def test_statistics_are_means_over_the_rows_of_looks(lens: Lens, table: HeadsTable) -> None:
    looks = [lens.look(source, target) for source, target in PAIRS]
    for row in table.heads:
        entropies, found = [], []
        for look in looks:
            pieces = look.weights(row.head.attention, row.head.layer, "pieces")[row.head.head].astype(float)
            entropies += [-sum(w * np.log(w) for w in line if w > 0) for line in pieces]
            words = look.weights(row.head.attention, row.head.layer)[row.head.head]
            columns = look.labels(row.head.attention)[1]
            rest = 0 if row.head.attention == "decoder" else len(columns) - 1
            for i, line in enumerate(words):
                near = [line[j] if 0 <= j < len(line) else 0.0 for j in (i - 1, i, i + 1)]
                found.append([sum(abs(i - j) * w for j, w in enumerate(line)), *near, line[rest]])
        assert float(row.statistics.entropy) == pytest.approx(np.mean(entropies), rel=1e-4)
        assert [float(value) for value in row.statistics[1:]] == pytest.approx(np.mean(found, 0), rel=1e-4, abs=1e-6)


def test_the_json(table: HeadsTable) -> None:
    described = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert described["format"] == "regard-heads/1"
    assert described["baseline"] == {"accuracy": table.accuracy, "loss": table.loss, "bleu": None}
    assert set(described["heads"][0]) == {
        *("attention", "layer", "head", "entropy", "distance", "previous", "same", "next", "end"),
        *("accuracy_drop", "loss_rise", "bleu_drop"),
    }
    assert described["heads"][0]["bleu_drop"] is None


def test_without_is_only_done_when_asked_for(lens: Lens, table: HeadsTable) -> None:
    told: list[tuple[int, int]] = []
    quick = lens.heads(PAIRS, without=False, progress=lambda done, total: told.append((done, total)))
    assert {(row.accuracy_drop, row.loss_rise, row.bleu_drop) for row in quick.heads} == {(None, None, None)}
    assert [row.statistics for row in quick.heads] == [row.statistics for row in table.heads]
    assert quick.loss == table.loss
    assert told == [(1, 1)]


def test_progress_counts_every_reading(lens: Lens) -> None:
    told: list[tuple[int, int]] = []
    lens.heads(PAIRS, progress=lambda done, total: told.append((done, total)))
    assert told == [(i, 25) for i in range(1, 26)]


def test_bleu_is_measured_on_greedy_translations_without_the_head(
    make_lens: LensMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lens = make_lens(n_encoder_layers=1, n_decoder_layers=1, n_heads=2, facts={}, positions="learned", max_positions=20)
    asked: list[list[str]] = []

    def corpus_bleu(outputs: list[str], references: list[list[str]]) -> SimpleNamespace:
        assert [*references[0]] == [target for _, target in PAIRS[:3]]
        asked.append(outputs)
        return SimpleNamespace(score=100.0 - len(asked))

    monkeypatch.setattr("sacrebleu.corpus_bleu", corpus_bleu)
    table = lens.heads(PAIRS[:3], bleu=True, without=False)
    assert table.bleu == 99.0
    assert [row.bleu_drop for row in table.heads] == [1.0 + i for i in range(6)]
    assert {row.loss_rise for row in table.heads} == {None}
    expected = [greedy(lens, frozenset())] + [greedy(lens, frozenset([row.head])) for row in table.heads]
    assert asked == expected
    assert len({*map(tuple, asked)}) > 3  # heads do make a difference here


def greedy(lens: Lens, off: frozenset[Head]) -> list[str]:
    """Each source alone, by the whole altered model."""
    tokenizer, changed = lens.loaded.tokenizers.source, altered(lens.loaded.model, Interventions(heads_off=off), 1)
    outputs = []
    for source, _ in PAIRS[:3]:
        ids = tokenizer.encode(source)
        with torch.no_grad():
            (found,) = find(
                changed, torch.tensor([[*ids, 3]]), [len(ids)], DecodingOptions(beam=1), begin_id=2, end_id=3
            )
        outputs.append(tokenizer.decode(found.ids))
    return outputs


def test_pairs_that_can_not_be_used_are_left_out_or_refused(lens: Lens, table: HeadsTable) -> None:
    more = lens.heads([*PAIRS, ("", "x"), ("x", " "), ("one " * 90, "x")], without=False)
    assert (more.n_sentences, more.n_left_out, table.n_left_out) == (4, 3, 0)
    assert more.to_dict()["n_left_out"] == 3
    assert more.loss == pytest.approx(table.loss)
    with pytest.raises(UserError, match="no pair of sentences to measure heads on; hint: of 1 given"):
        lens.heads([("", "")])

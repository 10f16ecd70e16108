"""Heads over a corpus: the statistics equal those computed by hand, and ablating each head is exact."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.artifact import LoadedModel
from regard.data import collate_pairs
from regard.decoding import DecodingOptions
from regard.errors import UserError
from regard.lens import Head, HeadsTable, Interventions, Lens
from regard.lens.ablate import ablate
from regard.lens.anatomy import all_heads
from regard.lens.search import search
from regard.models import Transformer, model_sites

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
    """(accuracy, loss) over the pairs, one by one."""
    tokenizer, nll, n_right, n_tokens = loaded.tokenizers.source, 0.0, 0, 0
    for source, target in PAIRS:
        pair = (tokenizer.encode(source), tokenizer.encode(target))
        batch = collate_pairs([pair], pad_id=0, bos_id=2, eos_id=3)
        with torch.no_grad():
            log_probs = model(batch.inputs[0], batch.inputs[1])[0].double().log_softmax(-1)
        nll -= float(log_probs.gather(1, batch.targets[0][0][:, None]).sum())
        n_right += int((log_probs.argmax(-1) == batch.targets[0][0]).sum())
        n_tokens += batch.n_targets[0]
    return n_right / n_tokens, nll / n_tokens


def test_every_head_has_a_row(lens: Lens, table: HeadsTable) -> None:
    assert [row.head for row in table.heads] == all_heads(model_sites(lens.loaded.model))
    assert len(table.heads) == (2 + 2 + 2) * 4
    assert table.n_sentences == 4


def test_baseline_equals_scoring_each_pair_alone(lens: Lens, table: HeadsTable) -> None:
    accuracy, loss = teacher_forced(lens.loaded, lens.loaded.model)
    assert table.accuracy == pytest.approx(accuracy)
    assert table.loss == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_recomputing_from_the_ablated_layer_equals_the_whole_ablated_model(make_lens: LensMaker, norm: str) -> None:
    lens = make_lens(norm=norm)
    table = lens.heads(PAIRS)
    losses = set()
    for row in table.heads:
        ablated = ablate(lens.loaded.model, Interventions(heads_off=frozenset([row.head])), 1)
        accuracy, loss = teacher_forced(lens.loaded, ablated)
        assert row.accuracy_drop == pytest.approx(table.accuracy - accuracy, abs=1e-6)
        assert row.loss_rise == pytest.approx(loss - table.loss, abs=1e-4)
        losses.add(round(loss, 6))
    assert len(losses) == len(table.heads)  # each head has an effect of its own


def test_statistics_are_means_over_the_rows_of_the_weights(lens: Lens, table: HeadsTable) -> None:
    looks = [lens.look(source, target) for source, target in PAIRS]
    for row in table.heads:
        entropies, shares = [], []
        for look in looks:
            pieces = look.weights(row.head.attention, row.head.layer, "pieces")[row.head.head].astype(float)
            entropies += [-sum(w * np.log(w) for w in line if w > 0) for line in pieces]
            words = look.weights(row.head.attention, row.head.layer)[row.head.head]
            columns = look.labels(row.head.attention)[1]
            edge = 0 if row.head.attention == "decoder" else len(columns) - 1
            for i, line in enumerate(words):
                neighbours = [line[j] if 0 <= j < len(line) else 0.0 for j in (i - 1, i, i + 1)]
                shares.append([sum(abs(i - j) * w for j, w in enumerate(line)), *neighbours, line[edge]])
        assert float(row.statistics.entropy) == pytest.approx(np.mean(entropies), rel=1e-4)
        assert [float(value) for value in row.statistics[1:]] == pytest.approx(np.mean(shares, 0), rel=1e-4, abs=1e-6)


def test_json_has_baseline_and_heads(table: HeadsTable) -> None:
    record = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert record["format"] == "regard-heads/1"
    assert record["baseline"] == {"accuracy": table.accuracy, "loss": table.loss, "bleu": None}
    assert set(record["heads"][0]) == {
        *("attention", "layer", "head", "entropy", "distance", "previous", "same", "next", "end"),
        *("accuracy_drop", "loss_rise", "bleu_drop"),
    }
    assert record["heads"][0]["bleu_drop"] is None


def test_ablation_can_be_skipped(lens: Lens, table: HeadsTable) -> None:
    calls: list[tuple[int, int]] = []
    statistics_only = lens.heads(PAIRS, without=False, progress=lambda done, total: calls.append((done, total)))
    assert {(row.accuracy_drop, row.loss_rise, row.bleu_drop) for row in statistics_only.heads} == {(None, None, None)}
    assert [row.statistics for row in statistics_only.heads] == [row.statistics for row in table.heads]
    assert statistics_only.loss == table.loss
    assert calls == [(1, 1)]


def test_progress_counts_every_head_and_the_baseline(lens: Lens) -> None:
    calls: list[tuple[int, int]] = []
    lens.heads(PAIRS, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(i, 25) for i in range(1, 26)]


def test_bleu_is_measured_on_greedy_translations_without_the_head(
    make_lens: LensMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lens = make_lens(n_encoder_layers=1, n_decoder_layers=1, n_heads=2, facts={}, positions="learned", max_positions=20)
    translated: list[list[str]] = []

    def corpus_bleu(outputs: list[str], references: list[list[str]]) -> SimpleNamespace:
        assert [*references[0]] == [target for _, target in PAIRS[:3]]
        translated.append(outputs)
        return SimpleNamespace(score=100.0 - len(translated))

    monkeypatch.setattr("sacrebleu.corpus_bleu", corpus_bleu)
    table = lens.heads(PAIRS[:3], bleu=True, without=False)
    assert table.bleu == 99.0
    assert [row.bleu_drop for row in table.heads] == [1.0 + i for i in range(6)]
    assert {row.loss_rise for row in table.heads} == {None}
    expected = [greedy(lens, frozenset())] + [greedy(lens, frozenset([row.head])) for row in table.heads]
    assert translated == expected
    assert len({*map(tuple, translated)}) > 3  # otherwise the heads would have no effect


def greedy(lens: Lens, heads_off: frozenset[Head]) -> list[str]:
    """Each source alone, by the whole ablated model."""
    tokenizer = lens.loaded.tokenizers.source
    ablated = ablate(lens.loaded.model, Interventions(heads_off=heads_off), 1)
    outputs = []
    for source, _ in PAIRS[:3]:
        ids = tokenizer.encode(source)
        with torch.no_grad():
            (hypothesis,) = search(ablated, torch.tensor([[*ids, 3]]), DecodingOptions(beam=1), begin_id=2, end_id=3)
        outputs.append(tokenizer.decode(hypothesis.ids))
    return outputs


def test_blank_and_long_pairs_are_skipped_and_no_usable_pair_is_an_error(lens: Lens, table: HeadsTable) -> None:
    more = lens.heads([*PAIRS, ("", "x"), ("x", " "), ("one " * 90, "x")], without=False)
    assert (more.n_sentences, more.n_left_out, table.n_left_out) == (4, 3, 0)
    assert more.to_dict()["n_left_out"] == 3
    assert more.loss == pytest.approx(table.loss)
    with pytest.raises(UserError, match="no sentence pairs to measure heads on; hint: all 1 pairs are blank"):
        lens.heads([("", "")])

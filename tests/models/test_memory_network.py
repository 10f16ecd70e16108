"""The memory network against its equations, and what training needs of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.artifact import load_model, save_model
from regard.data import NIL, Batch, Place, Stories, StoryCollator
from regard.models import ModelSpec, named_weights
from regard.models.memory_network import MemoryNetwork, MemoryNetworkConfig, place_weights
from regard.nn import Trace
from regard.training.objectives import term_sums

SIZES = {"n_symbols": 12, "n_times": 6, "n_places": 5}
CONFIGS = [
    {"n_hops": 3, "d_model": 8},
    {"n_hops": 2, "d_model": 8, "tying": "layerwise"},
    {"n_hops": 1, "d_model": 8, "position_encoding": False},
]
STORIES = [[[1, 2, 3], [4, 5], [6, 2, 7, 8]], [[9, 2, 3]], [[1, 10, 3]] * 6, []]
Maker = Callable[..., MemoryNetwork]


@pytest.fixture(params=CONFIGS, ids=["adjacent", "layerwise", "bag of words"])
def make(request: pytest.FixtureRequest) -> Maker:
    def build(seed: int = 1, **changes: Any) -> MemoryNetwork:
        torch.manual_seed(seed)
        return MemoryNetwork(MemoryNetworkConfig(**(request.param | changes)), **SIZES)

    return build


def make_batch(place: Place = Place(), stories: list[list[list[int]]] = STORIES) -> Batch:  # noqa: B008
    n = len(stories)
    encoded = Stories.of(stories, [[11, i + 1] for i in range(n)], [i % 3 + 1 for i in range(n)], SIZES["n_places"] - 1)
    collate = StoryCollator(stories=encoded, n_symbols=SIZES["n_symbols"], memory=SIZES["n_times"])
    return collate(np.arange(n), place)


def embed(table: Tensor, words: Tensor, weighted: bool) -> Tensor:
    """The sum of the words of a sentence, with the weight of the authors' program."""
    d, n_places = table.shape[1], SIZES["n_places"]
    total = torch.zeros(d, dtype=torch.float64)
    for j, word in enumerate(words.tolist(), start=1):
        if word != NIL:
            for k in range(1, d + 1):
                weight = 1 + 4 * (k - (d + 1) / 2) * (j - (n_places + 1) / 2) / (d * n_places) if weighted else 1
                total[k - 1] += weight * table[word, k - 1]
    return total


def logits_of(model: MemoryNetwork, question: Tensor, sentences: Tensor, softmax: bool = True) -> Tensor:
    """The logits of one question, by sections 2.1 and 2.2, with a full memory of which most sentences are blank."""
    config, tables = model.config, [table.detach().double() for table in model.tables]
    adjacent, weighted = config.tying == "adjacent", config.position_encoding
    u = embed(tables[0 if adjacent else 2], question, weighted)
    blank = torch.zeros(SIZES["n_times"] - len(sentences), SIZES["n_places"], dtype=torch.int64)
    memory = torch.cat([sentences, blank])
    for hop in range(config.n_hops):
        a, c = (tables[hop], tables[hop + 1]) if adjacent else tables[:2]
        scores = torch.stack([embed(a, words, weighted) @ u for words in memory])
        p = scores.softmax(0) if softmax else scores
        read = sum(p[i] * embed(c, words, weighted) for i, words in enumerate(memory))
        u = read + (u if model.between is None else model.between.weight.detach().double() @ u)
    return tables[-1] @ u


@pytest.mark.parametrize("softmax", [True, False])
def test_it_computes_the_equations_of_the_paper(make: Maker, softmax: bool) -> None:
    model = make(linear_start=0 if softmax else 10).double().eval()
    batch = make_batch(Place(step=10))
    [term] = model.terms(batch)
    expected = [logits_of(model, q, s, softmax) for q, s in zip(*batch.inputs, strict=True)]
    torch.testing.assert_close(term.hidden @ term.weight.T, torch.stack(expected))


def test_the_linear_start_ends_after_its_steps_and_outside_training() -> None:
    torch.manual_seed(1)
    model = MemoryNetwork(MemoryNetworkConfig(linear_start=5), **SIZES)

    def answer(place: Place) -> Tensor:
        return model.terms(make_batch(place))[0].hidden

    assert not torch.allclose(answer(Place(step=5)), answer(Place(step=6)))
    assert torch.equal(answer(Place(step=6)), answer(Place()))


def test_weights_of_a_hop_sum_to_one_with_those_of_blank_sentences(make: Maker) -> None:
    trace = Trace()
    make().eval()(*make_batch().inputs, trace)
    weights = trace["weights"]  # (B, K, M)
    torch.testing.assert_close(weights[2].sum(-1), torch.ones(weights.shape[1]))  # this memory is full
    assert (weights[3] == 0).all() and (weights[1, :, 1:] == 0).all()
    assert ((weights[:2].sum(-1) > 0) & (weights[:2].sum(-1) < 1)).all()


def test_alone_equals_in_a_batch(make: Maker) -> None:
    model, batch = make().eval(), make_batch()
    together = model(*batch.inputs)
    for row, story in enumerate(STORIES):
        question, sentences = (tensor[row : row + 1] for tensor in batch.inputs)
        alone = model(question, sentences[:, : max(1, len(story))])
        torch.testing.assert_close(alone, together[row : row + 1])


def test_order_of_sentences_and_of_words_counts(make: Maker) -> None:
    model, batch = make().eval(), make_batch()
    question, sentences = batch.inputs
    turned = sentences.clone()
    turned[0, :, :-1] = sentences[0, :, :-1].flip(0)  # their times stay
    assert not torch.allclose(model(question, turned)[0], model(question, sentences)[0])
    turned = sentences.clone()
    turned[0, 0, :3] = sentences[0, 0, :3].flip(0)
    is_same = torch.allclose(model(question, turned)[0], model(question, sentences)[0], atol=1e-6)
    assert is_same is not model.config.position_encoding


def test_every_parameter_learns_and_a_batch_can_be_overfitted(make: Maker) -> None:
    model, batch = make().train(), make_batch(Place(step=1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for step in range(300):
        optimizer.zero_grad()
        [sums] = term_sums(model, batch)
        (sums.loss / sums.n_targets).backward()
        if step == 0:
            assert all(p.grad is not None and bool(p.grad.any()) for p in model.parameters())
        optimizer.step()
    assert sums.loss.item() / sums.n_targets < 0.05


def test_weights_depend_on_the_seed_only(make: Maker) -> None:
    first, again, other = (named_weights(make(seed)) for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_a_reloaded_model_gives_equal_logits(make: Maker, tmp_path: Path) -> None:
    model = make().eval()
    spec = ModelSpec("answering", "memory-network", model.config, SIZES)
    save_model(tmp_path / "m", spec=spec, weights=named_weights(model), assets={}, facts={}, card="# A model\n")
    assert torch.equal(load_model(tmp_path / "m").model(*make_batch().inputs), model(*make_batch().inputs))


def test_cost_is_what_pytorch_counts(make: Maker) -> None:
    model = make().eval()
    question, sentences = make_batch(stories=[STORIES[0]]).inputs
    with FlopCounterMode(display=False) as counter:
        model(question, sentences)
    cost = model.cost(sentences.shape[1])
    assert (cost.flops, cost.sequential) == (counter.get_total_flops(), model.config.n_hops)


def test_tracing_changes_nothing(make: Maker) -> None:
    model, batch, trace = make().eval(), make_batch(), Trace()
    assert torch.equal(model(*batch.inputs, trace), model(*batch.inputs))
    assert {site.kind for site in trace.sites()} == {"hops", "memory", "state", "logits"}


def test_weights_of_places_are_symmetric_about_one() -> None:
    base, slope = place_weights(7, 20).double().unbind(1)
    weights = base[:, None] + slope[:, None] * torch.arange(1, 8)
    torch.testing.assert_close(weights, 2 - weights.flip(1), rtol=0, atol=1e-6)
    assert (round(float(weights.min()), 2), round(float(weights.max()), 2)) == (0.19, 1.81)

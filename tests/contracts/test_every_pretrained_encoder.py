"""What pre-training, filling blanks and fine-tuning need of every architecture that learns from plain text."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.data import NO_TARGET, Batch, MaskedTexts, Passages, Place
from regard.errors import ArtifactError
from regard.models import ARCHITECTURES, ModelSpec, PretrainingModel, load_weights, named_weights
from regard.nn import Trace
from regard.training.objectives import TermSums, term_sums

from .conftest import PAD_ID, PRETRAINED, VOCAB

Entry = tuple[str, dict[str, Any]]
Maker = Callable[..., PretrainingModel]
CLOSE = {"atol": 2e-5, "rtol": 1e-4}
MASK_ID = VOCAB - 1
SIZES = {"n_symbols": VOCAB, "n_segments": 2, "pad_id": PAD_ID}


@pytest.fixture
def make(entry: Entry) -> Maker:
    def build(seed: int = 1, task: str = "pretraining", n_symbols: int = VOCAB, **changes: Any) -> Any:
        torch.manual_seed(seed)
        config = ARCHITECTURES[entry[0]].config(**(entry[1] | changes))
        sizes = SIZES | {"n_symbols": n_symbols} | ({} if task == "pretraining" else {"n_classes": 3})
        return ModelSpec(task, entry[0], config, sizes).build()

    return build


def make_batch(model: Any, n: int = 6, seed: int = 1) -> Batch:
    """Passages of different lengths, with hidden words."""
    rng = np.random.default_rng(seed)
    documents = [[rng.integers(4, MASK_ID, length).astype(np.int32) for length in (3, 4, 2 + i, 5)] for i in range(n)]
    collate = MaskedTexts(
        passages=Passages.of(documents, 12),
        masking=model.config.masking,
        asks=model.config.asks,
        n_symbols=VOCAB,
        pad_id=PAD_ID,
        bos_id=2,
        eos_id=3,
        mask_id=MASK_ID,
        n_before=model.config.n_before,
    )
    return collate(np.arange(n), Place(seed=seed, step=1))


def sums_of(model: Any, batch: Batch) -> list[TermSums]:
    sums = term_sums(model, batch)
    assert tuple(each.n_targets for each in sums) == batch.n_targets
    return sums


def loss_of(model: Any, batch: Batch) -> Tensor:
    """Every term divided by its targets."""
    return torch.stack([sums.scale * sums.loss / max(1, sums.n_targets) for sums in sums_of(model, batch)]).sum()


def test_every_architecture_that_is_pretrained_has_configs_to_test() -> None:
    assert PRETRAINED.keys() == {name for name, entry in ARCHITECTURES.items() if "pretraining" in entry.models}
    assert all(PRETRAINED.values())


def test_terms_are_the_questions_that_the_config_asks(make: Maker) -> None:
    model: Any = make()
    assert [sums.name for sums in sums_of(model, make_batch(model))] == list(model.config.asks)


def test_parts_of_a_batch_have_the_loss_of_the_whole(make: Maker) -> None:
    """So padding, and what else is in a batch, change nothing."""
    model = make().eval()
    batch = make_batch(model)
    whole = sums_of(model, batch)
    rows = [term_sums(model, batch.rows(slice(i, i + 1))) for i in range(len(batch.indices))]
    for number, sums in enumerate(whole):
        torch.testing.assert_close(sums.loss, torch.stack([row[number].loss for row in rows]).sum(), **CLOSE)
        assert sums.n_targets == sum(row[number].n_targets for row in rows)


def test_a_text_alone_is_read_as_in_a_batch(make: Maker) -> None:
    model = make().eval()
    ids, segments = make_batch(model).inputs[:2]
    blanks = torch.zeros_like(ids, dtype=torch.bool)
    blanks[:, 1] = blanks[:, 2] = True
    together = model.read(ids, segments, blanks)
    for row in range(len(ids)):
        real = ids[row] != PAD_ID
        alone = model.read(ids[row : row + 1, real], segments[row : row + 1, real], blanks[row : row + 1, real])
        if together.words is not None and alone.words is not None:
            torch.testing.assert_close(together.words[2 * row : 2 * row + 2], alone.words, **CLOSE)
        if together.next is not None and alone.next is not None:
            torch.testing.assert_close(together.next[row], alone.next[0], **CLOSE)
        if together.replaced is not None and alone.replaced is not None:
            torch.testing.assert_close(together.replaced[row, real], alone.replaced[0], **CLOSE)


def test_a_prediction_does_not_depend_on_the_hidden_words(make: Maker) -> None:
    """Other answers change the loss, and not the inputs of the softmax that they are compared with."""
    model = make().eval()
    batch = make_batch(model)
    words = batch.targets[0]
    others = torch.where(words == NO_TARGET, words, 4 + (words - 3) % (MASK_ID - 4))
    ids = batch.inputs[0]
    unchanged = torch.where((words != NO_TARGET) & (ids == words), MASK_ID, ids)  # those that are asked in plain sight
    batch = replace(batch, inputs=(unchanged, *batch.inputs[1:]))
    changed = replace(batch, targets=(others, *batch.targets[1:]))
    term, other = model.terms(batch)[0], model.terms(changed)[0]
    assert term.name == "words" and not torch.equal(term.targets, other.targets)
    torch.testing.assert_close(term.hidden, other.hidden, atol=0, rtol=0)


def test_tracing_changes_nothing_and_shows_the_embeddings_once(make: Maker) -> None:
    model, trace = make().eval(), Trace()
    batch = make_batch(model)
    for term, traced in zip(model.terms(batch), model.terms(batch, trace), strict=True):
        torch.testing.assert_close(term.hidden, traced.hidden, **CLOSE)
    assert [site.axes for site in trace.sites("embedding")] == [("source", "unit")]
    assert any(site.axes[:2] == ("head", "source") for site in trace.sites("attention"))


def train(model: PretrainingModel, batch: Batch, steps: int) -> float:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
    return loss.item()


def test_training_is_deterministic_for_a_seed(make: Maker) -> None:
    trained = []
    for _ in range(2):
        model = make(seed=5, dropout=0.2).train()
        train(model, make_batch(model), steps=3)
        trained.append(named_weights(model))
    assert all(torch.equal(trained[0][name], trained[1][name]) for name in trained[0])
    other = named_weights(make(seed=6))
    assert not all(torch.equal(trained[0][name], other[name]) for name in other)


def test_one_batch_can_be_overfitted(make: Maker) -> None:
    model = make().train()
    batch = make_batch(model)
    train(model, batch, steps=120)
    for sums in sums_of(model.eval(), batch):
        assert int(sums.n_correct) == sums.n_targets, sums.name


def test_every_parameter_gets_a_gradient(make: Maker) -> None:
    model = make().train()
    loss_of(model, make_batch(model)).backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())] == []


def test_a_classifier_takes_over_every_weight_of_the_encoder(make: Maker) -> None:
    """Only what the classifier declares as its own is new; a missing weight is refused by name."""
    parent, classifier = make(1), make(2, task="classification")
    new = named_weights(classifier)
    given = named_weights(parent)
    load_weights(classifier, given, except_for=classifier.own_parts)
    taken = [name for name in new if not name.startswith(tuple(f"{part}." for part in classifier.own_parts))]
    assert taken and all(torch.equal(named_weights(classifier)[name], given[name]) for name in taken)
    lacking = {name: tensor for name, tensor in given.items() if name != taken[-1]}
    with pytest.raises(ArtifactError, match=taken[-1]):
        load_weights(classifier, lacking, except_for=classifier.own_parts)


def test_flops_are_those_that_are_counted(make: Maker) -> None:
    """Of one passage, with as many words that are asked for as is usual, and all of the text before."""
    model: Any = make().eval()
    batch = make_batch(model, n=12)
    ids, asked = batch.inputs[0], batch.targets[0] != NO_TARGET
    lengths = (ids != PAD_ID).sum(1)
    is_usual = asked.sum(1) == torch.clamp((model.config.masking.share * lengths).round(), min=1)
    for context in batch.inputs[3:]:
        is_usual &= (context != PAD_ID).all(1)
    row = int(is_usual.int().argmax())
    assert is_usual[row]
    batch = batch.rows(slice(row, row + 1))
    length = int(lengths[row])
    of_words = tuple(each[:, :length] for each in batch.inputs[:3])
    batch = replace(batch, inputs=of_words + batch.inputs[3:])
    batch = replace(batch, targets=(batch.targets[0][:, :length], *batch.targets[1:]))
    with FlopCounterMode(display=False) as counter:
        for term in model.terms(batch):
            torch.nn.functional.linear(term.hidden, term.weight)
    assert model.cost(length).flops == pytest.approx(counter.get_total_flops(), rel=0.1)

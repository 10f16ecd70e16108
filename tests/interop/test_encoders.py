"""The encoders compute the same as those of transformers, with the same random weights."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.data import NO_TARGET, Batch, Place
from regard.interop.encoders.names import bert_weights, electra_weights, generator_weights
from regard.models import load_weights
from regard.models.bert import Bert, BertConfig
from regard.models.electra import Electra, ElectraConfig
from regard.training.objectives import term_sums

transformers = pytest.importorskip("transformers")

VOCAB, LENGTHS = 61, (9, 5, 12)
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "pad_token_id": 0,
}
OUR_SIZES: dict[str, Any] = {"n_layers": 2, "d_model": 32, "d_ff": 48, "n_heads": 4, "dropout": 0.0}
CLOSE = {"atol": 1e-4, "rtol": 1e-4}


def padded_batch() -> dict[str, Tensor]:
    """Rows of different lengths: ids, segments, which are real, and the words to predict."""
    generator = torch.Generator().manual_seed(1)
    real = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    ids = torch.randint(4, VOCAB, real.shape, generator=generator).where(real, 0)
    segments = ((torch.arange(real.shape[1]) > 3) & real).long()
    asked = (torch.rand(real.shape, generator=generator) < 0.4) & real
    words = torch.randint(4, VOCAB, real.shape, generator=generator).where(asked, NO_TARGET)
    return {"ids": ids, "segments": segments, "real": real, "words": words, "next": torch.tensor([0, 1, 1])}


def randomise(model: nn.Module) -> None:
    """Also norms and biases, which are 1 and 0 in a new model."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))


def batch_of(data: dict[str, Tensor], targets: tuple[Tensor, ...]) -> Batch:
    draws = torch.full(data["ids"].shape, -1.0)
    counts = tuple(int((target != NO_TARGET).sum()) for target in targets)
    return Batch((data["ids"], data["segments"], draws), targets, counts, Place(), np.arange(3))


def mean_loss(model: Any, batch: Batch) -> Tensor:
    """The sum over the terms of their mean loss per target."""
    return torch.stack([sums.scale * sums.loss / sums.n_targets for sums in term_sums(model, batch)]).sum()


def require_equal_gradients(ours: nn.Module, loss: Tensor, theirs: nn.Module, their_loss: Tensor, rename: Any) -> None:
    """Of all parameters, after both have computed them."""
    loss.backward()
    their_loss.backward()
    expected = rename({name: p.grad for name, p in theirs.named_parameters() if p.grad is not None})
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(
            parameter.grad, expected[name], **CLOSE, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("epsilon", [1e-5, 1e-12])
def test_bert_has_the_logits_and_gradients_of_transformers(epsilon: float) -> None:
    theirs = transformers.BertForPreTraining(transformers.BertConfig(**SIZES, layer_norm_eps=epsilon))
    randomise(theirs)
    ours = Bert(BertConfig(**OUR_SIZES, max_positions=40, norm_epsilon=epsilon), VOCAB)
    load_weights(ours, bert_weights(theirs.state_dict()))
    data = padded_batch()
    out = theirs(
        input_ids=data["ids"],
        token_type_ids=data["segments"],
        attention_mask=data["real"].long(),
        labels=data["words"],
        next_sentence_label=data["next"],
    )
    reading = ours.read(data["ids"], data["segments"], data["real"])
    torch.testing.assert_close(reading.words, out.prediction_logits[data["real"]], **CLOSE)
    torch.testing.assert_close(reading.next, out.seq_relationship_logits.softmax(-1)[:, 0], **CLOSE)
    loss = mean_loss(ours, batch_of(data, (data["words"], data["next"])))
    torch.testing.assert_close(loss, out.loss, **CLOSE)
    require_equal_gradients(ours, loss, theirs, out.loss, bert_weights)


@pytest.mark.parametrize("d_embedding", [32, 16])
def test_electra_has_the_logits_and_gradients_of_transformers(d_embedding: int) -> None:
    config = transformers.ElectraConfig(**SIZES, embedding_size=d_embedding, layer_norm_eps=1e-5)
    theirs = transformers.ElectraForPreTraining(config)
    randomise(theirs)
    sizes = OUR_SIZES | {"d_embedding": d_embedding, "max_positions": 40}
    ours = Electra(ElectraConfig(**sizes, generator=0), VOCAB)
    load_weights(ours, electra_weights(theirs.state_dict()))
    data = padded_batch()
    given = {"input_ids": data["ids"], "token_type_ids": data["segments"], "attention_mask": data["real"].long()}
    out = theirs(**given, labels=data["words"].ne(NO_TARGET).long())
    reading = ours.read(data["ids"], data["segments"], torch.zeros_like(data["real"]))
    assert reading.replaced is not None
    torch.testing.assert_close(reading.replaced[data["real"]], out.logits.sigmoid()[data["real"]], **CLOSE)
    is_replaced = data["words"].ne(NO_TARGET)[data["real"]].double()
    loss = torch.nn.functional.binary_cross_entropy(reading.replaced[data["real"]].double(), is_replaced)
    torch.testing.assert_close(loss.float(), out.loss, **CLOSE)
    require_equal_gradients(ours, loss, theirs, out.loss, electra_weights)


def test_electras_generator_has_the_logits_and_gradients_of_transformers() -> None:
    config = transformers.ElectraConfig(**SIZES, embedding_size=16, layer_norm_eps=1e-5)
    theirs = transformers.ElectraForMaskedLM(config)
    randomise(theirs)
    ours = Bert(BertConfig(**OUR_SIZES, d_embedding=16, max_positions=40, next_sentence=False), VOCAB)
    load_weights(ours, generator_weights(theirs.state_dict()))
    data = padded_batch()
    given = {"input_ids": data["ids"], "token_type_ids": data["segments"], "attention_mask": data["real"].long()}
    out = theirs(**given, labels=data["words"])
    reading = ours.read(data["ids"], data["segments"], data["real"])
    torch.testing.assert_close(reading.words, out.logits[data["real"]], **CLOSE)
    loss = mean_loss(ours, batch_of(data, (data["words"],)))
    torch.testing.assert_close(loss, out.loss, **CLOSE)
    require_equal_gradients(ours, loss, theirs, out.loss, generator_weights)


def test_the_generator_inside_electra_is_such_a_bert() -> None:
    """With the same weights, both have the same loss of hidden words."""
    data = padded_batch()
    electra = Electra(ElectraConfig(**OUR_SIZES, d_embedding=16, max_positions=40, generator=0.5), VOCAB)
    sizes = OUR_SIZES | {"d_model": 16, "d_ff": 24, "n_heads": 2}
    bert = Bert(BertConfig(**sizes, d_embedding=16, max_positions=40, next_sentence=False), VOCAB)
    assert electra.generator is not None
    bert.bert.embedding, bert.bert.encoder = electra.electra.embedding, electra.generator.encoder
    bert.words = electra.generator.words
    batch = batch_of(data, (data["words"],))
    words, replaced = term_sums(electra, batch)
    [alone] = term_sums(bert, batch)
    torch.testing.assert_close(words.loss, alone.loss, **CLOSE)
    assert (replaced.n_targets, replaced.scale) == (sum(LENGTHS), 50.0)

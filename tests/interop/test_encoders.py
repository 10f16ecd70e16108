"""The encoders compute the same as those of transformers, with the same random weights."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.data import NO_TARGET, Batch, Place
from regard.interop.encoders import bert_weights
from regard.models import load_weights
from regard.models.bert import Bert, BertConfig
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
    loss.backward()
    out.loss.backward()
    gradients = bert_weights({name: p.grad for name, p in theirs.named_parameters() if p.grad is not None})
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(
            parameter.grad, gradients[name], **CLOSE, msg=lambda text, name=name: f"{name}: {text}"
        )

"""What a word depends on in XLNet, and the equations of the two streams, one query at a time."""

import math
from random import Random

import pytest
import torch
from torch.nn import functional as F

from regard.models.xlnet import XLNet, XLNetClassifier, XLNetConfig
from regard.nn import Trace

VOCAB, PAD, BOS, EOS = 23, 0, 2, 3
SIZES = {"n_layers": 3, "d_model": 24, "d_ff": 32, "n_heads": 3, "dropout": 0.0}


@pytest.fixture
def model() -> XLNet:
    torch.manual_seed(1)
    xlnet = XLNet(XLNetConfig(**SIZES), VOCAB, pad_id=PAD).double().eval()
    with torch.no_grad():
        for parameter in xlnet.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return xlnet


@pytest.mark.parametrize("seed", range(6))
def test_a_word_depends_only_on_those_before_it_in_the_order(model: XLNet, seed: int) -> None:
    """The gradient with respect to itself, and to all that its order hides, is exactly 0; to the others it is not."""
    rng = Random(seed)
    n = rng.randrange(5, 11)
    order = torch.full((1, n), -1.0)
    drawn = sorted(rng.sample(range(n), n if seed == 0 else rng.randrange(2, n)))
    order[0, drawn] = torch.tensor([rng.random() for _ in drawn])
    given = [i for i in range(n) if i not in drawn]
    ids = torch.tensor([[BOS, *(rng.randrange(5, VOCAB) for _ in range(n - 2)), EOS]])
    segments = (torch.arange(n) > n // 2).long()[None]
    trace = Trace(gradient=True)
    asked = (order >= 0) & (ids != BOS)  # as in training, bos is not asked for
    logits = model.read_in_order(ids, segments, order, asked, trace)
    as_read = [*range(1, n), 0]  # bos is behind the text
    for row, i in enumerate(i for i in drawn if i > 0):
        [gradient] = torch.autograd.grad(logits[row].square().sum(), trace["xlnet.words.embedding"], retain_graph=True)
        for column, j in enumerate(as_read):
            is_seen = j != i and (j in given or bool(order[0, j] < order[0, i]) or (not given and j == 0))
            assert bool(gradient[0, column].any()) == is_seen, (i, j)


def test_the_words_that_are_given_see_only_each_other(model: XLNet) -> None:
    """Other drawn words change nothing of what a first word is predicted from."""
    ids = torch.tensor([[BOS, 7, 8, 9, 10, EOS]])
    order = torch.tensor([[0.9, -1, 0.1, 0.5, -1, 0.7]]).double()
    asked = torch.tensor([[False, False, True, False, False, False]])
    segments = torch.zeros_like(ids)
    others = ids.clone()
    others[0, 3] = 20
    first = model.read_in_order(ids, segments, order, asked)
    assert torch.equal(first, model.read_in_order(others, segments, order, asked))
    others[0, 4] = 20
    assert not torch.equal(first, model.read_in_order(others, segments, order, asked))


def test_memory_is_seen_and_gets_no_gradient(model: XLNet) -> None:
    ids, segments = torch.tensor([[BOS, 7, 8, 9, EOS]]), torch.zeros(1, 5, dtype=torch.long)
    asked = torch.tensor([[False, True, False, True, False]])
    order = asked.double() - 1
    given = {"ids": ids, "segments": segments, "order": order, "asked": asked, "query": model.query}
    contexts = [torch.tensor([row]) for row in ([PAD, PAD, PAD], [PAD, 11, 12], [13, 11, 12])]
    outputs = [model.xlnet.predict(**given, context=context) for context in contexts]
    without = model.xlnet.predict(**given, context=ids[:, :0])
    torch.testing.assert_close(outputs[0], without, atol=0, rtol=0)
    assert not torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[1], outputs[2])
    together = model.xlnet.predict(
        **{name: value if name == "query" else value.expand(3, -1) for name, value in given.items()},
        context=torch.cat(contexts),
    )
    torch.testing.assert_close(together, torch.cat(outputs), atol=1e-12, rtol=1e-12)
    loss = outputs[2].square().sum()
    weight = model.xlnet.weight
    [gradient] = torch.autograd.grad(loss, weight)
    assert not gradient[[11, 12, 13]].any() and bool(gradient[8].any())


def test_bos_is_last_whatever_is_behind_the_text() -> None:
    torch.manual_seed(2)
    classifier = XLNetClassifier(XLNetConfig(**SIZES), VOCAB, n_classes=2, pad_id=PAD).eval()
    alone = torch.tensor([[BOS, 7, 8, EOS]])
    padded = torch.tensor([[BOS, 7, 8, EOS, PAD, PAD]])
    torch.testing.assert_close(
        classifier(alone, torch.zeros_like(alone)), classifier(padded, torch.zeros_like(padded)), atol=1e-6, rtol=1e-6
    )


def test_the_query_stream_is_the_definition(model: XLNet) -> None:
    """Equation 5 of section 2.3 with relative positions and segments, for one word of one layer, in plain loops."""
    layer, h, k = model.xlnet.stack[0], 3, 8
    ids, order = torch.tensor([[BOS, 7, 8, 9, EOS]]), torch.tensor([[-1, 0.5, 0.1, 0.9, -1.0]])
    read = [7, 8, 9, EOS, BOS]  # as the model reads them
    places = [0.5, 0.1, 0.9, -1, -1]
    segments = [0, 0, 0, 0, 2]
    x, g = model.xlnet.weight[read], model.query
    attention, i = layer.self_attention, 0
    w_q, w_k, w_v = (w.view(h, k, -1) for w in attention.qkv.weight.split(h * k))
    w_r = attention.distance.weight.view(h, k, -1)
    heads = []
    for head in range(h):
        q, scores = w_q[head] @ g, []
        for j in range(5):
            angle = (i - j) / 10_000 ** (torch.arange(0, h * k, 2, dtype=torch.float64) / (h * k))
            wave = torch.cat([angle.sin(), angle.cos()])
            kind = layer.segments[int(segments[i] != segments[j]), head]
            score = (q + attention.biases.u[head]) @ w_k[head] @ x[j]
            score = score + (q + attention.biases.v[head]) @ w_r[head] @ wave
            score = score + (q + layer.segment_bias[head]) @ kind
            scores.append(score / math.sqrt(k) if places[j] < places[i] else torch.tensor(-math.inf).double())
        heads.append(torch.stack(scores).softmax(0) @ (x @ w_v[head].T))
    y = layer.residuals[0].norm(g + attention.out.weight @ torch.cat(heads))
    inner = F.gelu(layer.feed_forward.inner.weight @ y + layer.feed_forward.inner.bias)
    expected = layer.residuals[1].norm(y + layer.feed_forward.outer.weight @ inner + layer.feed_forward.outer.bias)
    config = XLNetConfig(**SIZES | {"n_layers": 1})
    shallow = XLNet(config, VOCAB, pad_id=PAD).double().eval()
    shallow.load_state_dict({name: v for name, v in model.state_dict().items() if name in shallow.state_dict()})
    asked = torch.tensor([[False, True, False, False, False]])
    out = shallow.xlnet.predict(ids, torch.zeros_like(ids), order, asked, ids[:, :0], shallow.query)
    torch.testing.assert_close(out[0], expected, atol=1e-7, rtol=1e-7)

"""Attention with relative positions against its definition, one score at a time."""

import pytest
import torch
from torch import Tensor

from regard.nn import Distances, RelativeAttention, ScoreBiases, Trace, causal_visible
from regard.nn.relative import by_key

D, H, K = 12, 3, 4


@pytest.fixture
def attention() -> RelativeAttention:
    torch.manual_seed(1)
    module = RelativeAttention(D, H).double()
    for bias in (module.biases.u, module.biases.v):
        torch.nn.init.normal_(bias)
    return module


def wave(distance: int) -> Tensor:
    """(D,): sines, then cosines."""
    angle = distance / 10_000 ** (torch.arange(0, D, 2, dtype=torch.float64) / D)
    return torch.cat([angle.sin(), angle.cos()])


def by_definition(module: RelativeAttention, x: Tensor, keys: Tensor, visible: Tensor, extra: Tensor) -> Tensor:
    """(T, D), (S, D), (T, S), (H, T, S) → (T, D): equation 5 of the paper."""
    n_queries, n_keys = len(x), len(keys)
    w_q, w_k, w_v = (w.view(H, K, D) for w in module.qkv.weight.split(D))
    w_r = module.distance.weight.view(H, K, D)
    heads = []
    for h in range(H):
        u, v, rows = module.biases.u[h], module.biases.v[h], []
        for i in range(n_queries):
            scores = []
            for j in range(n_keys):
                distance = wave(n_keys - n_queries + i - j)
                q = w_q[h] @ x[i]
                score = (q + u) @ (w_k[h] @ keys[j]) + (q + v) @ (w_r[h] @ distance) + extra[h, i, j]
                scores.append(score / K**0.5 if visible[i, j] else torch.tensor(float("-inf")).double())
            rows.append(torch.stack(scores).softmax(0) @ (keys @ w_v[h].T))
        heads.append(torch.stack(rows))
    return torch.cat(heads, dim=-1) @ module.out.weight.T


@pytest.mark.parametrize("n_memory", [0, 1, 5])
@pytest.mark.parametrize("n_queries", [1, 2, 7])
@pytest.mark.parametrize("both_directions", [False, True])
def test_it_is_the_definition(
    attention: RelativeAttention, n_queries: int, n_memory: int, both_directions: bool
) -> None:
    n_keys = n_memory + n_queries
    rng = torch.Generator().manual_seed(2)
    contents, queries = torch.randn(2, 2, n_keys, D, generator=rng, dtype=torch.float64)
    x, extra = queries[:, n_memory:], torch.randn(2, H, n_queries, n_keys, generator=rng, dtype=torch.float64)
    visible = causal_visible(n_queries, n_keys)
    if both_directions:  # any mask
        visible = (torch.rand(n_queries, n_keys, generator=rng) < 0.5) | (torch.arange(n_keys) == 0)
    last = -n_queries if both_directions else -1
    encoded = attention.encode(torch.stack([wave(d) for d in range(n_keys - 1, last - 1, -1)]))
    out = attention.attend(attention.queries(x), attention.keys_values(contents), encoded, visible, extra)
    for row in range(2):
        expected = by_definition(attention, x[row], contents[row], visible, extra[row])
        torch.testing.assert_close(out[row], expected, atol=1e-12, rtol=1e-12)


def test_queries_anywhere_are_scored_as_in_the_whole_row(attention: RelativeAttention) -> None:
    n_memory, n_queries = 3, 6
    n_keys = n_memory + n_queries
    rng = torch.Generator().manual_seed(4)
    contents, x = torch.randn(2, 2, n_keys, D, generator=rng, dtype=torch.float64)
    kv, q = attention.keys_values(contents), attention.queries(x[:, n_memory:])
    encoded = attention.encode(torch.stack([wave(d) for d in range(n_keys - 1, -n_queries - 1, -1)]))
    whole = attention.attend(q, kv, encoded)
    positions = torch.tensor([[4, 0, 5], [1, 1, 3]])
    rows = torch.arange(2)[:, None]
    chosen = q.transpose(1, 2)[rows, positions].transpose(1, 2)
    some = attention.attend(chosen, kv, encoded, positions=positions)
    torch.testing.assert_close(some, whole[rows, positions], atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(("n_queries", "n_keys"), [(1, 1), (3, 5), (4, 700), (700, 700)])
def test_distances_go_from_the_farthest_key_to_the_farthest_after_the_query(n_queries: int, n_keys: int) -> None:
    distances = Distances(D)
    for both, last in ((False, -1), (True, -n_queries)):
        expected = torch.stack([wave(d) for d in range(n_keys - 1, last - 1, -1)]).float()
        torch.testing.assert_close(distances(n_queries, n_keys, both), expected, atol=1e-6, rtol=0)
    assert distances.state_dict() == {}


def test_the_shift_copies_nothing_and_passes_every_gradient_to_its_score() -> None:
    scores = torch.arange(4.0 * 9, requires_grad=True).view(4, 9)  # S = 5: distances 4 … -4
    shifted = by_key(scores, 5)
    for i in range(4):
        for j in range(5):
            assert shifted[i, j] == scores[i, 4 - (1 + i - j)]
    assert shifted.data_ptr() == scores[0, 3].data_ptr()
    [gradient] = torch.autograd.grad(shifted[2, 0], scores)
    assert gradient.nonzero().tolist() == [[2, 1]]


def test_scores_depend_on_distances_and_not_on_places(attention: RelativeAttention) -> None:
    """The last queries give the same, whatever number of invisible keys comes before."""
    contents = torch.randn(1, 9, D, dtype=torch.float64)
    distances, outputs = Distances(D).double(), []
    for n_keys in (5, 9):
        q, kv = attention.queries(contents[:, -3:]), attention.keys_values(contents[:, -n_keys:])
        visible = causal_visible(3, n_keys) & (torch.arange(n_keys) >= n_keys - 5)
        outputs.append(attention.attend(q, kv, attention.encode(distances(3, n_keys)), visible))
    torch.testing.assert_close(outputs[0], outputs[1], atol=1e-12, rtol=1e-12)


def test_a_trace_has_the_four_terms_of_every_score_and_changes_nothing(attention: RelativeAttention) -> None:
    contents, visible, trace = torch.randn(2, 6, D, dtype=torch.float64), causal_visible(4, 6), Trace()
    q, kv = attention.queries(contents[:, 2:]), attention.keys_values(contents)
    encoded = attention.encode(Distances(D).double()(4, 6))
    view = trace.at("attention", ("target", "context"))
    traced = attention.attend(q, kv, encoded, visible, trace=view)
    assert torch.equal(traced, attention.attend(q, kv, encoded, visible))
    names = ("content_query", "position_query", "content_bias", "position_bias")
    total = sum(trace[f"attention.{name}"] for name in names)
    torch.testing.assert_close(total, trace["attention.scaled"], atol=1e-12, rtol=1e-12)
    weights = trace["attention.weights"]
    torch.testing.assert_close(weights, total.masked_fill(~visible, float("-inf")).softmax(-1), atol=1e-12, rtol=1e-12)
    assert torch.equal(trace["attention.visible"][0, 0], visible)
    assert trace.sites("attention")[0].axes == ("head", "target", "context")


def test_layers_can_share_their_biases() -> None:
    biases = ScoreBiases(H, K)
    layers = torch.nn.ModuleList(RelativeAttention(D, H, biases) for _ in range(2))
    assert sum(name.endswith((".u", ".v")) for name, _ in layers.named_parameters()) == 2
    assert len(list(RelativeAttention(D, H).parameters())) == 5
    with pytest.raises(ValueError, match="multiple of n_heads"):
        RelativeAttention(10, 3)

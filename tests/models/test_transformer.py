"""The whole model of section 3: masks, positions, decoding state, shared weights, sizes."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from regard.models import PRESETS, Transformer, TransformerConfig

Maker = Callable[..., Transformer]
VARIANTS = [
    {},
    {"norm": "pre"},
    {"positions": "learned", "max_positions": 12},
    {"attention": "dot_product"},
    {"attention": "additive"},
    {"activation": "swiglu", "tie": "none"},
]
CLOSE = {"atol": 2e-5, "rtol": 1e-4}
variants = pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(map(str, v.values())) or "paper")


@variants
def test_padding_never_changes_an_output(make_model: Maker, src: Tensor, tgt: Tensor, variant: dict) -> None:
    model = make_model(**variant)
    together = model(src, tgt)
    for row in range(len(src)):
        n_src, n_tgt = int((src[row] != 0).sum()), int((tgt[row] != 0).sum())
        alone = model(src[row : row + 1, :n_src], tgt[row : row + 1, :n_tgt])
        torch.testing.assert_close(together[row : row + 1, :n_tgt], alone, **CLOSE)
        wider = torch.nn.functional.pad(src[row : row + 1, :n_src], (0, 5))
        torch.testing.assert_close(model(wider, tgt[row : row + 1, :n_tgt]), alone, **CLOSE)


@variants
def test_an_encoded_source_can_be_decoded_several_times(
    make_model: Maker, src: Tensor, tgt: Tensor, variant: dict
) -> None:
    model = make_model(**variant)
    memory = model.encode(src)
    for target in (tgt, tgt[:, :3]):
        assert torch.equal(model.decode(memory, target), model.features(src, target))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(VARIANTS) - 1), st.integers(0, 4), st.integers(0, 1000))
def test_future_tokens_cannot_be_seen(make_model: Maker, variant: int, t: int, seed: int) -> None:
    model, generator = make_model(**VARIANTS[variant]), torch.Generator().manual_seed(seed)
    src, tgt = (torch.randint(1, 23, (2, n), generator=generator) for n in (5, 6))
    changed = tgt.clone()
    changed[:, t + 1 :] = torch.randint(1, 23, (2, 5 - t), generator=generator)
    before, after = model(src, tgt), model(src, changed)
    assert torch.equal(before[:, : t + 1], after[:, : t + 1])
    if not torch.equal(tgt[:, t + 1], changed[:, t + 1]):
        assert not torch.equal(before[:, t + 1], after[:, t + 1])


def test_every_output_depends_on_every_source_token_and_on_their_order(make_model: Maker) -> None:
    model, src, tgt = make_model(), torch.tensor([[3, 8, 5, 9]]), torch.tensor([[1, 2, 3]])
    out = model(src, tgt)
    for position in range(4):
        changed = src.clone()
        changed[0, position] = 20
        assert bool(((model(changed, tgt) - out).abs().amax(-1) > 1e-4).all())
    assert not torch.allclose(model(src.flip(1), tgt), out, atol=1e-3)


def test_without_positions_the_order_of_the_source_does_not_matter(make_model: Maker) -> None:
    model, src, tgt = make_model(), torch.tensor([[3, 8, 5, 9]]), torch.tensor([[1, 2, 3]])
    model.source.positions.table.zero_()
    torch.testing.assert_close(model(src.flip(1), tgt), model(src, tgt), **CLOSE)


def test_a_text_longer_than_the_position_table_works(make_model: Maker) -> None:
    model = make_model(n_encoder_layers=1, n_decoder_layers=1)
    src, tgt = (torch.randint(1, 23, (1, n)) for n in (600, 530))
    out = model(src, tgt)
    assert out.shape == (1, 530, 23)
    torch.testing.assert_close(make_model(n_encoder_layers=1, n_decoder_layers=1)(src, tgt[:, :9]), out[:, :9], **CLOSE)


def test_a_text_longer_than_the_learned_positions_raises_value_error(make_model: Maker) -> None:
    model = make_model(positions="learned", max_positions=5)
    with pytest.raises(ValueError, match="model learned 5"):
        model(torch.ones(1, 6, dtype=torch.long), torch.ones(1, 2, dtype=torch.long))


def test_state_select_reorders_repeats_and_drops_rows(make_model: Maker, src: Tensor, tgt: Tensor) -> None:
    model, rows = make_model(), torch.tensor([2, 0, 0, 2])
    state, reordered = model.start(model.encode(src)), model.start(model.encode(src[rows]))
    for t in range(3):
        _, state = model.step(tgt[:, t], state)
        _, reordered = model.step(tgt[rows, t], reordered)
    log_probs, _ = model.step(tgt[rows, 3], state.select(rows))
    expected, _ = model.step(tgt[rows, 3], reordered)
    torch.testing.assert_close(log_probs, expected, **CLOSE)


def test_memory_select_reorders_and_repeats_rows(make_model: Maker, src: Tensor, tgt: Tensor) -> None:
    model, rows = make_model(), torch.tensor([1, 1, 0])
    log_probs, _ = model.step(tgt[rows, 0], model.start(model.encode(src).select(rows)))
    expected, _ = model.step(tgt[rows, 0], model.start(model.encode(src[rows])))
    torch.testing.assert_close(log_probs, expected, **CLOSE)


def test_a_step_does_not_change_the_given_state(make_model: Maker, src: Tensor, tgt: Tensor) -> None:
    model = make_model()
    _, state = model.step(tgt[:, 0], model.start(model.encode(src)))
    first, _ = model.step(tgt[:, 1], state)
    model.step(tgt[:, 2], state)
    again, _ = model.step(tgt[:, 1], state)
    assert torch.equal(first, again)


@pytest.mark.parametrize(("tie", "n_matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_tie_decides_how_many_embedding_matrices_there_are(make_model: Maker, tie: str, n_matrices: int) -> None:
    model = make_model(tie=tie)
    source, target, output = model.source.embedding.weight, model.target.embedding.weight, model.output_weight
    assert len({id(source), id(target), id(output)}) == n_matrices
    assert (target is output) == (tie != "none")
    assert (source is target) == (tie == "all")
    smallest = make_model(tie="all").n_parameters
    assert model.n_parameters == smallest + (n_matrices - 1) * 23 * 16


def test_two_vocabularies_cannot_share_one_matrix() -> None:
    config = TransformerConfig(d_model=8, n_heads=2)
    with pytest.raises(ValueError, match="one vocabulary"):
        Transformer(config, 20, 30)
    model = Transformer(config.model_copy(update={"tie": "target", "n_encoder_layers": 1}), 20, 30)
    assert model(torch.tensor([[19]]), torch.tensor([[29]])).shape == (1, 1, 30)


@pytest.mark.parametrize(("preset", "millions", "paper"), [("base", 63.1, 65), ("big", 214.2, 213)])
def test_sizes_of_base_and_big_are_within_3_percent_of_the_paper(preset: str, millions: float, paper: float) -> None:
    with torch.device("meta"):
        model = Transformer(PRESETS[preset], 37_000, 37_000)
    assert round(model.n_parameters / 1e6, 1) == millions
    assert model.n_parameters / 1e6 == pytest.approx(paper, rel=0.03)  # Table 3


def test_base_and_big_have_the_values_of_table_3() -> None:
    base, big = PRESETS["base"], PRESETS["big"]
    assert (base.n_encoder_layers, base.n_decoder_layers, big.n_encoder_layers, big.n_decoder_layers) == (6, 6, 6, 6)
    assert (base.d_model, base.d_ff, base.n_heads, base.d_k, base.dropout) == (512, 2048, 8, 64, 0.1)
    assert (big.d_model, big.d_ff, big.n_heads, big.d_k, big.dropout) == (1024, 4096, 16, 64, 0.3)
    assert (base.norm, base.positions, base.attention) == ("post", "sinusoidal", "scaled_dot_product")
    assert (base.activation, base.tie) == ("relu", "all")


def test_encoder_and_decoder_may_differ_in_depth_and_layers_share_no_weights(make_model: Maker) -> None:
    model = make_model(n_encoder_layers=3, n_decoder_layers=1)
    assert (len(model.encoder), len(model.decoder)) == (3, 1)
    first, second = (list(layer.parameters()) for layer in model.encoder[:2])
    assert not {id(p) for p in first} & {id(p) for p in second}


def test_only_pre_norm_has_final_norms(make_model: Maker) -> None:
    post, pre = make_model(norm="post"), make_model(norm="pre")
    assert pre.n_parameters - post.n_parameters == 2 * 2 * 16


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"d_modle": 512}, "d_modle"),
        ({"d_k": 64}, "d_k"),
        ({"d_model": 10, "n_heads": 4}, r"d_model \(10\) must be a multiple of n_heads \(4\)"),
        ({"norm": "both"}, "norm"),
        ({"dropout": 1.0}, "dropout"),
        ({"n_encoder_layers": 0}, "n_encoder_layers"),
        ({"d_model": 7, "n_heads": 1}, "multiple of 2"),
    ],
)
def test_an_invalid_config_raises_an_error_that_names_the_field(values: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TransformerConfig(**values)


def test_dropout_applies_only_in_training_and_depends_on_the_seed(make_model: Maker, src: Tensor, tgt: Tensor) -> None:
    model = make_model(dropout=0.3)
    assert torch.equal(model(src, tgt), model(src, tgt))
    model.train()
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(model(src, tgt))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])


def test_bfloat16_autocast_trains_with_dropout(make_model: Maker, src: Tensor, tgt: Tensor) -> None:
    model = make_model(dropout=0.1).train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model.features(src, tgt)
    out.float().sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters())

"""The torch engine: order, batches, alignment, ensembles."""

from dataclasses import replace

import pytest
import torch

from regard.artifact import LoadedModel
from regard.decoding import DecodingOptions, Sampling
from regard.engines.torch_engine import TorchEngine, batches_by_length
from regard.errors import ArtifactError, DataError, RecipeError
from regard.models import Transformer, TransformerConfig
from regard.nn import Trace
from regard.text import Tokenizer, TokenizerPair, train_tokenizer

CONFIG = TransformerConfig(n_encoder_layers=1, n_decoder_layers=2, d_model=32, d_ff=64, n_heads=4)
OPTIONS = DecodingOptions(extra_length=4)


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    lines = ["the animal did not cross the street", "das Tier ging nicht über die Straße", "it was too tired"]
    tokenizer = Tokenizer(train_tokenizer(lines * 5, size=300))
    return TokenizerPair(tokenizer, tokenizer)


def make_model(tokenizers: TokenizerPair, seed: int = 1, config: TransformerConfig = CONFIG) -> LoadedModel:
    torch.manual_seed(seed)
    size = tokenizers.source.size
    facts = {"alignment_head": {"layer": 1, "head": 2}}
    return LoadedModel("transformer", config, Transformer(config, size, size, 0).eval(), tokenizers, facts)


@pytest.fixture(scope="module")
def loaded(tokenizers: TokenizerPair) -> LoadedModel:
    return make_model(tokenizers)


def make_sources(n: int = 30) -> list[list[int]]:
    generator = torch.Generator().manual_seed(2)
    return [torch.randint(4, 300, (i * 7 % 11,), generator=generator).tolist() for i in range(n)]


@pytest.mark.parametrize("options", [OPTIONS, replace(OPTIONS, beam=1), replace(OPTIONS, sampling=Sampling())])
def test_results_do_not_depend_on_the_batches(loaded: LoadedModel, options: DecodingOptions) -> None:
    large = TorchEngine(loaded).translate(make_sources(), options)
    small = TorchEngine(loaded, max_tokens_per_batch=50).translate(make_sources(), options)
    alone = [TorchEngine(loaded).translate([source], options)[0] for source in make_sources()]
    for in_large, in_small, by_itself in zip(large, small, alone, strict=True):
        assert in_large[0].ids == in_small[0].ids == by_itself[0].ids
        assert in_large[0].score == pytest.approx(in_small[0].score, abs=1e-4)


def test_no_sources_give_no_results(loaded: LoadedModel) -> None:
    assert TorchEngine(loaded).translate([], OPTIONS) == []
    assert TorchEngine(loaded).score([], []) == []


def test_batches_have_similar_lengths_and_at_most_max_tokens() -> None:
    lengths = [3, 50, 4, 9, 8, 1, 70]
    batches = list(batches_by_length(lengths, 60))
    assert sorted(index for batch in batches for index in batch) == list(range(7))
    assert all(len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 60 for batch in batches)
    assert batches[0] == [6]
    assert batches[-1] == [3, 4, 2, 0, 5]


def test_attention_is_that_of_the_alignment_head(loaded: LoadedModel) -> None:
    engine = TorchEngine(loaded)
    plain = engine.translate(make_sources(), replace(OPTIONS, n_best=2))
    detailed = engine.translate(make_sources(), replace(OPTIONS, n_best=2), with_attention=True)
    for source, with_attention, without in zip(make_sources(), detailed, plain, strict=True):
        for hypothesis, expected in zip(with_attention, without, strict=True):
            assert replace(hypothesis, attention=None) == expected
            assert hypothesis.attention is not None
            trace = Trace()
            loaded.model(torch.tensor([[*source, 3]]), torch.tensor([[2, *hypothesis.ids]]), trace)
            weights = trace["decoder.1.cross_attention.weights"][0, 2, :-1, :-1]  # (T, S), without the end tokens
            assert len(hypothesis.attention) == len(hypothesis.ids)
            attention = torch.tensor(hypothesis.attention).view(len(hypothesis.ids), len(source))
            torch.testing.assert_close(attention, weights, atol=1e-5, rtol=0)


def test_a_model_without_an_alignment_head_gives_no_attention(loaded: LoadedModel) -> None:
    n_best_lists = TorchEngine(replace(loaded, facts={})).translate(make_sources(3), OPTIONS, with_attention=True)
    assert all(hypothesis.attention is None for (hypothesis,) in n_best_lists)


@pytest.mark.parametrize("head", [{"layer": 2, "head": 0}, {"layer": 0, "head": -1}, {"layer": "0"}, 5, {}])
def test_an_alignment_head_that_the_model_does_not_have_raises_artifact_error(
    loaded: LoadedModel, head: object
) -> None:
    engine = TorchEngine(replace(loaded, facts={"alignment_head": head}))
    with pytest.raises(ArtifactError, match="alignment head"):
        engine.translate(make_sources(2), OPTIONS, with_attention=True)


def test_scoring_an_output_gives_its_score(loaded: LoadedModel) -> None:
    engine = TorchEngine(loaded)
    hypotheses = [n_best[0] for n_best in engine.translate(make_sources(), OPTIONS)]
    all_scored = engine.score(make_sources(), [hypothesis.ids for hypothesis in hypotheses])
    for hypothesis, scored in zip(hypotheses, all_scored, strict=True):
        assert scored.ids == hypothesis.ids
        assert scored.log_probs[: len(hypothesis.log_probs)] == pytest.approx(hypothesis.log_probs, abs=1e-4)


def test_each_sentence_keeps_its_prefix_in_batches(loaded: LoadedModel) -> None:
    prefixes = [[4 + i] * (i % 3) for i in range(30)]
    n_best_lists = TorchEngine(loaded, max_tokens_per_batch=64).translate(make_sources(), OPTIONS, prefixes)
    for (hypothesis,), prefix in zip(n_best_lists, prefixes, strict=True):
        assert list(hypothesis.ids[: len(prefix)]) == prefix


def test_an_ensemble_of_equal_models_changes_nothing_and_of_different_ones_something(
    loaded: LoadedModel, tokenizers: TokenizerPair
) -> None:
    single, equal, mixed = (
        [n_best[0].ids for n_best in TorchEngine(models).translate(make_sources(), OPTIONS)]
        for models in (loaded, [loaded, loaded], [loaded, make_model(tokenizers, seed=2)])
    )
    assert equal == single
    assert mixed != single


def test_an_ensemble_with_different_vocabularies_raises_recipe_error(loaded: LoadedModel) -> None:
    other_tokenizer = Tokenizer(train_tokenizer(["another text altogether", "and more of it"] * 5, size=300))
    with pytest.raises(RecipeError, match="different vocabularies"):
        TorchEngine([loaded, make_model(TokenizerPair(other_tokenizer, other_tokenizer))])
    with pytest.raises(RecipeError, match="needs a model"):
        TorchEngine([])


def test_learned_positions_limit_a_translation_and_a_longer_source_raises_data_error(tokenizers: TokenizerPair) -> None:
    config = CONFIG.model_copy(update={"positions": "learned", "max_positions": 12})
    engine = TorchEngine(make_model(tokenizers, config=config))
    n_best_lists = engine.translate([[5, 6, 7]], DecodingOptions())
    assert len(n_best_lists[0][0].log_probs) <= 12
    with pytest.raises(DataError, match="split it"):
        engine.translate([[5] * 12], DecodingOptions())


def test_the_number_of_torch_threads_changes_only_if_given(loaded: LoadedModel) -> None:
    before = torch.get_num_threads()
    try:
        TorchEngine(loaded, n_threads=2)
        assert torch.get_num_threads() == 2
        TorchEngine(loaded)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_closed_engine_releases_its_models(loaded: LoadedModel) -> None:
    engine = TorchEngine(loaded)
    engine.close()
    assert engine._models == []

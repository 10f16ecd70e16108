"""The torch engine: order, batches, alignment, ensembles."""

from dataclasses import replace

import pytest
import torch

from regard.artifact import LoadedModel
from regard.decoding import DecodingOptions, Sampling
from regard.engines.torch_engine import TorchEngine, batches_by_length
from regard.errors import ArtifactError, DataError, RecipeError
from regard.models import Transformer, TransformerConfig
from regard.text import Tokenizer, TokenizerPair, train_tokenizer

CONFIG = TransformerConfig(n_encoder_layers=1, n_decoder_layers=2, d_model=32, d_ff=64, n_heads=4)
OPTIONS = DecodingOptions(extra_length=4)


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    lines = ["the animal did not cross the street", "das Tier ging nicht über die Straße", "it was too tired"]
    tokenizer = Tokenizer(train_tokenizer(lines * 5, size=300))
    return TokenizerPair(tokenizer, tokenizer)


def make(tokenizers: TokenizerPair, seed: int = 1, config: TransformerConfig = CONFIG) -> LoadedModel:
    torch.manual_seed(seed)
    size = tokenizers.source.size
    facts = {"alignment_head": {"layer": 1, "head": 2}}
    return LoadedModel("transformer", config, Transformer(config, size, size, 0).eval(), tokenizers, facts)


@pytest.fixture(scope="module")
def loaded(tokenizers: TokenizerPair) -> LoadedModel:
    return make(tokenizers)


def lines(n: int = 30) -> list[list[int]]:
    generator = torch.Generator().manual_seed(2)
    return [torch.randint(4, 300, (i * 7 % 11,), generator=generator).tolist() for i in range(n)]


@pytest.mark.parametrize("options", [OPTIONS, replace(OPTIONS, beam=1), replace(OPTIONS, sampling=Sampling())])
def test_answers_come_in_order_whatever_the_batches(loaded: LoadedModel, options: DecodingOptions) -> None:
    large = TorchEngine(loaded).translate(lines(), options)
    small = TorchEngine(loaded, max_tokens_per_batch=50).translate(lines(), options)
    alone = [TorchEngine(loaded).translate([line], options)[0] for line in lines()]
    for one, other, third in zip(large, small, alone, strict=True):
        assert one[0].ids == other[0].ids == third[0].ids
        assert one[0].score == pytest.approx(other[0].score, abs=1e-4)


def test_nothing_in_gives_nothing_out(loaded: LoadedModel) -> None:
    assert TorchEngine(loaded).translate([], OPTIONS) == []
    assert TorchEngine(loaded).score([], []) == []


def test_a_batch_holds_like_lengths_under_its_budget() -> None:
    lengths = [3, 50, 4, 9, 8, 1, 70]
    batches = list(batches_by_length(lengths, 60))
    assert sorted(number for batch in batches for number in batch) == list(range(7))
    assert all(len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 60 for batch in batches)
    assert batches[0] == [6]
    assert batches[-1] == [3, 4, 2, 0, 5]


def test_attention_is_that_of_the_alignment_head(loaded: LoadedModel) -> None:
    engine = TorchEngine(loaded)
    plain = engine.translate(lines(), replace(OPTIONS, n_best=2))
    found = engine.translate(lines(), replace(OPTIONS, n_best=2), with_attention=True)
    for line, with_it, without in zip(lines(), found, plain, strict=True):
        for one, other in zip(with_it, without, strict=True):
            assert replace(one, attention=None) == other
            assert one.attention is not None
            assert len(one.attention) == len(one.ids)
            assert all(len(row) == len(line) and 0 <= sum(row) <= 1 + 1e-5 for row in one.attention)


def test_a_model_without_an_alignment_head_gives_no_attention(loaded: LoadedModel) -> None:
    found = TorchEngine(replace(loaded, facts={})).translate(lines(3), OPTIONS, with_attention=True)
    assert all(one[0].attention is None for one in found)


@pytest.mark.parametrize("said", [{"layer": 2, "head": 0}, {"layer": 0, "head": -1}, {"layer": "0"}, 5, {}])
def test_an_alignment_head_that_is_not_there_is_refused(loaded: LoadedModel, said: object) -> None:
    engine = TorchEngine(replace(loaded, facts={"alignment_head": said}))
    with pytest.raises(ArtifactError, match="alignment head"):
        engine.translate(lines(2), OPTIONS, with_attention=True)


def test_scoring_an_output_gives_its_score(loaded: LoadedModel) -> None:
    engine = TorchEngine(loaded)
    found = [one[0] for one in engine.translate(lines(), OPTIONS)]
    scored = engine.score(lines(), [one.ids for one in found])
    for one, given in zip(found, scored, strict=True):
        assert given.ids == one.ids
        assert given.log_probs[: len(one.log_probs)] == pytest.approx(one.log_probs, abs=1e-4)


def test_prefixes_follow_their_sentences_through_the_batches(loaded: LoadedModel) -> None:
    prefixes = [[4 + i] * (i % 3) for i in range(30)]
    found = TorchEngine(loaded, max_tokens_per_batch=64).translate(lines(), OPTIONS, prefixes)
    assert all(list(one[0].ids[: len(prefix)]) == prefix for one, prefix in zip(found, prefixes, strict=True))


def test_the_likeliest_alternative_is_the_greedy_symbol(loaded: LoadedModel) -> None:
    engine = TorchEngine(loaded)
    greedy = [one[0].ids for one in engine.translate(lines(8), replace(OPTIONS, beam=1))]
    found = engine.alternatives(lines(8), [ids[:2] for ids in greedy], 5)
    assert [row[0][0] for row in found] == [ids[2] for ids in greedy]
    assert all(len(row) == 5 and row == sorted(row, key=lambda one: -one[1]) for row in found)


def test_an_ensemble_of_a_model_with_itself_changes_nothing_and_of_others_something(
    loaded: LoadedModel, tokenizers: TokenizerPair
) -> None:
    single, both, mixed = (
        TorchEngine(models).translate(lines(), OPTIONS)
        for models in (loaded, [loaded, loaded], [loaded, make(tokenizers, seed=2)])
    )
    assert [one[0].ids for one in both] == [one[0].ids for one in single]
    assert [one[0].ids for one in mixed] != [one[0].ids for one in single]


def test_an_ensemble_over_different_vocabularies_is_refused(loaded: LoadedModel) -> None:
    other = Tokenizer(train_tokenizer(["another text altogether", "and more of it"] * 5, size=300))
    with pytest.raises(RecipeError, match="different vocabularies"):
        TorchEngine([loaded, make(TokenizerPair(other, other))])
    with pytest.raises(RecipeError, match="needs a model"):
        TorchEngine([])


def test_learned_positions_bound_a_translation_and_refuse_a_longer_source(tokenizers: TokenizerPair) -> None:
    config = CONFIG.model_copy(update={"positions": "learned", "max_positions": 12})
    engine = TorchEngine(make(tokenizers, config=config))
    found = engine.translate([[5, 6, 7]], DecodingOptions())
    assert len(found[0][0].log_probs) <= 12
    with pytest.raises(DataError, match="split it"):
        engine.translate([[5] * 12], DecodingOptions())


def test_threads_are_set_on_purpose(loaded: LoadedModel) -> None:
    before = torch.get_num_threads()
    try:
        TorchEngine(loaded, n_threads=2)
        assert torch.get_num_threads() == 2
        TorchEngine(loaded)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_closed_engine_holds_no_model(loaded: LoadedModel) -> None:
    engine = TorchEngine(loaded)
    engine.close()
    assert engine._models == []

"""The CTranslate2 engine gives the results of our model, in order, without torch."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.artifact import LoadedModel
from regard.decoding import DecodingOptions, Hypothesis, Sampling, gnmt
from regard.engines.ctranslate2.convert import convert
from regard.engines.ctranslate2.engine import CTranslate2Engine
from regard.errors import ArtifactError, DataError, RecipeError
from regard.models import Transformer, TransformerConfig
from regard.nn import Trace
from regard.text import Tokenizer, TokenizerPair, train_tokenizer

CONFIG = TransformerConfig(n_encoder_layers=1, n_decoder_layers=2, d_model=32, d_ff=48, n_heads=4)
SOURCES = [[5, 6, 7, 8], [9, 270], [11, 12, 13, 14, 15, 16, 17], [20], [5, 6, 7, 9]]
GREEDY = DecodingOptions(beam=1, extra_length=6)
BEAM = DecodingOptions(beam=4, n_best=4, extra_length=6)


def random_model(tokenizer: Tokenizer, **changes: Any) -> LoadedModel:
    config = CONFIG.model_copy(update=changes)
    torch.manual_seed(5)
    model = Transformer(config, tokenizer.size, tokenizer.size).eval()
    with torch.no_grad():
        weight = model.target.embedding.weight.mul_(1.5)  # more confident
        model.decoder[-1].residuals[2].norm.bias.copy_(2.2 * weight[3] / weight[3].norm())  # and likely to end
    facts = {"alignment_head": {"layer": 0, "head": 2}}
    return LoadedModel("transformer", config, model, TokenizerPair(tokenizer, tokenizer), facts)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    text = "the animal did not cross the street"
    return Tokenizer(train_tokenizer([text, text[::-1]] * 5, size=290))


@pytest.fixture(scope="module")
def loaded(tokenizer: Tokenizer) -> LoadedModel:
    return random_model(tokenizer)


@pytest.fixture(scope="module")
def directory(loaded: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "ctranslate2"
    convert(loaded, path, "float32")
    return path


@pytest.fixture(scope="module")
def engine(directory: Path) -> Iterator[CTranslate2Engine]:
    engine = CTranslate2Engine(directory, compute_type="float32", n_threads=2)
    yield engine
    engine.close()


@torch.no_grad()
def our_log_probs(loaded: LoadedModel, source: list[int], target: tuple[int, ...], ended: bool = True) -> list[float]:
    logits = loaded.model(torch.tensor([[*source, 3]]), torch.tensor([[2, *target]]))
    log_probs = logits[0].log_softmax(-1).gather(-1, torch.tensor([*target, 3])[:, None])[:, 0]
    return log_probs[: len(target) + ended].tolist()


@torch.no_grad()
def our_greedy(loaded: LoadedModel, source: list[int], limit: int) -> tuple[int, ...]:
    state, last, out = loaded.model.start(loaded.model.encode(torch.tensor([[*source, 3]]))), 2, []
    while len(out) < limit:
        log_probs, state = loaded.model.step(torch.tensor([last]), state)
        last = int(log_probs.argmax())
        if last == 3:
            break
        out.append(last)
    return tuple(out)


@torch.no_grad()
def our_beam(loaded: LoadedModel, source: list[int], options: DecodingOptions) -> list[tuple[tuple[int, ...], float]]:
    """The search that engines/ctranslate2/search.py describes, without a cache."""
    src = torch.tensor([[*source, 3]])
    live: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    finished: list[tuple[tuple[int, ...], float]] = []
    limit = len(source) + options.extra_length
    for length in range(1, limit + 1):
        candidates = []
        for ids, total in live:
            log_probs = loaded.model(src, torch.tensor([[2, *ids]]))[0, -1].log_softmax(-1)
            candidates += [((*ids, i), total + float(p)) for i, p in enumerate(log_probs)]
        best = sorted(candidates, key=lambda candidate: -candidate[1])[: 2 * options.beam]
        finished += [(ids, total) for ids, total in best[: options.beam] if ids[-1] == 3 or length == limit]
        if len(finished) >= options.beam:
            break
        live = [(ids, total) for ids, total in best if ids[-1] != 3][: options.beam]
    alpha = options.length_penalty
    scored = [(ids, total / gnmt(len(ids), alpha)) for ids, total in finished]
    return sorted(scored, key=lambda hypothesis: -hypothesis[1])[: options.n_best]


def assert_our_log_probs(loaded: LoadedModel, source: list[int], hypothesis: Hypothesis) -> None:
    ended = len(hypothesis.log_probs) > len(hypothesis.ids)
    expected = our_log_probs(loaded, source, hypothesis.ids, ended)
    assert list(hypothesis.log_probs) == pytest.approx(expected, abs=1e-4)


def with_end(hypothesis: Hypothesis, limit: int) -> tuple[int, ...]:
    return hypothesis.ids if len(hypothesis.ids) == limit else (*hypothesis.ids, 3)


def test_greedy_equals_the_most_likely_tokens_of_our_model(engine: CTranslate2Engine, loaded: LoadedModel) -> None:
    n_best_lists = engine.translate(SOURCES, GREEDY)
    assert [hypothesis.ids for (hypothesis,) in n_best_lists] == [
        our_greedy(loaded, ids, len(ids) + 6) for ids in SOURCES
    ]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("beam", [2, 4])
def test_beam_search_equals_ours_with_our_length_penalty(
    beam: int, alpha: float, engine: CTranslate2Engine, loaded: LoadedModel
) -> None:
    options = DecodingOptions(beam=beam, n_best=2, length_penalty=alpha, extra_length=6)
    n_ended = 0
    for source, hypotheses in zip(SOURCES, engine.translate(SOURCES, options), strict=True):
        expected = our_beam(loaded, source, options)
        limit = len(source) + 6
        assert [with_end(hypothesis, limit) for hypothesis in hypotheses] == [ids for ids, _ in expected]
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == pytest.approx([score for _, score in expected], abs=1e-4)
        n_ended += sum(len(hypothesis.ids) < limit for hypothesis in hypotheses)
    assert 0 < n_ended < len(SOURCES) * 2  # some reached the end token, some the limit


def test_scores_of_hypotheses_equal_forced_decoding(engine: CTranslate2Engine, loaded: LoadedModel) -> None:
    plain = engine.translate(SOURCES, BEAM)
    detailed = engine.translate(SOURCES, BEAM, with_attention=True)
    for source, plain_list, detailed_list in zip(SOURCES, plain, detailed, strict=True):
        for fast, hypothesis in zip(plain_list, detailed_list, strict=True):
            assert fast.ids == hypothesis.ids
            assert fast.log_probs == ()
            assert fast.score == pytest.approx(hypothesis.score, abs=1e-4)
            assert_our_log_probs(loaded, source, hypothesis)
            log_probs = hypothesis.log_probs
            assert hypothesis.score == pytest.approx(sum(log_probs) / gnmt(len(log_probs), 0.6), abs=1e-5)


def test_attention_is_that_of_the_alignment_head(engine: CTranslate2Engine, loaded: LoadedModel) -> None:
    for source, hypotheses in zip(SOURCES, engine.translate(SOURCES, BEAM, with_attention=True), strict=True):
        for hypothesis in hypotheses:
            n_tokens, trace = len(hypothesis.ids), Trace()
            with torch.no_grad():
                loaded.model(torch.tensor([[*source, 3]]), torch.tensor([[2, *hypothesis.ids]]), trace)
            weights = trace["decoder.0.cross_attention.weights"][0, 2, :n_tokens, :-1]  # (T, S), without the end token
            attention = torch.tensor(hypothesis.attention).view(n_tokens, len(source))
            assert torch.allclose(attention, weights, atol=1e-5)


def test_a_model_without_an_alignment_head_gives_no_attention(loaded: LoadedModel, tmp_path: Path) -> None:
    convert(replace(loaded, facts={}), tmp_path / "plain", "float32")
    engine = CTranslate2Engine(tmp_path / "plain", compute_type="float32", n_threads=1)
    ((hypothesis,),) = engine.translate([[5, 6]], GREEDY, with_attention=True)
    assert hypothesis.attention is None
    assert len(hypothesis.log_probs) >= len(hypothesis.ids)


def test_score_equals_forced_decoding(engine: CTranslate2Engine, loaded: LoadedModel) -> None:
    targets = [[30, 31], [], [32] * 9, [33], [34, 35, 36]]
    for source, target, scored in zip(SOURCES, targets, engine.score(SOURCES, targets), strict=True):
        assert scored.ids == tuple(target)
        assert list(scored.log_probs) == pytest.approx(our_log_probs(loaded, source, scored.ids), abs=1e-4)
        assert scored.score == pytest.approx(sum(scored.log_probs) / gnmt(len(target) + 1, 0.6))


def test_order_is_kept_and_alone_equals_in_a_batch(engine: CTranslate2Engine) -> None:
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 30, (150,), generator=generator).tolist()
    sources = [torch.randint(4, 290, (n,), generator=generator).tolist() for n in lengths]
    together = engine.translate(sources, BEAM)
    for i in (0, 1, 17, 80, 149):
        (alone,) = engine.translate([sources[i]], BEAM)
        assert [hypothesis.ids for hypothesis in alone] == [hypothesis.ids for hypothesis in together[i]]


def test_each_sentence_has_its_own_length_limit(engine: CTranslate2Engine) -> None:
    sources = [[20] * n for n in range(1, 12)]
    options = DecodingOptions(beam=3, n_best=3, extra_length=2, min_length=100)  # no end token
    for source, hypotheses in zip(sources, engine.translate(sources, options), strict=True):
        assert {len(hypothesis.ids) for hypothesis in hypotheses} == {len(source) + 2}


def test_a_greedy_translation_cut_at_its_limit_equals_the_one_alone(engine: CTranslate2Engine) -> None:
    generator = torch.Generator().manual_seed(5)
    sources = [torch.randint(4, 290, (n,), generator=generator).tolist() for n in range(1, 30)]
    options = DecodingOptions(beam=1, extra_length=1)
    together = engine.translate(sources, options)
    n_cut = 0
    for source, (hypothesis,) in zip(sources, together, strict=True):
        ((alone,),) = engine.translate([source], options)
        assert hypothesis.ids == alone.ids
        assert hypothesis.score == pytest.approx(alone.score, abs=1e-4)
        n_cut += len(hypothesis.ids) == len(source) + 1
    assert n_cut > 3


def test_no_sources_give_no_results_and_empty_sources_empty_translations(engine: CTranslate2Engine) -> None:
    assert engine.translate([], BEAM) == []
    assert engine.score([], []) == []
    empty, not_empty, also_empty = engine.translate([[], [5], []], BEAM)
    assert [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in (empty, also_empty)] == [[()], [()]]
    assert len(not_empty) == 4


def test_a_prefix_is_part_of_the_translation_and_of_its_score(engine: CTranslate2Engine, loaded: LoadedModel) -> None:
    prefixes = [[40, 41], [], [42], [], [43] * 30]
    free, forced = engine.translate(SOURCES, BEAM), engine.translate(SOURCES, BEAM, prefixes)
    for source, prefix, free_list, hypotheses in zip(SOURCES, prefixes, free, forced, strict=True):
        for hypothesis in hypotheses:
            assert list(hypothesis.ids[: len(prefix)]) == prefix
            assert_our_log_probs(loaded, source, hypothesis)
        if not prefix:
            assert [hypothesis.ids for hypothesis in hypotheses] == [hypothesis.ids for hypothesis in free_list]


def test_constraints_are_met_and_log_probs_stay_those_of_the_model(
    engine: CTranslate2Engine, loaded: LoadedModel
) -> None:
    unconstrained = engine.translate(SOURCES, GREEDY)
    banned = tuple({i for (hypothesis,) in unconstrained for i in hypothesis.ids})
    options = DecodingOptions(beam=2, extra_length=6, banned=banned, min_length=3, no_repeat_ngram=2)
    for source, (hypothesis,) in zip(SOURCES, engine.translate(SOURCES, options), strict=True):
        bigrams = list(pairwise(hypothesis.ids))
        assert not set(hypothesis.ids) & set(banned)
        assert len(hypothesis.ids) >= 3
        assert len(set(bigrams)) == len(bigrams)
        assert_our_log_probs(loaded, source, hypothesis)


def test_samples_are_equal_for_the_same_seed_and_differ_for_another(engine: CTranslate2Engine) -> None:
    def draw(seed: int) -> list[list[tuple[int, ...]]]:
        sampling = Sampling(temperature=1.5, top_k=200, top_p=0.95, seed=seed)
        options = DecodingOptions(n_best=3, extra_length=6, sampling=sampling)
        return [[sample.ids for sample in samples] for samples in engine.translate(SOURCES, options)]

    first = draw(1)
    assert draw(1) == first
    assert draw(2) != first
    assert all(len(samples) == 3 for samples in first)


def test_int8_gives_finite_scores(directory: Path) -> None:
    engine = CTranslate2Engine(directory, compute_type="int8", n_threads=1)
    n_best_lists = engine.translate(SOURCES, BEAM, with_attention=True)
    assert all(isfinite(value) for n_best in n_best_lists for each in n_best for value in (*each.log_probs, each.score))
    engine.close()


def test_learned_positions_limit_a_translation_and_a_longer_source_raises_data_error(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    convert(random_model(tokenizer, positions="learned", max_positions=12), tmp_path / "learned", "float32")
    engine = CTranslate2Engine(tmp_path / "learned", compute_type="float32", n_threads=1)
    ((hypothesis,),) = engine.translate([[5] * 11], DecodingOptions(beam=1, min_length=99))
    assert len(hypothesis.ids) == engine.max_positions - 1 == 11
    with pytest.raises(DataError, match="split"):
        engine.translate([[5] * 12], BEAM)


def test_invalid_ids_options_and_directories_raise_errors(
    engine: CTranslate2Engine, directory: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="vocabulary"):
        engine.translate([[290]], BEAM)
    with pytest.raises(RecipeError):
        engine.translate([[5]], DecodingOptions(beam=1, n_best=2))
    with pytest.raises(ArtifactError):
        CTranslate2Engine(tmp_path / "nowhere")
    (tmp_path / "config.json").write_text((directory / "config.json").read_text())
    with pytest.raises(ArtifactError):
        CTranslate2Engine(tmp_path)


def test_no_torch_is_imported(directory: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from regard.decoding.options import DecodingOptions
from regard.engines.ctranslate2.engine import CTranslate2Engine
engine = CTranslate2Engine(Path({str(directory)!r}), n_threads=1)
assert engine.translate([[5, 6]], DecodingOptions(), with_attention=True)[0][0].ids
engine.close()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=180)

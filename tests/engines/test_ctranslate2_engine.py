"""The fast engine gives what our model says, in order, without torch."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
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
        weight = model.target.embedding.weight.mul_(1.5)  # surer of itself
        model.decoder[-1].residuals[2].norm.bias.copy_(2.2 * weight[3] / weight[3].norm())  # and of the end
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
    found = logits[0].log_softmax(-1).gather(-1, torch.tensor([*target, 3])[:, None])[:, 0]
    return found[: len(target) + ended].tolist()


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
    """The search that ctranslate2_search.py describes, in the plainest way: every prefix is run from its beginning."""
    memory = torch.tensor([[*source, 3]])
    alive: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    finished: list[tuple[tuple[int, ...], float]] = []
    limit = len(source) + options.extra_length
    for n_symbols in range(1, limit + 1):
        candidates = []
        for ids, total in alive:
            log_probs = loaded.model(memory, torch.tensor([[2, *ids]]))[0, -1].log_softmax(-1)
            candidates += [((*ids, i), total + float(p)) for i, p in enumerate(log_probs)]
        best = sorted(candidates, key=lambda one: -one[1])[: 2 * options.beam]
        first = best[: options.beam]
        finished += [one for one in first if one[0][-1] == 3 or n_symbols == limit]
        if len(finished) >= options.beam:
            break
        alive = [one for one in best if one[0][-1] != 3][: options.beam]
    alpha = options.length_penalty
    scored = [(ids, total / gnmt(len(ids), alpha)) for ids, total in finished]
    return sorted(scored, key=lambda one: -one[1])[: options.n_best]


def with_end(one: Hypothesis, limit: int) -> tuple[int, ...]:
    return one.ids if len(one.ids) == limit else (*one.ids, 3)


def test_greedy_is_our_model_step_by_step(engine: CTranslate2Engine, loaded: LoadedModel) -> None:
    found = engine.translate(SOURCES, GREEDY)
    assert [one[0].ids for one in found] == [our_greedy(loaded, ids, len(ids) + 6) for ids in SOURCES]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("beam", [2, 4])
def test_beam_search_is_ours_with_our_length_penalty(
    beam: int, alpha: float, engine: CTranslate2Engine, loaded: LoadedModel
) -> None:
    options = DecodingOptions(beam=beam, n_best=2, length_penalty=alpha, extra_length=6)
    ended = 0
    for source, found in zip(SOURCES, engine.translate(SOURCES, options), strict=True):
        expected = our_beam(loaded, source, options)
        limit = len(source) + 6
        assert [with_end(one, limit) for one in found] == [ids for ids, _ in expected]
        assert [one.score for one in found] == pytest.approx([score for _, score in expected], abs=1e-4)
        ended += sum(len(one.ids) < limit for one in found)
    assert 0 < ended < len(SOURCES) * 2  # both ways to finish were met


def test_every_hypothesis_scores_what_forced_decoding_gives_it(engine: CTranslate2Engine, loaded: LoadedModel) -> None:
    plain = engine.translate(SOURCES, BEAM)
    detailed = engine.translate(SOURCES, BEAM, with_attention=True)
    for source, quick, found in zip(SOURCES, plain, detailed, strict=True):
        assert [one.ids for one in quick] == [one.ids for one in found]
        assert [one.log_probs for one in quick] == [()] * 4
        for fast, one in zip(quick, found, strict=True):
            ended = len(one.log_probs) > len(one.ids)
            assert list(one.log_probs) == pytest.approx(our_log_probs(loaded, source, one.ids, ended), abs=1e-4)
            assert one.score == pytest.approx(sum(one.log_probs) / gnmt(len(one.log_probs), 0.6), abs=1e-5)
            assert fast.score == pytest.approx(one.score, abs=1e-4)


def test_attention_is_the_alignment_heads(engine: CTranslate2Engine, loaded: LoadedModel) -> None:
    for source, found in zip(SOURCES, engine.translate(SOURCES, BEAM, with_attention=True), strict=True):
        for one in found:
            trace = Trace()
            with torch.no_grad():
                loaded.model(torch.tensor([[*source, 3]]), torch.tensor([[2, *one.ids]]), trace)
            ours = trace["decoder.0.cross.weights"][0, 2][: len(one.ids), :-1]  # (T, S), without the end symbol
            given = torch.tensor(one.attention).view(len(one.ids), len(source))
            assert torch.allclose(given, ours, atol=1e-5)


def test_a_model_without_an_alignment_head_gives_no_attention(loaded: LoadedModel, tmp_path: Path) -> None:
    convert(replace(loaded, facts={}), tmp_path / "plain", "float32")
    engine = CTranslate2Engine(tmp_path / "plain", compute_type="float32", n_threads=1)
    ((one,),) = engine.translate([[5, 6]], GREEDY, with_attention=True)
    assert one.attention is None
    assert len(one.log_probs) >= len(one.ids)


def test_score_is_forced_decoding(engine: CTranslate2Engine, loaded: LoadedModel) -> None:
    targets = [[30, 31], [], [32] * 9, [33], [34, 35, 36]]
    for source, target, one in zip(SOURCES, targets, engine.score(SOURCES, targets), strict=True):
        assert one.ids == tuple(target)
        assert list(one.log_probs) == pytest.approx(our_log_probs(loaded, source, one.ids), abs=1e-4)
        assert one.score == pytest.approx(sum(one.log_probs) / gnmt(len(target) + 1, 0.6))


def test_order_is_kept_and_alone_equals_in_a_batch(engine: CTranslate2Engine) -> None:
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 30, (150,), generator=generator).tolist()
    sources = [torch.randint(4, 290, (n,), generator=generator).tolist() for n in lengths]
    together = engine.translate(sources, BEAM)
    for place in (0, 1, 17, 80, 149):
        (alone,) = engine.translate([sources[place]], BEAM)
        assert [one.ids for one in alone] == [one.ids for one in together[place]]


def test_each_sentence_has_its_own_length_limit(engine: CTranslate2Engine) -> None:
    sources = [[20] * n for n in range(1, 12)]
    options = DecodingOptions(beam=3, n_best=3, extra_length=2, min_length=100)  # never an end
    for source, found in zip(sources, engine.translate(sources, options), strict=True):
        assert {len(one.ids) for one in found} == {len(source) + 2}


def test_a_greedy_translation_cut_at_its_limit_is_the_one_it_is_alone(engine: CTranslate2Engine) -> None:
    generator = torch.Generator().manual_seed(5)
    sources = [torch.randint(4, 290, (n,), generator=generator).tolist() for n in range(1, 30)]
    options = DecodingOptions(beam=1, extra_length=1)
    together = engine.translate(sources, options)
    n_cut = 0
    for source, (found,) in zip(sources, together, strict=True):
        ((alone,),) = engine.translate([source], options)
        assert found.ids == alone.ids
        assert found.score == pytest.approx(alone.score, abs=1e-4)
        n_cut += len(found.ids) == len(source) + 1
    assert n_cut > 3  # the test is about these


def test_nothing_in_nothing_out(engine: CTranslate2Engine) -> None:
    assert engine.translate([], BEAM) == []
    assert engine.score([], []) == []
    found = engine.translate([[], [5], []], BEAM)
    assert [[one.ids for one in some] for some in (found[0], found[2])] == [[()], [()]]
    assert len(found[1]) == 4


def test_a_prefix_begins_the_translation_and_counts_in_its_score(
    engine: CTranslate2Engine, loaded: LoadedModel
) -> None:
    prefixes = [[40, 41], [], [42], [], [43] * 30]
    free = engine.translate(SOURCES, BEAM)
    for source, prefix, plain, found in zip(
        SOURCES, prefixes, free, engine.translate(SOURCES, BEAM, prefixes), strict=True
    ):
        for one in found:
            assert list(one.ids[: len(prefix)]) == prefix
            ended = len(one.log_probs) > len(one.ids)
            assert list(one.log_probs) == pytest.approx(our_log_probs(loaded, source, one.ids, ended), abs=1e-4)
        if not prefix:
            assert [one.ids for one in found] == [one.ids for one in plain]


def test_constraints_hold_and_scores_stay_the_models(engine: CTranslate2Engine, loaded: LoadedModel) -> None:
    usual = engine.translate(SOURCES, GREEDY)
    banned = tuple({i for one in usual for i in one[0].ids})
    options = DecodingOptions(beam=2, extra_length=6, banned=banned, min_length=3, no_repeat_ngram=2)
    for source, (one,) in zip(SOURCES, engine.translate(SOURCES, options), strict=True):
        pairs = list(zip(one.ids, one.ids[1:], strict=False))
        assert not set(one.ids) & set(banned)
        assert len(one.ids) >= 3
        assert len(set(pairs)) == len(pairs)
        ended = len(one.log_probs) > len(one.ids)
        assert list(one.log_probs) == pytest.approx(our_log_probs(loaded, source, one.ids, ended), abs=1e-4)


def test_a_seed_repeats_its_samples_and_another_gives_others(engine: CTranslate2Engine) -> None:
    def draw(seed: int) -> list[list[tuple[int, ...]]]:
        sampling = Sampling(temperature=1.5, top_k=200, top_p=0.95, seed=seed)
        options = DecodingOptions(n_best=3, extra_length=6, sampling=sampling)
        return [[one.ids for one in found] for found in engine.translate(SOURCES, options)]

    first = draw(1)
    assert draw(1) == first
    assert draw(2) != first
    assert all(len(found) == 3 for found in first)


def test_int8_gives_finite_scores(directory: Path) -> None:
    engine = CTranslate2Engine(directory, compute_type="int8", n_threads=1)
    found = engine.translate(SOURCES, BEAM, with_attention=True)
    assert all(isfinite(value) for some in found for one in some for value in (*one.log_probs, one.score))
    engine.close()


def test_learned_positions_end_a_translation_and_refuse_a_longer_source(tokenizer: Tokenizer, tmp_path: Path) -> None:
    convert(random_model(tokenizer, positions="learned", max_positions=12), tmp_path / "learned", "float32")
    engine = CTranslate2Engine(tmp_path / "learned", compute_type="float32", n_threads=1)
    (found,) = engine.translate([[5] * 11], DecodingOptions(beam=1, min_length=99))
    assert len(found[0].ids) == engine.max_positions - 1 == 11
    with pytest.raises(DataError, match="split"):
        engine.translate([[5] * 12], BEAM)


def test_what_can_not_be_is_refused(engine: CTranslate2Engine, directory: Path, tmp_path: Path) -> None:
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
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)

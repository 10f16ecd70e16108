"""A converted model gives the same probabilities as ours, for every config."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
from torch import nn

from regard.artifact import LoadedModel
from regard.engines.ctranslate2.convert import convert, unsupported_reason
from regard.engines.ctranslate2.model_file import check_converted
from regard.errors import ArtifactError
from regard.models import Transformer, TransformerConfig
from regard.nn import Trace
from regard.text import Tokenizer, TokenizerPair, train_tokenizer

BASE = TransformerConfig(n_encoder_layers=2, n_decoder_layers=2, d_model=32, d_ff=48, n_heads=4)
CONFIGS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 40},
    "gelu": {"activation": "gelu", "norm": "pre"},
    "swiglu": {"activation": "swiglu"},
    "silu, output bias": {"activation": "silu", "output_bias": True},
    "swiglu, pre-norm, learned": {"activation": "swiglu", "norm": "pre", "positions": "learned", "max_positions": 40},
    "target tied": {"tie": "target"},
    "nothing tied": {"tie": "none", "norm": "pre"},
    "deep encoder, shallow decoder": {"n_encoder_layers": 3, "n_decoder_layers": 1},
    "shallow encoder, deep decoder": {"n_encoder_layers": 1, "n_decoder_layers": 3, "norm": "pre"},
    "plain dot-product": {"attention": "dot_product"},
    "one head": {"n_heads": 1},
}
SOURCES = [[5, 6, 7, 8], [9, 270], [11, 12, 13, 14, 15, 16, 17], [20]]
TARGETS = [[30, 31], [32, 33, 34, 35, 36], [], [280, 40, 41]]

Make = Callable[..., LoadedModel]


def make_tokenizer(text: str, size: int) -> Tokenizer:
    return Tokenizer(train_tokenizer([text, text[::-1]] * 5, size=size))


@pytest.fixture(scope="module")
def make() -> Make:
    """Builds models with random weights. Biases and norms are random too, so that a forgotten one is noticed."""
    english, german = make_tokenizer("the animal did not cross the street", 290), make_tokenizer("das Tier blieb", 284)

    def build(facts: dict[str, Any] | None = None, **changes: Any) -> LoadedModel:
        config = BASE.model_copy(update=changes)
        tokenizers = TokenizerPair(english, english) if config.tie == "all" else TokenizerPair(german, english)
        torch.manual_seed(3)
        model = Transformer(config, tokenizers.source.size, tokenizers.target.size).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * (0.3 if parameter.dim() == 1 else 0.05))
        return LoadedModel("transformer", config, model, tokenizers, facts or {})

    return build


def open_converted(directory: Path, compute_type: str = "float32") -> Any:
    return ctranslate2.Translator(str(directory), compute_type=compute_type, inter_threads=1, intra_threads=1)


def converted_log_probs(translator: Any, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
    source_tokens = [[*map(str, ids), "3"] for ids in sources]
    target_tokens = [list(map(str, ids)) for ids in targets]
    results = translator.score_batch(source_tokens, target_tokens, max_input_length=0)
    return [result.log_probs for result in results]


@torch.no_grad()
def our_log_probs(loaded: LoadedModel, source: list[int], target: list[int]) -> list[float]:
    logits = loaded.model(torch.tensor([[*source, 3]]), torch.tensor([[2, *target]]))
    return logits[0].log_softmax(-1).gather(-1, torch.tensor([*target, 3])[:, None])[:, 0].tolist()


@pytest.mark.parametrize("name", CONFIGS)
def test_forced_decoding_gives_the_log_probabilities_of_our_model(name: str, make: Make, tmp_path: Path) -> None:
    loaded = make(**CONFIGS[name])
    convert(loaded, tmp_path / "converted", "float32")
    converted = converted_log_probs(open_converted(tmp_path / "converted"), SOURCES, TARGETS)
    for source, target, log_probs in zip(SOURCES, TARGETS, converted, strict=True):
        assert log_probs == pytest.approx(our_log_probs(loaded, source, target), abs=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_sinusoids_continue_beyond_any_training_length(norm: str, make: Make, tmp_path: Path) -> None:
    loaded = make(norm=norm)
    convert(loaded, tmp_path / "converted", "float32")
    source, target = [5 + i % 200 for i in range(1300)], [7 + i % 190 for i in range(1100)]
    (log_probs,) = converted_log_probs(open_converted(tmp_path / "converted"), [source], [target])
    assert log_probs == pytest.approx(our_log_probs(loaded, source, target), abs=1e-4)


def test_int8_is_close_whether_quantised_in_the_file_or_when_loaded(make: Make, tmp_path: Path) -> None:
    loaded = make(n_heads=2)
    for quantization in ("float32", "int8"):
        convert(loaded, tmp_path / quantization, quantization)
    when_loaded = converted_log_probs(open_converted(tmp_path / "float32", "int8"), SOURCES, TARGETS)
    in_file = converted_log_probs(open_converted(tmp_path / "int8", "int8"), SOURCES, TARGETS)
    for source, target, loaded_log_probs, file_log_probs in zip(SOURCES, TARGETS, when_loaded, in_file, strict=True):
        assert loaded_log_probs == pytest.approx(
            our_log_probs(loaded, source, target), abs=1.0
        )  # random weights quantise badly
        assert file_log_probs == pytest.approx(loaded_log_probs, abs=0.05)


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (0, 3), (1, 2)])
def test_attention_is_that_of_the_alignment_head_and_log_probs_do_not_change(
    layer: int, head: int, make: Make, tmp_path: Path
) -> None:
    loaded = make({"alignment_head": {"layer": layer, "head": head, "sharpness": 0.5}})
    convert(loaded, tmp_path / "converted", "float32")
    translator = open_converted(tmp_path / "converted")
    (result,) = translator.translate_batch(
        [["5", "6", "7", "3"]], beam_size=1, max_decoding_length=6, return_attention=True
    )
    target = list(map(int, result.hypotheses[0]))
    trace = Trace()
    with torch.no_grad():
        loaded.model(torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, *target[:-1]]]), trace)
    weights = trace[f"decoder.{layer}.cross_attention.weights"][0, head]  # (T, S)
    assert torch.allclose(torch.tensor(result.attention[0]), weights, atol=1e-5)
    assert torch.allclose(weights.sum(-1), torch.ones(len(target)))
    for source, target, log_probs in zip(
        SOURCES, TARGETS, converted_log_probs(translator, SOURCES, TARGETS), strict=True
    ):
        assert log_probs == pytest.approx(our_log_probs(loaded, source, target), abs=1e-4)


def test_a_model_that_names_no_alignment_head_converts_without_alignment(make: Make, tmp_path: Path) -> None:
    convert(make({"alignment_head": None}), tmp_path / "converted", "float32")
    assert not check_converted(tmp_path / "converted").has_alignment_head


@pytest.mark.parametrize("head", [3, {}, {"layer": 9, "head": 0}, {"layer": 0, "head": -1}, {"layer": "0"}])
def test_an_alignment_head_that_the_model_does_not_have_raises_artifact_error(
    head: object, make: Make, tmp_path: Path
) -> None:
    with pytest.raises(ArtifactError, match="no alignment head"):
        convert(make({"alignment_head": head}), tmp_path / "converted", "float32")
    assert not (tmp_path / "converted").exists()


def test_additive_attention_raises_artifact_error(make: Make, tmp_path: Path) -> None:
    loaded = make(attention="additive")
    assert "additive" in (unsupported_reason(loaded.model) or "")
    assert unsupported_reason(make().model) is None
    assert "GRU" in (unsupported_reason(nn.GRU(2, 2)) or "")
    with pytest.raises(ArtifactError, match="additive"):
        convert(loaded, tmp_path / "converted", "float32")
    assert not (tmp_path / "converted").exists()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_converted_model_passes_the_check_of_untrusted_models(name: str, make: Make, tmp_path: Path) -> None:
    loaded = make(**CONFIGS[name])
    convert(loaded, tmp_path / "converted", "float32")
    max_positions, *sizes, has_alignment_head = check_converted(tmp_path / "converted")
    assert not has_alignment_head
    assert sizes == [loaded.tokenizers.source.size, loaded.tokenizers.target.size]
    assert max_positions == 40 if loaded.config.positions == "learned" else max_positions >= 2048

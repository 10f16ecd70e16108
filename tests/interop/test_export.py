"""Exported models are the same models, for the other software; what it cannot represent is refused."""

import contextlib
import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from safetensors.torch import load_file

from regard.artifact import describe, load_model
from regard.durable import verify_directory
from regard.errors import ArtifactError, RecipeError, RunError, UserError
from regard.interop import exporting
from regard.interop.exporting import EXPORTERS, export_model
from regard.interop.importing import import_model
from regard.interop.marian import write
from regard.interop.original import Exported
from regard.interop.probe import make_probe
from regard.models import named_weights
from regard.text import TokenizerPair

from .marian_model import TAGS, make_marian, write_vocabulary
from .translators import LANGUAGES, PAIRS, make_tokenizers, write_translator

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


@pytest.fixture(scope="session")
def tokenizers() -> TokenizerPair:
    return make_tokenizers()


@pytest.fixture(scope="session", autouse=True)
def _few_lines() -> Iterator[None]:
    """Exports are compared on fewer lines: tests are of small models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "make_probe", partial(make_probe, n=20))
        yield


@pytest.fixture(scope="session")
def huggingface(translator: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Exported]:
    """It, exported."""
    path = tmp_path_factory.mktemp("exports") / "huggingface"
    return path, export_model(translator, "huggingface", path)


@pytest.fixture(scope="session")
def translator(tokenizers: TokenizerPair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As regard trains it: pre-norm, one vocabulary."""
    return write_translator(tmp_path_factory.mktemp("translators") / "pre", tokenizers)


# What an export can be, with everything that can differ
VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {"norm": "post", "output_bias": False, "activation": "silu"},
    "no shared matrix": {"norm": "post", "tie": "none", "activation": "gelu"},
    "without scaling": {"attention": "dot_product"},
}


def run_example(directory: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the Python code in the README prints."""
    (snippet,) = re.findall(r"```python\n(.*?)```", (directory / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(directory)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(snippet.replace("A sentence.", PAIRS[0].source), "README.md", "exec"), {})
    return printed.getvalue().strip()


# Hugging Face


def test_huggingface_loads_an_export_without_regard(translator: Path, huggingface: tuple[Path, Exported]) -> None:
    out, exported = huggingface
    assert re.search(r"ids of 20 of 20 .* greedy translations of 20 of 20", exported.verified[0])
    verify_directory(out)
    card = (out / "README.md").read_text()
    assert (
        card.startswith("---\nlibrary_name: transformers")
        and "licence CC0" in card
        and "regard translate" not in card
        and "- en\n- de\n" in card
    )
    lines = [pair.source for pair in PAIRS[:500]]
    program = """
import json, sys, warnings
sys.modules["regard"] = None
warnings.simplefilter("ignore")
from transformers import AutoTokenizer, PegasusForConditionalGeneration
tokenizer = AutoTokenizer.from_pretrained(".")
model = PegasusForConditionalGeneration.from_pretrained(".")
lines = json.load(sys.stdin)
batch = tokenizer(lines[:3], return_tensors="pt", padding=True)
texts = tokenizer.batch_decode(model.generate(**batch, max_length=30), skip_special_tokens=True)
print(json.dumps([tokenizer(lines)["input_ids"], texts]))
"""
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=out, input=json.dumps(lines), capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    ids, texts = json.loads(result.stdout.splitlines()[-1])
    assert ids == [[*row, 3] for row in describe(translator).tokenizers.source.encode_many(lines)]
    assert len(texts) == 3 and all(texts) and not any("<" in text for text in texts)


@pytest.mark.parametrize("name", ["pre-norm", "post-norm"])
def test_an_export_is_imported_to_the_bit(
    name: str, translator: Path, huggingface: tuple[Path, Exported], tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    path, exported = translator, huggingface[0]
    if name == "post-norm":
        path, exported = write_translator(tmp_path / "post", tokenizers, **VARIANTS[name]), tmp_path / "out"
        export_model(path, "huggingface", exported)
    import_model(exported, tmp_path / "again")
    first, second = load_model(path), load_model(tmp_path / "again")
    assert first.config.model_dump(exclude={"dropout"}) == second.config.model_dump(exclude={"dropout"})
    weights = named_weights(second.model)
    assert [key for key, tensor in named_weights(first.model).items() if not torch.equal(tensor, weights[key])] == []
    lines = [pair.source for pair in PAIRS[:100]]
    assert first.tokenizers.source.encode_many(lines) == second.tokenizers.source.encode_many(lines)
    assert second.facts["languages"] == LANGUAGES and second.facts["max_length"] == 100


@pytest.mark.parametrize("is_half", [False, True])
def test_an_import_is_exported_to_the_bit(is_half: bool, tmp_path: Path) -> None:
    """From a file of PyTorch, in either container."""
    n_symbols = write_vocabulary(tmp_path, TAGS)
    model = make_marian(n_symbols)
    model.config.save_pretrained(tmp_path)
    state = {key: tensor for key, tensor in model.state_dict().items() if "embed_" not in key and "lm_head" not in key}
    state = {key: tensor.half() for key, tensor in state.items()} if is_half else state
    torch.save(state, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=not is_half)
    import_model(tmp_path, tmp_path / "run")
    export_model(tmp_path / "run", "huggingface", tmp_path / "out")
    weights = load_file(tmp_path / "out" / "model.safetensors")
    assert weights.keys() == state.keys()
    assert [key for key in state if not torch.equal(weights[key], state[key].float())] == []
    assert json.loads((tmp_path / "out" / "vocab.json").read_text()) == json.loads(
        (tmp_path / "vocab.json").read_text()
    )


@pytest.mark.parametrize("name", ["no shared matrix", "without scaling"])
def test_variants_are_the_same_model_in_transformers(name: str, tokenizers: TokenizerPair, tmp_path: Path) -> None:
    """The export itself compares ids, probabilities and translations."""
    pair = make_tokenizers(joint=False) if name == "no shared matrix" else tokenizers
    path = write_translator(tmp_path / "model", pair, **VARIANTS[name])
    assert export_model(path, "huggingface", tmp_path / "out").verified


def test_an_export_that_differs_is_not_written(
    translator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "alternating", torch.arange)
    with pytest.raises(
        ArtifactError, match=r"the export is wrong, and nothing was written: transformers .*probabilities"
    ):
        export_model(translator, "huggingface", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


# CTranslate2, Argos, ONNX


def test_ctranslate2_runs_with_sub_words(translator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported = export_model(translator, "ctranslate2", tmp_path / "out", "float32")
    assert re.search(r"translations of (19|20) of 20", exported.verified[0])
    symbols = describe(translator).tokenizers.target.symbols
    assert json.loads((tmp_path / "out" / "shared_vocabulary.json").read_text()) == symbols
    assert run_example(tmp_path / "out", monkeypatch)


def test_argos_installs_a_package_and_needs_no_download(translator: Path, tmp_path: Path) -> None:
    exported = export_model(translator, "argos", tmp_path / "out")
    assert re.search(r"downloads nothing, keeps paragraphs, and translates (\d+) of \1 lines", exported.verified[0])
    with zipfile.ZipFile(tmp_path / "out" / "translate-en_de-1_0.argosmodel") as archive:
        names = archive.namelist()
        metadata = json.loads(archive.read("translate-en_de-1_0/metadata.json"))
    assert {name.partition("/")[0] for name in names} == {"translate-en_de-1_0"}
    assert (metadata["from_name"], metadata["to_code"]) == ("English", "de")


@pytest.mark.parametrize("name", ["swiglu", "post-norm", "no shared matrix"])
def test_onnx_gives_the_same_numbers(
    name: str, tokenizers: TokenizerPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = {"activation": "swiglu", "positions": "learned", "max_positions": 128}
    pair = make_tokenizers(joint=False) if name == "no shared matrix" else tokenizers
    path = write_translator(tmp_path / "model", pair, **VARIANTS.get(name, variant))
    quantization = None if name == "swiglu" else "float32"
    exported = export_model(path, "onnx", tmp_path / "out", quantization)
    assert re.search(r"within \de-0[5-9], greedy translations of (19|20) of 20", exported.verified[0])
    files = sorted(file.name for file in (tmp_path / "out" / "onnx").iterdir())
    assert len(files) == (4 if quantization is None else 2)
    for file in files:
        onnx.checker.check_model(onnx.load(tmp_path / "out" / "onnx" / file))
    assert run_example(tmp_path / "out", monkeypatch)


# Refusals


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "swiglu": ("huggingface", {"activation": "swiglu"}, "activation = 'swiglu'.*--to onnx"),
    "additive": ("huggingface", {"attention": "additive"}, "attention = 'additive'"),
    "additive, fast": ("ctranslate2", {"attention": "additive"}, "additive attention"),
    "additive, graph": ("onnx", {"attention": "additive"}, "attention = 'additive'"),
    "learned": ("huggingface", {"positions": "learned"}, "positions = 'learned'"),
    "not shared": ("huggingface", {"tie": "target"}, "Pegasus.*tie = 'target'"),
    "no languages": ("argos", {"facts": {}}, "languages are not known.*source_language"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_represented_is_refused_by_name(name: str, tokenizers: TokenizerPair, tmp_path: Path) -> None:
    kind, changes, reason = REFUSED[name]
    path = write_translator(tmp_path / "model", tokenizers, **changes)
    with pytest.raises(UserError) as error:
        export_model(path, kind, tmp_path / "out")
    assert re.search(reason, str(error.value)), error.value
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(("options", "kind"), [({"kind": "word"}, "ctranslate2"), ({"tags": ("de", "fr")}, "argos")])
def test_vocabularies_that_others_cannot_use_are_refused(options: dict[str, Any], kind: str, tmp_path: Path) -> None:
    path = write_translator(tmp_path / "model", make_tokenizers(**options))
    with pytest.raises(ArtifactError, match=r"vocabulary of words|this model has tags"):
        export_model(path, kind, tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_targets_and_options_are_checked_first(translator: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for kind in EXPORTERS:
        with pytest.raises(RunError, match="exists already"):
            export_model(translator, kind, tmp_path / "out")
    with pytest.raises(RecipeError, match="no format 'tflite'; hint: use one of huggingface"):
        export_model(translator, "tflite", tmp_path / "new")
    with pytest.raises(RecipeError, match="not for huggingface"):
        export_model(translator, "huggingface", tmp_path / "new", "int8")

"""An imported Marian model is the same model: ids, numbers and translations equal those of transformers."""

import json
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from regard import Translator
from regard.artifact import describe, load_model
from regard.decoding import DecodingOptions
from regard.demo.street.corpus import generate
from regard.engines.engine import EngineName
from regard.engines.torch_engine import TorchEngine
from regard.errors import ArtifactError, RunError
from regard.interop.foreign import ForeignModel
from regard.interop.importing import import_model
from regard.interop.marian import vocabulary
from regard.interop.marian.vocabulary import read_tokenizers
from regard.text.protobuf import BYTES, FIXED32, VARINT, write_field
from regard.text.vocabulary import UNK_ID

from .marian_model import ODD_LINES, TAGS, make_marian, write_vocabulary

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

SOURCES = [pair.source for pair in generate(1_000, seed=9)]
TARGETS = [pair.target for pair in generate(1_000, seed=9)]


@pytest.fixture(scope="module")
def marian(directory: Path) -> Any:
    return transformers.MarianMTModel.from_pretrained(directory).eval()


@pytest.mark.parametrize("leave_out", [0, 2])
def test_ids_equal_those_of_marian_tokenizer(leave_out: int, tmp_path: Path) -> None:
    n_symbols = write_vocabulary(tmp_path, TAGS, leave_out)
    make_marian(n_symbols).config.save_pretrained(tmp_path)
    tokenizers, vocabulary = read_tokenizers(ForeignModel(tmp_path))
    theirs = transformers.MarianTokenizer.from_pretrained(tmp_path)
    for side, lines in (
        ("text", SOURCES + TARGETS[:100] + ODD_LINES),
        ("text_target", TARGETS + SOURCES[:100] + ODD_LINES),
    ):
        ours = (tokenizers.source if side == "text" else tokenizers.target).encode_many(lines)
        assert max(map(max, filter(None, ours))) < tokenizers.source.size == n_symbols + 1
        assert sum(UNK_ID in ids for ids in ours) > 5
        expected = theirs(**{side: lines})["input_ids"]
        assert [[vocabulary.original_ids[i] for i in ids] for ids in ours] == [ids[:-1] for ids in expected]
    ours = tokenizers.source.encode("The dog", tag="de")
    assert [vocabulary.original_ids[i] for i in ours] == theirs(">>de<<The dog")["input_ids"][:-1]


def padded(sequences: list[list[int]], pad: int) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in sequences], True, pad)


@torch.inference_mode()
def test_logits_equal_those_of_transformers(directory: Path, marian: Any, run: Path) -> None:
    loaded = load_model(run)
    order = read_tokenizers(ForeignModel(directory))[1].original_ids
    tokenizers = loaded.tokenizers
    for start in range(0, 400, 8):
        src = [[*tokenizers.source.encode(line), 3] for line in SOURCES[start : start + 8]]
        tgt = [[2, *tokenizers.target.encode(line)] for line in TARGETS[start : start + 8]]
        ours = loaded.model(padded(src, 0), padded(tgt, 0))
        their_src = padded([[order[i] for i in ids] for ids in src], order[0])
        their_tgt = padded([[order[i] for i in ids] for ids in tgt], order[0])
        mask = (their_src != order[0]).long()
        theirs = marian(input_ids=their_src, attention_mask=mask, decoder_input_ids=their_tgt).logits[..., order]
        real = padded(tgt, 0) != 0
        torch.testing.assert_close(
            ours[real][:, [1, *range(3, len(order))]], theirs[real][:, [1, *range(3, len(order))]], atol=1e-4, rtol=1e-4
        )
    assert ours[..., [0, 2]].max() < -9_000


@torch.inference_mode()
@pytest.mark.parametrize("beam", [1, 4])
def test_beams_equal_those_of_generate(beam: int, directory: Path, marian: Any, run: Path) -> None:
    loaded = load_model(run)
    order = read_tokenizers(ForeignModel(directory))[1].original_ids
    generator = torch.Generator().manual_seed(5)
    sources = [torch.randint(6, len(order), (3 + i % 7,), generator=generator).tolist() for i in range(100)]
    limit = 16
    src = padded([[*(order[i] for i in source), order[3]] for source in sources], order[0])
    theirs = marian.generate(
        input_ids=src,
        attention_mask=(src != order[0]).long(),
        num_beams=beam,
        num_return_sequences=beam,
        length_penalty=0.0,
        early_stopping=beam > 1,
        do_sample=False,
        max_new_tokens=limit,
        renormalize_logits=True,
        bad_words_ids=[[order[0]]],
    ).tolist()
    engine, lengths = TorchEngine(loaded), set()
    for number, source in enumerate(sources):
        options = DecodingOptions(beam=beam, n_best=beam, length_penalty=0.0, extra_length=limit - len(source))
        ours = [[order[i] for i in hypothesis.ids] for hypothesis in engine.translate([source], options)[0]]
        rows = theirs[number * beam : (number + 1) * beam]
        assert ours == [[i for i in row if i not in (order[0], order[3])] for row in rows]
        lengths.update(map(len, ours))
    assert len(lengths) > 3, lengths


def test_the_fast_engine_translates_as_torch_does(run: Path) -> None:
    engines: tuple[EngineName, ...] = ("ctranslate2", "torch")
    results = [
        Translator.load(run, engine=engine, precision="float32").translate(SOURCES[:100], target="de")
        for engine in engines
    ]
    fast, slow = ([result.text for result in result] for result in results)
    assert sum(a == b for a, b in zip(fast, slow, strict=True)) >= 99


def test_the_description_names_the_languages(run: Path) -> None:
    described = describe(run)
    assert described.facts["languages"] == {"source": "en", "targets": ["de", "es_AR"]}
    assert described.facts["imported_from"] == "marian"


def test_an_existing_directory_is_not_overwritten(directory: Path, run: Path) -> None:
    with pytest.raises(RunError, match="exists already"):
        import_model(directory, run)


UNSUPPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "activation": ({"activation_function": "gelu_new"}, "activation_function"),
    "scale": ({"scale_embedding": False}, "scale_embedding"),
    "heads": ({"decoder_attention_heads": 2}, "decoder_attention_heads"),
    "inner size": ({"decoder_ffn_dim": 48}, "decoder_ffn_dim"),
    "norm of embeddings": ({"normalize_embedding": True}, "normalize_embedding"),
    "pre-norm": ({"normalize_before": True}, "normalize_before"),
    "untied": ({"tie_word_embeddings": False}, "tie_word_embeddings"),
    "type": ({"model_type": "m2m_100"}, "m2m_100"),
    "a string for a number": ({"d_model": "32"}, "d_model"),
    "more layers than weights": ({"encoder_layers": 1000}, "fewer layers"),
    "huge": ({"d_model": 65536}, "is of"),
    "negative": ({"encoder_layers": -1}, "n_encoder_layers"),
    "pad outside of the vocabulary": ({"pad_token_id": 10**6}, "pad_token_id"),
    "another vocabulary": ({"vocab_size": 10**6}, "vocab.json"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_cannot_be_represented_is_refused_by_name(name: str, directory: Path, tmp_path: Path) -> None:
    changes, reason = UNSUPPORTED[name]
    for file in directory.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(ArtifactError, match=reason):
        import_model(tmp_path, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def piece(text: bytes, kind: int = 1) -> bytes:
    """A piece of a SentencePiece model."""
    content = (
        write_field(1, BYTES, text) + write_field(2, FIXED32, struct.pack("<f", -1.0)) + write_field(3, VARINT, kind)
    )
    return write_field(1, BYTES, content)


HOSTILE_SPM: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "source.spm is not a SentencePiece model: it has no pieces"),
    "not a protocol buffer": (b"\xff" * 1000, "source.spm is not a SentencePiece model"),
    "truncated": (write_field(1, BYTES, b"x" * 100)[:50], "source.spm is not a SentencePiece model"),
    "huge size": (b"\x0a\xff\xff\xff\xff\x07", "source.spm is not a SentencePiece model"),
    "not UTF-8": (piece(b"\xff\xfe"), "source.spm is not a SentencePiece model"),
    "many pieces": (b"".join(piece(b"%d" % i) for i in range(2_100)), "too many pieces"),
    "other pieces": (b"".join(piece(b"%d" % i) for i in range(100)), r"vocab\.json lacks 100 pieces of source\.spm"),
    "nested": (piece(b"a") + write_field(2, BYTES, b"\x0a" * 20_000), "source.spm is not a SentencePiece model"),
}


@pytest.mark.parametrize("name", HOSTILE_SPM)
def test_hostile_sentencepiece_models_are_refused_without_much_memory(
    name: str, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "MAX_SIZE", 2_000)
    for file in directory.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    data, reason = HOSTILE_SPM[name]
    (tmp_path / "source.spm").write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactError, match=reason):
            import_model(tmp_path, tmp_path / "run")
        assert tracemalloc.get_traced_memory()[1] < 200_000_000
    finally:
        tracemalloc.stop()
    assert not (tmp_path / "run").exists()

"""An imported encoder is the same model: its ids, logits and uses equal those of transformers."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
import transformers

from regard import load
from regard.artifact import describe, load_model
from regard.errors import ArtifactError, DataError
from regard.interop.importing import import_model
from regard.run import train

from ..labelled import labelled_texts, write_labelled
from .test_encoders import SIZES, randomise

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ODD = [
    "Émigré naïve CAFÉ",
    "中文 and 日本",
    "a" * 120,
    "don't stop -- now",
    "x\u200by\tz",
    "",
    "한국어 문장 ##ing",
    "Ünïcödé ﬁ",
    "the\u00a0film",
]
FEW = {key: value for key, value in SIZES.items() if key not in ("vocab_size", "max_position_embeddings")}
TINY = {
    "steps": 5, "max_tokens": 512, "rate": 0.001, "schedule": "cooldown", "warmup": 2, "two_processes": "off",
    "save_every": 5, "validate_every": 5, "average": 1, "optimizer": "adam",
}  # fmt: skip


def lines(n: int) -> list[str]:
    rng = Random(1)
    return [text.capitalize() + rng.choice((".", " !", "")) for _, text in labelled_texts(n, seed=3)] + ODD


def word_pieces() -> list[str]:
    """A vocabulary with whole words, parts of words and single characters, but not all of them."""
    words = sorted({word for line in lines(200) for word in line.lower().split()})
    parts = [f"##{word[-2:]}" for word in words[::3]]
    characters = sorted({char for word in words for char in word} | set("cafe中日.!'-"))
    inside = [f"##{char}" for char in characters if char.isalpha()]
    return list(dict.fromkeys([*SPECIAL, *words[::2], *parts, *characters, *inside]))


def make(path: Path, name: str, form: str = "safetensors", lowercase: bool = True, **changes: Any) -> Any:
    """A random model with its tokenizer, as transformers saves them; in the old form a .bin and vocab.txt."""
    pieces = word_pieces()
    kind = "Bert" if name.startswith("Bert") else "Electra"
    sizes = FEW | {"vocab_size": len(pieces), "max_position_embeddings": 140} | changes
    config = getattr(transformers, f"{kind}Config")(**sizes)
    model = getattr(transformers, name)(config).eval()
    randomise(model)
    path.mkdir()
    (path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    settings = {"do_lower_case": lowercase}
    if form == "safetensors":
        vocabulary = {piece: i for i, piece in enumerate(pieces)}
        transformers.BertTokenizer(vocabulary, **settings).save_pretrained(path)
        (path / "vocab.txt").unlink()
        model.save_pretrained(path)
    else:
        (path / "tokenizer_config.json").write_text(json.dumps(settings))
        model.config.save_pretrained(path)
        old = {key.replace("LayerNorm.weight", "LayerNorm.gamma"): value for key, value in model.state_dict().items()}
        torch.save(old, path / "pytorch_model.bin")
    return model


def tokenizer_of(lowercase: bool = True) -> Any:
    return transformers.BertTokenizer({piece: i for i, piece in enumerate(word_pieces())}, do_lower_case=lowercase)


@pytest.mark.parametrize(("form", "lowercase"), [("safetensors", True), ("safetensors", False), ("bin", True)])
@torch.inference_mode()
def test_bert_has_the_ids_and_logits_of_transformers(form: str, lowercase: bool, tmp_path: Path) -> None:
    theirs = make(tmp_path / "hf", "BertForPreTraining", form, lowercase, layer_norm_eps=1e-12)
    import_model(tmp_path / "hf", tmp_path / "run")
    filler, tokenizer = load(tmp_path / "run"), tokenizer_of(lowercase)
    texts = lines(500)
    ids = filler.tokenizer.encode_many(texts)  # type: ignore[attr-defined]
    assert ids == tokenizer(texts, add_special_tokens=False)["input_ids"]
    assert any(filler.tokenizer.unk_id in line for line in ids)  # type: ignore[attr-defined]
    pairs = [*zip(texts[::2], texts[1::2], strict=False)]
    for start in range(0, len(pairs), 64):
        some = pairs[start : start + 64]
        given = tokenizer([a for a, _ in some], [b for _, b in some], padding=True, return_tensors="pt")
        out = theirs(**given)
        real = given["attention_mask"].bool()
        reading = filler.model.read(given["input_ids"], given["token_type_ids"], real)  # type: ignore[attr-defined]
        torch.testing.assert_close(reading.words, out.prediction_logits[real], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(reading.next, out.seq_relationship_logits.softmax(-1)[:, 0], atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_blanks_are_filled_as_by_transformers(tmp_path: Path) -> None:
    theirs = make(tmp_path / "hf", "BertForMaskedLM")  # without a pooler that was trained
    imported = import_model(tmp_path / "hf", tmp_path / "run")
    assert imported.spec.config.asks == ("words",)  # type: ignore[attr-defined]
    filler, tokenizer = load(tmp_path / "run"), tokenizer_of()
    text = "we saw a [MASK] film last [MASK]."
    given = tokenizer(text, return_tensors="pt")
    expected = theirs(**given).logits[given["input_ids"] == tokenizer.mask_token_id].softmax(-1)
    [answer] = filler.predict([text])
    for guesses, p in zip(answer.blanks, expected, strict=True):  # type: ignore[attr-defined]
        assert guesses[0].probability == pytest.approx(float(p[5:].max()), abs=1e-5)
        piece = tokenizer.convert_ids_to_tokens(int(p[5:].argmax()) + 5)
        assert guesses[0].text == piece.removeprefix("##")


@torch.inference_mode()
def test_electra_has_the_logits_of_transformers_and_its_generator_is_a_bert(tmp_path: Path) -> None:
    tokenizer, texts = tokenizer_of(), lines(500)
    judge = make(tmp_path / "judge", "ElectraForPreTraining", embedding_size=16)
    writer = make(tmp_path / "writer", "ElectraForMaskedLM", "bin", embedding_size=16)
    for name in ("judge", "writer"):
        import_model(tmp_path / name, tmp_path / f"{name}-run")
    electra, bert = (load_model(tmp_path / f"{name}-run").model for name in ("judge", "writer"))
    for start in range(0, len(texts), 128):
        given = tokenizer(texts[start : start + 128], padding=True, return_tensors="pt")
        ids, segments, real = given["input_ids"], given["token_type_ids"], given["attention_mask"].bool()
        close = {"atol": 1e-4, "rtol": 1e-4}
        replaced = electra.read(ids, segments, torch.zeros_like(real)).replaced
        torch.testing.assert_close(replaced[real], judge(**given).logits.sigmoid()[real], **close)
        torch.testing.assert_close(bert.read(ids, segments, real).words, writer(**given).logits[real], **close)
    [answer] = load(tmp_path / "judge-run").predict(["The film was lovely."])
    assert [word.text for word in answer.replaced][:2] == ["the", "film"]  # type: ignore[attr-defined]


def test_a_classifier_starts_from_an_imported_encoder(tmp_path: Path) -> None:
    make(tmp_path / "hf", "BertForPreTraining")
    import_model(tmp_path / "hf", tmp_path / "run")
    recipe = {
        "task": "classification",
        "start_from": str(tmp_path / "run"),
        "data": {"train": [{"labels": str(write_labelled(tmp_path / "train.tsv", 120))}]},
        "training": TINY,
    }
    train(recipe, tmp_path / "tuned")
    described = describe(tmp_path / "tuned")
    assert (described.architecture, described.facts["max_length"]) == ("bert", 137)
    classifier = load(tmp_path / "tuned")
    assert {prediction.label for prediction in classifier.predict(["A lovely film"])} <= {"good", "bad"}  # type: ignore[attr-defined]
    assert "classification" in (tmp_path / "tuned" / "model" / "config.json").read_text()


def test_what_has_no_counterpart_is_refused_by_name(tmp_path: Path) -> None:
    for number, (changes, message) in enumerate(
        [({"hidden_act": "relu"}, "hidden_act"), ({"is_decoder": True}, "is_decoder")]
    ):
        make(tmp_path / f"hf{number}", "BertForPreTraining")
        config = tmp_path / f"hf{number}" / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | changes))
        with pytest.raises(ArtifactError, match=message):
            import_model(tmp_path / f"hf{number}", tmp_path / "run")
    make(tmp_path / "labels", "BertForSequenceClassification")
    with pytest.raises(ArtifactError, match=r"classifier\.(weight|bias)"):
        import_model(tmp_path / "labels", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_imported_vocabulary_is_not_trained(tmp_path: Path) -> None:
    text = {"kind": "imported"}
    data = {"train": [{"labels": str(write_labelled(tmp_path / "train.tsv", 120))}]}
    with pytest.raises(DataError, match="imported model"):
        train({"task": "classification", "data": data, "text": text, "training": TINY}, tmp_path / "run")


@pytest.mark.parametrize("damage", ['{"algorithm": "wordpiece"}', "[]", "{", '{"pieces": 3}'])
def test_a_damaged_vocabulary_is_refused(damage: str, tmp_path: Path) -> None:
    from regard.text.imported import FILE, read_imported

    (tmp_path / FILE).write_text(damage)
    with pytest.raises(ArtifactError, match="damaged"):
        read_imported(tmp_path)

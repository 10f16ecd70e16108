"""XLNet computes the same as in transformers, with the same random weights; an imported one has the same ids."""

from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from torch import Tensor

from regard import load
from regard.data import NO_TARGET
from regard.errors import ArtifactError
from regard.interop.encoders.names import xlnet_weights
from regard.interop.importing import import_model
from regard.models import load_weights
from regard.models.xlnet import XLNet, XLNetConfig

from ..labelled import labelled_texts
from .test_encoder_import import ODD, lines
from .test_encoders import CLOSE, OUR_SIZES, VOCAB, padded_batch, randomise, require_equal_gradients

transformers = pytest.importorskip("transformers")

SIZES: dict[str, Any] = {
    "vocab_size": VOCAB, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48, "dropout": 0.0, "pad_token_id": 0,
}  # fmt: skip
BOS, MEMORY = 2, 5
SYMBOLS = ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]


def theirs_of(data: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """A batch in their layout, with <cls> behind the text; where each symbol was, and which words are predicted."""
    lengths = data["real"].sum(1).tolist()
    places = torch.stack([torch.tensor([*range(1, n), 0, *range(n, data["ids"].shape[1])]) for n in lengths])
    ids, order, real = (data[name].gather(1, places) for name in ("ids", "order", "real"))
    segments = data["segments"].gather(1, places).masked_fill(places == 0, 2)
    hidden = (order[:, None] >= order[..., None]) & (order >= 0)[:, None]  # (B, i, j): i must not see j
    asked = (data["words"] != NO_TARGET).gather(1, places)
    n_predictions = int(asked.sum(1).max())
    mapping = torch.zeros(len(ids), n_predictions, ids.shape[1])
    for row, of_row in enumerate(asked):
        for number, position in enumerate(of_row.nonzero()):
            mapping[row, number, position] = 1.0
    return (
        {
            "input_ids": ids,
            "attention_mask": real.float(),
            "token_type_ids": segments,
            "perm_mask": hidden.float(),
            "target_mapping": mapping,
        },
        places,
        mapping.any(-1),
    )


def batch() -> dict[str, Tensor]:
    """Rows of different lengths, with orders, and the text before of two of them."""
    data = padded_batch()
    data["ids"][:, 0] = BOS
    data["words"][:, 0] = NO_TARGET
    asked = data["words"] != NO_TARGET
    draws = torch.rand(data["ids"].shape, generator=torch.Generator().manual_seed(3))
    is_bos = torch.arange(data["ids"].shape[1]) == 0
    data["order"] = draws.where(asked | is_bos, -1.0)
    data["before"] = torch.randint(4, VOCAB, (3, MEMORY), generator=torch.Generator().manual_seed(4))
    return data


def make_both(epsilon: float = 1e-12) -> tuple[Any, XLNet]:
    theirs = transformers.XLNetLMHeadModel(transformers.XLNetConfig(**SIZES, layer_norm_eps=epsilon)).eval()
    randomise(theirs)
    ours = XLNet(XLNetConfig(**OUR_SIZES, norm_epsilon=epsilon, memory=MEMORY), VOCAB).eval()
    load_weights(ours, xlnet_weights(theirs.state_dict()))
    return theirs, ours


@pytest.mark.parametrize("has_memory", [False, True])
def test_both_streams_have_the_logits_and_gradients_of_transformers(has_memory: bool) -> None:
    theirs, ours = make_both()
    data = batch()
    given, _, is_real = theirs_of(data)
    mems, context = None, data["ids"][:, :0]
    if has_memory:
        context = data["before"]
        types = torch.zeros_like(context)
        mems = theirs(context, token_type_ids=types, use_mems=True).mems
        assert mems[0].shape[0] == MEMORY
    out = theirs(**given, mems=mems).logits[is_real]  # (N, V)
    words = data["words"][data["words"] != NO_TARGET]
    hidden = ours.xlnet.predict(
        data["ids"], data["segments"], data["order"], data["words"] != NO_TARGET, context, ours.query
    )
    logits = hidden @ ours.xlnet.weight.T + ours.bias
    torch.testing.assert_close(logits, out, **CLOSE)
    losses = (torch.nn.functional.cross_entropy(each, words) for each in (logits, out))
    require_equal_gradients(ours, next(losses), theirs, next(losses), xlnet_weights)


def test_a_classifier_reads_what_transformers_reads() -> None:
    theirs, ours = make_both()
    data = batch()
    given, places, _ = theirs_of(data)
    names = ("input_ids", "attention_mask", "token_type_ids")
    x = theirs.transformer(**{name: given[name] for name in names}).last_hidden_state
    torch.testing.assert_close(ours.xlnet(data["ids"], data["segments"]), x[places == 0], **CLOSE)


def make_directory(path: Path, form: str, **changes: Any) -> Any:
    """A random model with a SentencePiece vocabulary, as spiece.model and .bin, or as transformers saves them today."""
    path.mkdir()
    (path / "text").write_text("\n".join(text.capitalize() for _, text in labelled_texts(300, seed=5)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(path / "text"), model_prefix=str(path / "spiece"), vocab_size=150, control_symbols=SYMBOLS[:4],
        user_defined_symbols=SYMBOLS[4:], minloglevel=2, hard_vocab_limit=False, num_threads=1,
    )  # fmt: skip
    for name in ("text", "spiece.vocab"):
        (path / name).unlink()
    tokenizer = transformers.XLNetTokenizer.from_pretrained(path)
    model = transformers.XLNetLMHeadModel(transformers.XLNetConfig(**SIZES | {"vocab_size": len(tokenizer)} | changes))
    randomise(model.eval())
    if form == "bin":
        model.config.save_pretrained(path)
        torch.save(model.state_dict(), path / "pytorch_model.bin")
    else:
        (path / "spiece.model").unlink()
        tokenizer.save_pretrained(path)
        model.save_pretrained(path)
    return model, tokenizer


@pytest.mark.parametrize("form", ["bin", "safetensors"])
@torch.inference_mode()
def test_an_imported_model_has_the_ids_and_logits_of_transformers(form: str, tmp_path: Path) -> None:
    theirs, tokenizer = make_directory(tmp_path / "hf", form)
    import_model(tmp_path / "hf", tmp_path / "run")
    filler, texts = load(tmp_path / "run"), [*lines(500), "``quoted'' text", "½ ﬁne Ⅷ", "<sep", "a  b\t c"]
    ids = filler.tokenizer.encode_many(texts)  # type: ignore[attr-defined]
    assert ids == tokenizer(texts, add_special_tokens=False)["input_ids"]
    assert any(filler.tokenizer.unk_id in line for line in ids)  # type: ignore[attr-defined]
    mask_id = tokenizer.mask_token_id
    for text, line in [*zip(texts, ids, strict=True)][::25]:
        if not line:
            continue
        blank = len(line) // 2
        row = [*line[:blank], mask_id, *line[blank + 1 :], tokenizer.sep_token_id, tokenizer.cls_token_id]
        perm_mask, mapping = torch.zeros(1, len(row), len(row)), torch.zeros(1, 1, len(row))
        perm_mask[:, :, blank] = mapping[:, :, blank] = 1.0
        types = torch.tensor([[0] * (len(row) - 1) + [2]])
        given = {"perm_mask": perm_mask, "target_mapping": mapping, "token_type_ids": types}
        out = theirs(torch.tensor([row]), **given).logits[0, 0]
        reading = filler.ask([[row[:-2]]])[1]  # type: ignore[attr-defined]
        torch.testing.assert_close(reading.words[0], out, **CLOSE, msg=lambda difference, text=text: text + difference)


def test_a_text_cannot_contain_special_symbols(tmp_path: Path) -> None:
    make_directory(tmp_path / "hf", "bin")
    import_model(tmp_path / "hf", tmp_path / "run")
    tokenizer = load(tmp_path / "run").tokenizer  # type: ignore[attr-defined]
    for ids in tokenizer.encode_many(["a <cls> film", "<pad>", "x<mask>y", *ODD]):
        assert not tokenizer.special_ids & set(ids)
    assert tokenizer.encode_with_blanks("a [MASK] film").count(tokenizer.mask_id) == 1
    assert tokenizer.decode(tokenizer.encode("we saw a film")) == "we saw a film"


def test_what_has_no_counterpart_is_refused_by_name(tmp_path: Path) -> None:
    for number, changes in enumerate([{"attn_type": "uni"}, {"ff_activation": "relu"}, {"clamp_len": 8}]):
        make_directory(tmp_path / str(number), "bin", **changes)
        with pytest.raises(ArtifactError, match=next(iter(changes))):
            import_model(tmp_path / str(number), tmp_path / "run")
    assert not (tmp_path / "run").exists()

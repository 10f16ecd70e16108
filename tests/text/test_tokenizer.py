"""Tokenizers: lossless, deterministic, and robust against damaged models."""

import hashlib
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import ArtifactError, DataError
from regard.text.normalise import normalise
from regard.text.tokenizer import Tokenizer, TokenizerPair
from regard.text.vocabulary import MIN_SIZES, TokenizerKind, default_vocab_size, train_tokenizer
from regard.text.words import group_words

SYLLABLES = [
    "the",
    "ca",
    "t",
    "dog",
    "stre",
    "et",
    "ani",
    "mal",
    "cro",
    "ss",
    "ed",
    "tir",
    "wi",
    "de",
    "Ka",
    "tze",
    "ü",
    "ße",
]


def make_lines(n: int = 600) -> list[str]:
    rng = random.Random(1)
    words = ["the", "cat", *("".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(300))]
    return [" ".join(rng.choices(words, k=rng.randint(2, 9))) + "." for _ in range(n)]


LINES = make_lines()
TOKENIZERS = {
    kind: Tokenizer(train_tokenizer(LINES, size=420, kind=kind, tags=["de", "fr"]))  # type: ignore[arg-type]
    for kind in ("bpe", "unigram", "char")
}
TOKENIZERS["word"] = Tokenizer(train_tokenizer(LINES, kind="word", tags=["de", "fr"]))
LOSSLESS = ["bpe", "unigram", "char"]
each_kind = pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
each_sampled_kind = pytest.mark.parametrize("kind", ["bpe", "unigram"])
each_lossless_kind = pytest.mark.parametrize("kind", LOSSLESS)
marks = st.sampled_from([*"ab \u2581<>/\ufdd0\n", "<s>", "</s>", "<0x41>", ">>de<<"])
any_text = st.text(st.characters()) | st.lists(marks).map("".join)


@each_lossless_kind
@settings(deadline=None)
@given(text=any_text)
def test_decoding_gives_the_normalised_text(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == normalise(text)
    assert ids == tokenizer.encode_many([text])[0]
    assert not set(ids) & {tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id}


@each_kind
@settings(deadline=None)
@given(data=st.data())
def test_any_ids_decode_to_one_line(kind: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.size - 1), max_size=30))
    assert "\n" not in tokenizer.decode(ids)


@each_kind
def test_training_is_deterministic(kind: str) -> None:
    size = None if kind == "word" else 420
    again = train_tokenizer(iter(LINES), size=size, kind=kind, tags=["de", "fr"])  # type: ignore[arg-type]
    assert again == TOKENIZERS[kind].to_bytes()


@settings(deadline=None)
@given(text=any_text)
def test_words_are_split_at_spaces_and_unknown_ones_are_one_symbol_each(text: str) -> None:
    tokenizer, words = TOKENIZERS["word"], [*normalise(text).split(), "the", "cat"]
    ids = tokenizer.encode(" ".join(words))
    assert len(ids) == len(words)
    decoded = [word if word in ("the", "cat") else "<unk>" for word in words]
    assert tokenizer.decode(ids) == " ".join(decoded)
    assert ids == tokenizer.encode_many([" ".join(words)])[0]
    assert tokenizer.encode(tokenizer.decode(ids)) == ids
    assert [len(group) for group in group_words(tokenizer, ids)] == [1] * len(words)


def test_a_vocabulary_of_words_has_those_that_occur_twice_or_as_many_as_asked_for() -> None:
    lines = ["the cat <unk> sat", "the cat <unk> ran", "the dog sat"]
    tokenizer = Tokenizer(train_tokenizer(lines, kind="word"))
    assert tokenizer.pieces("the cat sat ran dog <unk>") == ["▁the", "▁cat", "▁sat", "▁<unk>", "▁<unk>", "▁<unk>"]
    assert tokenizer.size == 4 + 3
    assert Tokenizer(train_tokenizer(lines, kind="word", size=6)).decode([4, 5]) == "the cat"
    assert Tokenizer(train_tokenizer(lines, kind="word", size=100)).size == 4 + 5
    with pytest.raises(DataError, match="occurs twice"):
        train_tokenizer(["a b c"], kind="word")


def test_characters_outside_the_vocabulary_are_bytes() -> None:
    tokenizer = TOKENIZERS["char"]
    assert tokenizer.pieces("the ▁é") == ["▁", "t", "h", "e", "▁", *["<0xE2>", "<0x96>", "<0x81>", "<0xC3>", "<0xA9>"]]


@pytest.mark.parametrize("kind", ["char", "word"])
def test_too_small_a_size_names_the_smallest(kind: TokenizerKind) -> None:
    smallest = MIN_SIZES[kind] + 1
    with pytest.raises(DataError, match="too small") as refused:
        train_tokenizer(LINES, kind=kind, size=smallest - 1, tags=["de"])
    assert str(smallest) in str(refused.value.hint)
    assert Tokenizer(train_tokenizer(LINES, kind=kind, size=smallest, tags=["de"])).size == smallest


@each_kind
def test_a_tag_is_one_id_that_text_cannot_produce(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    assert tokenizer.tags == ("de", "fr")
    assert tokenizer.pieces("the cat", tag="de")[0] == ">>de<<"
    assert tokenizer.encode("the cat", tag="de")[1:] == tokenizer.encode("the cat")
    assert tokenizer.encode("x", tag="de")[0] not in tokenizer.encode(">>de<< x")
    assert tokenizer.decode(tokenizer.encode("the cat", tag="de")) == "the cat"
    with pytest.raises(DataError, match="'xx'"):
        tokenizer.encode("the cat", tag="xx")


@each_sampled_kind
def test_sampling_changes_the_segmentation_but_not_the_text(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    lines = [*LINES[:50], "한국어 ▁ 👍", ""]
    sequences = [[*ids, tokenizer.eos_id] for ids in tokenizer.encode_many(lines, tag="fr")]
    sampled = tokenizer.sample_many(sequences, 0.2, seed=3)
    assert sampled == tokenizer.sample_many(sequences, 0.2, seed=3)
    assert sampled != tokenizer.sample_many(sequences, 0.2, seed=4)
    assert sampled != sequences
    assert [tokenizer.decode(ids) for ids in sampled] == [normalise(line) for line in lines]
    assert all(new[0] == old[0] and new[-1] == old[-1] for new, old in zip(sampled, sequences, strict=True))


@pytest.mark.parametrize("kind", ["char", "word"])
def test_characters_and_words_cannot_be_sampled(kind: str) -> None:
    with pytest.raises(ValueError, match="sub-words"):
        TOKENIZERS[kind].sample_many([[5, 6]], 0.1, seed=1)


def test_dropout_0_gives_the_usual_segmentation_and_1_gives_letters() -> None:
    tokenizer = TOKENIZERS["bpe"]
    sequences = tokenizer.encode_many(LINES[:100])
    assert tokenizer.sample_many(sequences, 0.0, seed=1) == sequences
    letters = tokenizer.sample_many(sequences[:1], 1.0, seed=1)[0]
    assert len(letters) == len(LINES[0]) + 1


def test_unigram_sampling_with_a_large_exponent_gives_the_best_segmentation() -> None:
    tokenizer = TOKENIZERS["unigram"]
    sequences = tokenizer.encode_many(LINES[:50])
    n_same = sum(a == b for a, b in zip(tokenizer.sample_many(sequences, 50.0, seed=1), sequences, strict=True))
    assert n_same >= 48


@each_sampled_kind
def test_sampling_is_the_same_in_another_process(kind: str, tmp_path: Path) -> None:
    tokenizer = TOKENIZERS[kind]
    model = tmp_path / "tokenizer.model"
    model.write_bytes(tokenizer.to_bytes())
    program = (
        "import sys, hashlib; from pathlib import Path; from regard.text.tokenizer import Tokenizer\n"
        "t = Tokenizer(Path(sys.argv[1]).read_bytes())\n"
        "print(hashlib.sha256(repr(t.sample_many([t.encode(sys.argv[2])] * 20, 0.3, 9)).encode()).hexdigest())"
    )
    other = subprocess.run([sys.executable, "-c", program, str(model), LINES[0]], capture_output=True, text=True)
    sampled = tokenizer.sample_many([tokenizer.encode(LINES[0])] * 20, 0.3, 9)
    assert other.stdout.strip() == hashlib.sha256(repr(sampled).encode()).hexdigest(), other.stderr


def test_threads_can_share_a_tokenizer() -> None:
    tokenizer = Tokenizer(TOKENIZERS["bpe"].to_bytes())
    expected = [TOKENIZERS["bpe"].encode(line) for line in LINES]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tokenizer.encode, LINES)) == expected


def test_damaged_models_are_refused() -> None:
    model = TOKENIZERS["bpe"].to_bytes()
    for damaged in (b"", b"junk", model[: len(model) // 2], b"\x00" * 50):
        with pytest.raises(ArtifactError):
            Tokenizer(damaged)


def test_a_model_with_random_bytes_is_refused_or_works() -> None:
    model, rng = TOKENIZERS["bpe"].to_bytes(), random.Random(5)
    n_refused = 0
    for _ in range(150):
        damaged = bytearray(model)
        for _ in range(rng.choice([1, 3, 20])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            tokenizer = Tokenizer(bytes(damaged))
        except ArtifactError:
            n_refused += 1
            continue
        tokenizer.decode(range(tokenizer.size))
        tokenizer.decode(tokenizer.encode(LINES[0]))
    assert n_refused > 0


def test_too_large_a_size_is_reduced_and_too_small_a_size_is_refused() -> None:
    assert Tokenizer(train_tokenizer(["1 2 3", "3 2 1"], size=30_000)).size < 300
    with pytest.raises(DataError, match="too small"):
        train_tokenizer(LINES, size=100)


@pytest.mark.parametrize("lines", [[], ["", "  ", "\u2028"]])
def test_training_without_text_raises_data_error(lines: list[str]) -> None:
    with pytest.raises(DataError, match="no text"):
        train_tokenizer(lines)


def test_training_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    train_tokenizer(LINES[:100])
    assert capfd.readouterr() == ("", "")


def test_the_default_size_grows_with_the_corpus() -> None:
    sizes = [default_vocab_size(n) for n in range(0, 10_000_000, 5_003)]
    assert sizes == sorted(sizes)
    assert default_vocab_size(2 * 29_000) == 8_000
    assert 10_000 <= default_vocab_size(2 * 165_000) <= 12_000
    assert default_vocab_size(2 * 4_500_000) == 37_000


def test_a_pair_is_joint_if_both_sides_are_the_same_object() -> None:
    bpe, unigram = TOKENIZERS["bpe"], TOKENIZERS["unigram"]
    assert TokenizerPair(bpe, bpe).joint
    assert not TokenizerPair(bpe, unigram).joint


@each_kind
def test_the_kind_is_recognised_from_the_model(kind: TokenizerKind) -> None:
    lines = ["the animal did not cross the street", "one two three"] * 9
    assert Tokenizer(train_tokenizer(lines, kind=kind)).kind == kind


def test_blanks_become_one_id_with_the_space_before_them() -> None:
    lines = ["the cat sat on the mat .", "a dog ran to the cat ."] * 20
    for kind in ("bpe", "unigram", "word", "char"):
        tokenizer = Tokenizer(train_tokenizer(lines, kind=kind, mask=True))  # type: ignore[arg-type]
        mask = tokenizer.mask_id
        assert mask is not None and tokenizer.piece(mask) == "[MASK]" and tokenizer.decode([mask]) == ""
        ids, first = tokenizer.encode_with_blanks("the [MASK] sat [MASK][MASK] \u2581 ."), tokenizer.encode("the")
        assert ids.count(mask) == 3 and ids[: len(first) + 1] == [*first, mask]
        assert mask not in tokenizer.encode("the [MASK] sat"), "only asked for"
        assert tokenizer.encode_with_blanks("the cat sat") == tokenizer.encode("the cat sat")
        assert tokenizer.encode_with_blanks("") == []
    assert Tokenizer(train_tokenizer(lines)).mask_id is None

"""Model internals and training progress over HTTP."""

import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.artifact import describe
from regard.data import build_store
from regard.errors import UserError
from regard.lens import Lens
from regard.lens.interventions import Interventions
from regard.lens.look_json import count_numbers
from regard.models import Transformer, TransformerConfig, model_sites
from regard.serve import ServedModel, Service, Settings, create_app, load_models
from regard.serve.inside.look_service import validation_pairs
from regard.text import Tokenizer, TokenizerPair, train_tokenizer

from .fakes import TIMEOUT_SECONDS, served, wait_until

GOLDEN = Path(__file__).parents[1] / "golden" / "model"
TEXT = {"text": "one two three"}


class Record:
    """A result of the fake lens."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value
        self.source = SimpleNamespace(ids=())
        self.target = SimpleNamespace(outputs=SimpleNamespace(ids=()))

    def to_dict(self, arrays: str = "list") -> dict[str, Any]:
        return {**self.value, "arrays": arrays}


class FakeLens:
    """Returns its arguments. While `released` is not set, looks wait."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.released.set()
        self.n_looks = 0

    def count_numbers(self, n_source: int, n_target: int) -> int:
        return 4_000 * (n_source + n_target)

    def look(
        self,
        text: str,
        translation: str | None = None,
        *,
        interventions: Interventions,
        beam: int = 4,
        target: str | None = None,
        dependence: bool = False,
    ) -> Record:
        self.n_looks += 1
        assert self.released.wait(TIMEOUT_SECONDS)
        if text == "fail":
            raise UserError("cannot look at this")
        arguments = {"text": text, "translation": translation, "beam": beam, **interventions.to_dict()}
        return Record({**arguments, "nan": float("nan")})

    def heads(self, pairs: Sequence[tuple[str, str]], *, target: str | None = None) -> Record:
        return Record({"pairs": list(pairs), "target": target})


@pytest.fixture
def lens() -> Iterator[FakeLens]:
    lens = FakeLens()
    yield lens
    lens.released.set()


def create_client(lens: Any, *models: ServedModel, **settings: Any) -> TestClient:
    service = Service(models or [served()], Settings(**settings))
    return TestClient(create_app(service, load=lambda _: lens), base_url="http://localhost")


def test_look_passes_its_arguments_and_interventions_to_the_lens(lens: FakeLens) -> None:
    body = {**TEXT, "translation": "x", "beam": 2, "arrays": "base64"}
    heads_off = [{"attention": "cross", "layer": 1, "head": 0}]
    interventions = {"heads_off": heads_off, "scale": False, "mask": False, "positions": "none"}
    with create_client(lens) as api:
        look = api.post("/v1/look", json={**body, "interventions": interventions}).json()
    assert look == {**body, **interventions, "nan": None}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"text": "fail"}, 400),
        ({"text": "a" * 20_000}, 413),
        ({**TEXT, "beam": 50}, 400),
        ({**TEXT, "interventions": {"positions": "upside down"}}, 422),
        ({**TEXT, "interventions": {"heads_off": [{"attention": "cross", "layer": -1, "head": 0}]}}, 422),
        ({**TEXT, "model": "none"}, 404),
    ],
)
def test_invalid_looks_are_refused(lens: FakeLens, body: Any, status: int) -> None:
    with create_client(lens) as api:
        assert api.post("/v1/look", json=body).status_code == status


def test_number_of_queued_looks_is_limited(lens: FakeLens) -> None:
    lens.released.clear()
    with create_client(lens, max_looks=2) as api, ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(api.post, "/v1/look", json=TEXT) for _ in range(3)]
        [refused], queued = wait(futures, timeout=TIMEOUT_SECONDS, return_when=FIRST_COMPLETED)
        assert refused.result().status_code == 429 and refused.result().headers["retry-after"]
        lens.released.set()
        assert [future.result().status_code for future in queued] == [200, 200]


def test_look_that_exceeds_its_deadline_gets_504_and_is_never_encoded(
    lens: FakeLens, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[str] = []

    def to_dict(record: Record, arrays: str) -> dict[str, Any]:
        encoded.append(record.value["text"])
        return {}

    monkeypatch.setattr(Record, "to_dict", to_dict)
    lens.released.clear()
    with create_client(lens, deadline_seconds=0.1) as api:
        assert api.post("/v1/look", json={"text": "late"}).status_code == 504
        lens.released.set()
        wait_until(lambda: api.post("/v1/look", json={"text": "next"}).status_code == 200)
    assert set(encoded) == {"next"}


@pytest.mark.parametrize("arrays", ["list", "base64"])
def test_too_large_look_is_refused_before_it_is_computed(lens: FakeLens, arrays: str) -> None:
    model = served(description=describe(GOLDEN))
    body = {"text": " ".join(["7"] * 300), "arrays": arrays}
    with create_client(lens, model, max_numbers=400_000) as api:
        refused = api.post("/v1/look", json=body)
        assert refused.status_code == 413 and "numbers" in refused.json()["error"]["message"]
    with create_client(lens, model) as api:
        unmasked = api.post("/v1/look", json={**body, "interventions": {"mask": False}})
        assert unmasked.status_code == 413 and "mask" in unmasked.json()["error"]["message"]
    assert not lens.n_looks


def test_limit_allows_sixty_words_on_the_base_model_of_the_paper() -> None:
    sites = model_sites(Transformer(TransformerConfig(), 100, 100))
    assert count_numbers(sites, 100, 100) < Settings().max_numbers < count_numbers(sites, 250, 250)
    assert count_numbers(sites, 30, 30) < Settings().max_numbers // 4


def test_count_numbers_matches_a_real_look() -> None:
    lens = Lens.load(GOLDEN)
    look = lens.look("3 1 2", "1 2 3")
    record = look.to_dict()
    counted = lens.count_numbers(len(look.source.ids), len(look.target.outputs.ids))
    n_labels = len(record["attentions"]) + len(record["sublayers"]) + len(record["feed_forward"])  # "layer": 0
    fields = ("embedding", "attentions", "sublayers", "feed_forward")
    n_numbers = sum(_count(record[name]) for name in fields) - n_labels
    assert counted == n_numbers


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_count, value.values()))
    return sum(map(_count, value)) if isinstance(value, list) else isinstance(value, int | float)


def test_run_is_served_while_it_trains_and_its_model_is_loaded_when_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.serve.service._RUN_CHECK_SECONDS", 0.05)
    run = tmp_path / "en-de"
    run.mkdir()
    (run / "recipe.toml").write_text("")
    (run / "journal.jsonl").write_text("")
    with TestClient(create_app(Service(load_models([run], n_engines=1))), base_url="http://localhost") as api:
        assert api.get("/").status_code == 200
        [model] = api.get("/v1/models").json()["models"]
        assert (model["name"], model["ready"], model["training"]) == ("en-de", False, True)
        assert api.get("/v1/training").json()["format"] == "regard-run/2"
        assert api.get("/metrics").status_code == api.get("/livez").status_code == 200
        for path in ("/v1/translate", "/v1/translate?stream=1", "/v1/look"):
            refused = api.post(path, json=TEXT)
            assert refused.status_code == 503 and refused.json()["error"]["code"] == "not_ready"
        assert api.get("/v1/heads").status_code == api.get("/languages").status_code == 503
        shutil.copytree(GOLDEN, run / "model.copying")
        (run / "model.copying").rename(run / "model")
        wait_until(lambda: api.get("/v1/models").json()["models"][0]["ready"])
        [translation] = api.post("/v1/translate", json={"text": "3 1 2"}).json()["translations"]
        assert translation["text"]
        assert api.post("/v1/look", json={"text": "3 1 2"}).status_code == api.get("/languages").status_code == 200


def test_ready_model_is_preferred_to_one_that_trains(lens: FakeLens, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text("")
    with create_client(lens, ServedModel("training", (), run=tmp_path), served()) as api:
        assert api.post("/v1/translate", json=TEXT).json()["model"] == "upper"
        assert api.post("/v1/translate", json={**TEXT, "model": "training"}).status_code == 503
        assert api.get("/v1/training").json()["name"] == tmp_path.name
        assert [model["ready"] for model in api.get("/v1/models").json()["models"]] == [False, True]


def test_model_without_its_run_has_neither_heads_nor_training(lens: FakeLens) -> None:
    with create_client(lens) as api:
        assert api.get("/v1/heads").status_code == api.get("/v1/training").status_code == 404


def test_run_without_validation_text_has_training_but_no_heads(lens: FakeLens, tmp_path: Path) -> None:
    steps = [{"event": "step", "time": 1.0, "step": i, "steps": 9, "loss": 2.0, "nll": 2.0} for i in range(1, 4)]
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    (tmp_path / "recipe.toml").write_text("")
    with create_client(lens, served(run=tmp_path, description=describe(GOLDEN))) as api:
        assert api.get("/v1/training").json()["format"] == "regard-run/2"
        assert api.get("/v1/heads").status_code == 404
        assert api.get("/v1/models").json()["models"][0]["training"] is True


def test_real_model_translates_and_can_be_inspected() -> None:
    [model] = load_models([GOLDEN], n_engines=1)
    assert model.name == "golden" and model.facts["n_parameters"] > 1_000
    with TestClient(create_app(Service([model])), base_url="http://localhost") as api:
        source = (GOLDEN.parent / "source.txt").read_text().splitlines()[0]
        [translation] = api.post("/v1/translate", json={"text": source, "details": True}).json()["translations"]
        assert translation["text"] and len(translation["words"]) == len(translation["text"].split())
        look = api.post("/v1/look", json={"text": source}).json()
        assert look["format"] == "regard-look/1" and look["target"]["text"]
        interventions = {"heads_off": [{"attention": "encoder", "layer": 0, "head": 0}], "mask": False}
        changed = api.post("/v1/look", json={"text": source, "interventions": interventions}).json()
        assert changed["change"] is not None
        unknown = {"heads_off": [{"attention": "encoder", "layer": 99, "head": 0}]}
        assert api.post("/v1/look", json={"text": source, "interventions": unknown}).status_code == 400


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    lines = ["one two three", "eins zwei drei", "un deux trois"] * 5
    tokenizer = Tokenizer(train_tokenizer(lines, tags=("de", "fr")))
    return TokenizerPair(tokenizer, tokenizer)


def model_with_validation_text(directory: Path, tokenizers: TokenizerPair, tags: Sequence[str | None]) -> ServedModel:
    """A model whose run has validation text: pair i is `i one` → `i TAG`, with the i-th tag."""

    def encode(pairs: list[tuple[str, str, int]]) -> tuple[list[list[int]], list[list[int]]]:
        sources = [tokenizers.source.encode(source, tag=tags[int(source.split()[0])]) for source, _, _ in pairs]
        return sources, tokenizers.target.encode_many(target for _, target, _ in pairs)

    pairs = ((f"{number} one", f"{number} {tag}", 0) for number, tag in enumerate(tags))
    size = tokenizers.source.size
    build_store(directory / "data" / "validation", pairs, encode, max_length=99, vocab_size=size, key="k")
    description: Any = SimpleNamespace(tokenizers=tokenizers, model={}, facts={})
    return served(run=directory, description=description, tags=tuple(sorted({tag for tag in tags if tag})))


def test_validation_pairs_are_limited_to_one_target_language(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    model = model_with_validation_text(tmp_path, tokenizers, ["de", "fr", "fr", "de", "fr", "fr"])
    assert validation_pairs(model, 10, "de") == [("0 one", "0 de"), ("3 one", "3 de")]
    assert validation_pairs(model, 2, "fr") == [("1 one", "1 fr"), ("5 one", "5 fr")]
    assert len(validation_pairs(model, 10)) == 6


def test_validation_pairs_are_spread_evenly(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    model = model_with_validation_text(tmp_path, tokenizers, [None] * 9)
    assert [source for source, _ in validation_pairs(model, 3)] == ["0 one", "4 one", "8 one"]


def test_target_language_without_validation_text_has_no_pairs(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    assert validation_pairs(model_with_validation_text(tmp_path, tokenizers, ["fr"] * 3), 10, "de") == []


def test_heads_are_measured_on_pairs_of_the_first_target_language(
    lens: FakeLens, tmp_path: Path, tokenizers: TokenizerPair
) -> None:
    model = model_with_validation_text(tmp_path, tokenizers, ["fr", "de", "fr"])
    with create_client(lens, model) as api:
        heads = api.get("/v1/heads").json()
    assert (heads["pairs"], heads["target"]) == ([["1 one", "1 de"]], "de")

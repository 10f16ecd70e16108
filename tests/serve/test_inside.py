"""Looking inside and the story of a run, over HTTP."""

import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from regard.artifact import describe
from regard.errors import UserError
from regard.lens import Lens
from regard.lens.interventions import Interventions
from regard.serve import ServedModel, Service, Settings, create_app, load_models
from regard.serve.http.responses import json_parts, to_json
from regard.serve.inside.look_service import count_numbers

from .fakes import served

GOLDEN = Path(__file__).parents[1] / "golden" / "model"
TEXT = {"text": "one two three"}


class Glass:
    """A lens that tells what it was asked."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()
        self.begun = threading.Event()
        self.n_looks = 0

    def look(
        self,
        text: str,
        translation: str | None = None,
        *,
        interventions: Interventions,
        beam: int = 4,
        target: str | None = None,
    ) -> Any:
        self.n_looks += 1
        self.begun.set()
        self.free.wait(20)
        if text == "no":
            raise UserError("there is nothing to see")
        return Told({"text": text, "given": translation, "beam": beam, **interventions.to_dict(), "nan": float("nan")})

    def heads(self, pairs: Sequence[tuple[str, str]], *, target: str | None = None) -> Any:
        return Told({"n_sentences": len(pairs)})


class Told:
    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value

    def to_dict(self, arrays: str = "list") -> dict[str, Any]:
        return {**self.value, "arrays": arrays}


@pytest.fixture
def glass() -> Iterator[Glass]:
    glass = Glass()
    yield glass
    glass.free.set()


def client(glass: Glass, *models: ServedModel, **settings: Any) -> TestClient:
    return TestClient(
        create_app(Service(models or [served()], Settings(**settings)), load=lambda _: glass),
        base_url="http://localhost",
    )


def test_a_look_is_passed_on_with_its_interventions(glass: Glass) -> None:
    off = [{"attention": "cross", "layer": 1, "head": 0}]
    asked = {**TEXT, "translation": "x", "beam": 2, "arrays": "base64"}
    changed = {"heads_off": off, "scale": False, "mask": False, "positions": "none"}
    with client(glass) as api:
        found = api.post("/v1/look", json={**asked, "interventions": changed}).json()
    assert found == {"text": TEXT["text"], "given": "x", "beam": 2, **changed, "nan": None, "arrays": "base64"}


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"text": "no"}, 400),
        ({"text": "a" * 20_000}, 413),
        ({**TEXT, "beam": 50}, 400),
        ({**TEXT, "interventions": {"positions": "upside down"}}, 422),
        ({**TEXT, "interventions": {"heads_off": [{"attention": "cross", "layer": -1, "head": 0}]}}, 422),
        ({**TEXT, "model": "none"}, 404),
    ],
)
def test_a_look_that_can_not_be_is_refused(glass: Glass, asked: Any, status: int) -> None:
    with client(glass) as api:
        assert api.post("/v1/look", json=asked).status_code == status


def test_only_so_many_looks_wait(glass: Glass) -> None:
    glass.free.clear()
    with client(glass, max_looks=2) as api, ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(api.post, "/v1/look", json=TEXT) for _ in range(3)]
        [refused], waiting = wait(asked, timeout=20, return_when=FIRST_COMPLETED)
        assert refused.result().status_code == 429 and refused.result().headers["retry-after"]
        glass.free.set()
        assert [one.result().status_code for one in waiting] == [200, 200]


def test_a_look_has_a_deadline(glass: Glass) -> None:
    glass.free.clear()
    with client(glass, deadline_seconds=0.1) as api:
        assert api.post("/v1/look", json=TEXT).status_code == 504
        glass.free.set()


def test_a_look_that_was_given_up_is_not_written(glass: Glass, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []

    def write(told: Told, arrays: str) -> dict[str, Any]:
        written.append(told.value)
        return {}

    monkeypatch.setattr(Told, "to_dict", write)
    glass.free.clear()
    with client(glass, deadline_seconds=0.1) as api:
        assert api.post("/v1/look", json=TEXT).status_code == 504
        glass.free.set()
        assert api.post("/v1/look", json={"text": "next"}).status_code == 200
    assert [one["text"] for one in written] == ["next"]


@pytest.mark.parametrize("arrays", ["list", "base64"])
def test_a_look_of_too_many_numbers_is_refused_before_it_is_looked(glass: Glass, arrays: str) -> None:
    model = served(description=describe(GOLDEN))
    long = {"text": " ".join(["7"] * 300), "arrays": arrays}
    with client(glass, model, max_numbers=400_000) as api:
        refused = api.post("/v1/look", json=long)
        assert refused.status_code == 413 and "numbers" in refused.json()["error"]["message"]
    with client(glass, model) as api:
        unmasked = api.post("/v1/look", json={**long, "interventions": {"mask": False}})
        assert unmasked.status_code == 413 and "mask" in unmasked.json()["error"]["message"]
    assert not glass.n_looks


def test_sixty_words_on_the_papers_base_model_can_be_looked_at() -> None:
    base = {"d_model": 512, "d_ff": 2048, "n_heads": 8, "n_encoder_layers": 6, "n_decoder_layers": 6}
    assert count_numbers(base, 100, 100) < Settings().max_numbers < count_numbers(base, 250, 250)
    assert count_numbers(base, 30, 30) < Settings().max_numbers // 4


def test_the_numbers_of_a_look_are_counted_as_they_are() -> None:
    look = Lens.load(GOLDEN).look("3 1 2", "1 2 3")
    written = look.to_dict()
    counted = count_numbers(describe(GOLDEN).model, len(look.source.ids), len(look.target.outputs.ids))
    named = ("embedding", "attentions", "sublayers", "feed_forward")
    n_labels = len(written["attentions"]) + len(written["sublayers"]) + len(written["feed_forward"])  # layer: 0
    n_numbers = sum(_count(written[name]) for name in named) - n_labels
    n_unmasked = look.model.config.n_encoder_layers * len(look.source.ids) ** 2  # visible: null, counted all the same
    assert n_numbers <= counted <= n_numbers + n_unmasked + look.model.config.n_decoder_layers * 100


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_count, value.values()))
    return sum(map(_count, value)) if isinstance(value, list) else isinstance(value, int | float)


@given(
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_in_parts_is_the_same_json(value: Any) -> None:
    assert b"".join(json_parts(value)) == to_json(value)


def test_large_json_comes_in_parts() -> None:
    parts = list(json_parts({"rows": [[0.25] * 1_000] * 1_000}))
    assert len(parts) > 10 and max(map(len, parts)) < 300_000
    assert json.loads(b"".join(parts)) == {"rows": [[0.25] * 1_000] * 1_000}


def test_a_run_that_trains_is_served_and_its_model_taken_in_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.serve.service._RUN_CHECK_SECONDS", 0.05)
    run = tmp_path / "en-de"
    run.mkdir()
    (run / "recipe.toml").write_text("")
    (run / "journal.jsonl").write_text("")
    with TestClient(create_app(Service(load_models([run], n_engines=1))), base_url="http://localhost") as api:
        assert api.get("/").status_code == 200
        [told] = api.get("/v1/models").json()["models"]
        assert (told["name"], told["ready"], told["training"]) == ("en-de", False, True)
        assert api.get("/v1/training").json()["format"] == "regard-run/1"
        assert api.get("/metrics").status_code == api.get("/livez").status_code == 200
        for path in ("/v1/translate", "/v1/translate?stream=1", "/v1/look"):
            refused = api.post(path, json=TEXT)
            assert refused.status_code == 503 and refused.json()["error"]["code"] == "not_ready"
        assert api.get("/v1/heads").status_code == api.get("/languages").status_code == 503
        shutil.copytree(GOLDEN, run / "model")
        end = monotonic() + 20
        while not api.get("/v1/models").json()["models"][0]["ready"]:
            assert monotonic() < end
            sleep(0.02)
        [found] = api.post("/v1/translate", json={"text": "3 1 2"}).json()["translations"]
        assert found["text"]
        assert api.post("/v1/look", json={"text": "3 1 2"}).status_code == api.get("/languages").status_code == 200


def test_a_model_that_is_ready_is_preferred_to_one_that_trains(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text("")
    with client(Glass(), ServedModel("young", (), run=tmp_path), served()) as api:
        assert api.post("/v1/translate", json=TEXT).json()["model"] == "loud"
        assert api.post("/v1/translate", json={**TEXT, "model": "young"}).status_code == 503
        assert api.get("/v1/training").json()["name"] == tmp_path.name
        assert [model["ready"] for model in api.get("/v1/models").json()["models"]] == [False, True]


def test_a_model_without_its_run_has_neither_heads_nor_training(glass: Glass) -> None:
    with client(glass) as api:
        assert api.get("/v1/heads").status_code == api.get("/v1/training").status_code == 404


def test_a_run_has_its_story_and_heads_only_with_its_text(glass: Glass, tmp_path: Path) -> None:
    steps = [{"event": "step", "time": 1.0, "step": i, "steps": 9, "loss": 2.0, "nll": 2.0} for i in range(1, 4)]
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    (tmp_path / "recipe.toml").write_text("")
    with client(glass, served(run=tmp_path, description=describe(GOLDEN))) as api:
        assert api.get("/v1/training").json()["format"] == "regard-run/1"
        assert api.get("/v1/heads").status_code == 404
        assert api.get("/v1/models").json()["models"][0]["training"] is True


def test_a_real_model_is_translated_with_and_looked_into() -> None:
    [model] = load_models([GOLDEN], n_engines=1)
    assert model.name == "golden" and model.facts["n_parameters"] > 1_000
    with TestClient(create_app(Service([model])), base_url="http://localhost") as api:
        source = (GOLDEN.parent / "source.txt").read_text().splitlines()[0]
        [found] = api.post("/v1/translate", json={"text": source, "details": True}).json()["translations"]
        assert found["text"] and len(found["words"]) == len(found["text"].split())
        look = api.post("/v1/look", json={"text": source}).json()
        assert look["format"] == "regard-look/1" and look["target"]["text"]
        off = {"heads_off": [{"attention": "encoder", "layer": 0, "head": 0}], "mask": False}
        assert api.post("/v1/look", json={"text": source, "interventions": off}).json()["change"] is not None
        none = {"heads_off": [{"attention": "encoder", "layer": 99, "head": 0}]}
        assert api.post("/v1/look", json={"text": source, "interventions": none}).status_code == 400

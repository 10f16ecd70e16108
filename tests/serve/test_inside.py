"""Looking inside and the story of a run, over HTTP."""

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.artifact import describe
from regard.errors import UserError
from regard.lens.interventions import Interventions
from regard.serve import ServedModel, Service, Settings, create_app, load_models

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


def client(glass: Glass, model: ServedModel | None = None, **settings: Any) -> TestClient:
    return TestClient(create_app(Service([model or served()], Settings(**settings)), load=lambda _: glass))


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


def test_a_model_without_its_run_has_neither_heads_nor_training(glass: Glass) -> None:
    with client(glass) as api:
        assert api.get("/v1/heads").status_code == api.get("/v1/training").status_code == 404


def test_a_run_has_its_story_and_heads_only_with_its_text(glass: Glass, tmp_path: Path) -> None:
    steps = [{"event": "step", "time": 1.0, "step": i, "steps": 9, "loss": 2.0, "nll": 2.0} for i in range(1, 4)]
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    (tmp_path / "recipe.toml").write_text("")
    with client(glass, served(run=tmp_path, described=describe(GOLDEN))) as api:
        assert api.get("/v1/training").json()["format"] == "regard-run/1"
        assert api.get("/v1/heads").status_code == 404
        assert api.get("/v1/models").json()["models"][0]["training"] is True


def test_a_real_model_is_translated_with_and_looked_into() -> None:
    [model] = load_models([GOLDEN], n_engines=1)
    assert model.name == "golden" and model.facts["n_parameters"] > 1_000
    with TestClient(create_app(Service([model]))) as api:
        source = (GOLDEN.parent / "source.txt").read_text().splitlines()[0]
        [found] = api.post("/v1/translate", json={"text": source, "details": True}).json()["translations"]
        assert found["text"] and len(found["words"]) == len(found["text"].split())
        look = api.post("/v1/look", json={"text": source}).json()
        assert look["format"] == "regard-look/1" and look["target"]["text"]
        off = {"heads_off": [{"attention": "encoder", "layer": 0, "head": 0}], "mask": False}
        assert api.post("/v1/look", json={"text": source, "interventions": off}).json()["change"] is not None
        none = {"heads_off": [{"attention": "encoder", "layer": 99, "head": 0}]}
        assert api.post("/v1/look", json={"text": source, "interventions": none}).status_code == 400

"""POST /v1/predict, and a service with a model of a task from elsewhere."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.serve import ServedModel, Settings, load_models
from regard.serve.batching.batcher import Batcher
from regard.serve.batching.jobs import PredictJob
from regard.serve.http.problem import Problem

from ..sign_task import SignPredictor, SignTask, registered, write_sign_model
from .fakes import KEY, TIMEOUT_SECONDS, create_client, served, wait_until

GOLDEN = Path(__file__).parents[1] / "golden" / "model"


@pytest.fixture
def task() -> Iterator[SignTask]:
    with registered() as task:
        yield task


@pytest.fixture
def sign(tmp_path: Path, task: SignTask) -> ServedModel:
    [model] = load_models([write_sign_model(tmp_path / "sign")])
    return model


def predict(client: TestClient, *inputs: Any, **fields: Any) -> Any:
    return client.post("/v1/predict", json={"input": list(inputs), **fields})


def error_of(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def test_inputs_are_texts_or_json_values(sign: ServedModel, task: SignTask) -> None:
    with create_client(sign) as client:
        reply = predict(client, [1, 2.5], "-3 1", [])
        assert reply.status_code == 200
        assert reply.json() == {
            "model": "sign",
            "output": [
                {"label": "positive", "total": 3.5},
                {"label": "negative", "total": -2.0},
                {"label": "negative", "total": 0.0},
            ],
        }
        assert predict(client).json() == {"model": "sign", "output": []}
        assert predict(client, "1", model="sign").status_code == 200
    assert task.predictors[0].threads == {"engine-0"}  # never the event loop, and only one thread


def test_a_translator_predicts_translations() -> None:
    with create_client(*load_models([GOLDEN], n_engines=1)) as client:
        [output] = predict(client, "12 34").json()["output"]
        [translation] = client.post("/v1/translate", json={"text": "12 34"}).json()["translations"]
        assert output == {name: translation[name] for name in ("text", "score", "warnings")}
        assert error_of(predict(client, [1, 2])) == (400, "can_not_predict")


def test_models_are_listed_with_task_and_architecture(sign: ServedModel, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").touch()
    with create_client(sign, *load_models([GOLDEN, tmp_path / "run"], n_engines=1)) as client:
        models = client.get("/v1/models").json()["models"]
    assert (models[0]["size"], models[0]["config"]) == ("2 terms", {"n_terms": 2})
    assert models[1]["config"]["n_heads"] == 2
    listed = [(model["name"], model["task"], model["architecture"], model["ready"]) for model in models]
    assert listed == [
        ("sign", "sign", "adder", True),
        ("golden", "translation", "transformer", True),
        ("run", None, None, False),
    ]


def test_routes_for_translators_say_that_the_model_is_none(sign: ServedModel) -> None:
    message = "sign does not translate: its task is sign; use POST /v1/predict"
    with create_client(sign) as client:
        for path, body in (("/v1/translate", {"text": "a"}), ("/v1/translate?stream=1", {"text": "a"})):
            reply = client.post(path, json=body)
            assert (reply.status_code, reply.json()["error"]["message"]) == (400, message)
        for reply in (
            client.post("/translate", json={"q": "a", "source": "en", "target": "de"}),
            client.post("/detect", json={"q": "a"}),
            client.get("/languages"),
        ):
            assert (reply.status_code, reply.json()) == (400, {"error": message})
        assert error_of(client.get("/v1/heads")) == (400, "no_translator")
        assert error_of(client.post("/v1/look", json={"text": "a"})) == (400, "no_translator")  # unless it is named


def test_a_look_at_a_model_of_another_task_is_what_the_task_says(sign: ServedModel) -> None:
    with create_client(sign, max_numbers=8) as client:  # 2 as lists

        def look(**fields: Any) -> Any:
            return client.post("/v1/look", json={"text": "1 2", "model": "sign"} | fields)

        assert look().json() == {"looked at": "1 2", "arrays": "list"}
        assert look(text="1 2 3", arrays="base64", target=None).json() == {"looked at": "1 2 3", "arrays": "base64"}
        assert error_of(look(text="1 2 3")) == (413, "too_long")
        assert error_of(look(text="one")) == (400, "can_not_look")
        reply = look(beam=2, dependence=True)
        assert reply.json()["error"]["message"] == "beam, dependence: only for translators"
        assert error_of(reply) == (400, "can_not_look")


def test_page_monitoring_and_documentation_work_without_a_translator(sign: ServedModel) -> None:
    with create_client(sign) as client:
        predict(client, "1")
        for path in ("/", "/livez", "/readyz", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 200, path
        metrics = client.get("/metrics").text
        assert 'regard_requests_total{route="/v1/predict",status="2xx"} 1.0' in metrics
        assert "regard_texts_total 1.0" in metrics
        schema = client.get("/openapi.json").json()
    assert set(schema["components"]["schemas"]["PredictRequest"]["properties"]) == {"input", "model"}
    assert "/v1/predict" in schema["paths"]


def test_translating_chooses_a_translator_and_predicting_the_first_model(sign: ServedModel) -> None:
    with create_client(sign, served(source="en", targets=("de",))) as client:
        assert client.post("/v1/translate", json={"text": "a"}).json()["model"] == "upper"
        assert client.get("/languages").status_code == 200
        assert error_of(client.post("/v1/translate", json={"text": "a", "model": "sign"})) == (400, "no_translator")
        assert predict(client, "1").json()["model"] == "sign"
        assert predict(client, "a", model="upper").json()["output"][0]["text"] == "A"
        assert error_of(predict(client, "1", model="none")) == (404, "no_model")


@pytest.mark.parametrize(
    ("inputs", "status", "code"),
    [
        (["1"] * 5, 413, "too_many"),
        (["1" * 101], 413, "too_long"),
        ([{"a": ["1" * 101]}], 413, "too_long"),
        ([[1] * 10_000], 413, "too_large"),
        (["one"], 400, "can_not_predict"),
        ([None], 400, "can_not_predict"),
    ],
)
def test_limits_and_invalid_inputs(sign: ServedModel, inputs: list[Any], status: int, code: str) -> None:
    with create_client(sign, max_text=100, max_texts=4, max_body=10_000) as client:
        assert error_of(predict(client, *inputs)) == (status, code)


@pytest.mark.parametrize(
    "content", [b'{"input": "1"}', b'{"input": [NaN]}', b'{"input": [{"a": [1e999]}]}', b'{"input": [1], "x": 1}', b"{"]
)
def test_a_body_that_is_not_the_schema_is_refused(sign: ServedModel, content: bytes) -> None:
    with create_client(sign) as client:
        reply = client.post("/v1/predict", content=content, headers={"Content-Type": "application/json"})
        assert error_of(reply) == (422, "not_understood")


def test_a_key_is_required(sign: ServedModel) -> None:
    with create_client(sign, keys=[KEY]) as client:
        assert error_of(predict(client, "1")) == (401, "key")
        reply = client.post("/v1/predict", json={"input": ["1"]}, headers={"Authorization": f"Bearer {KEY}"})
        assert reply.status_code == 200


def test_a_full_queue_refuses_and_other_routes_answer_meanwhile(sign: ServedModel, task: SignTask) -> None:
    started, released = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        assert released.wait(TIMEOUT_SECONDS)

    task.predictors[0].in_batch = wait
    with create_client(sign, max_waiting=1) as client:
        service = client.app_state["service"]
        threads = [threading.Thread(target=predict, args=(client, "1"))]
        threads[0].start()
        assert started.wait(TIMEOUT_SECONDS)
        threads.append(threading.Thread(target=predict, args=(client, "2")))
        threads[1].start()
        wait_until(lambda: service.batchers["sign"].n_waiting == 1)
        assert error_of(predict(client, "3")) == (429, "busy")
        assert client.get("/livez").status_code == 200
        released.set()
        for thread in threads:
            thread.join(TIMEOUT_SECONDS)
    assert task.predictors[0].batches == [["1"], ["2"]]


def test_an_invalid_input_does_not_fail_other_requests_in_its_batch() -> None:
    predictor = SignPredictor()

    async def run() -> list[Any]:
        settings = Settings(wait_seconds=0.5, max_waiting=9, stall_seconds=600.0)
        batcher = Batcher([predictor], settings, threads_per_predictor=1)
        requests = [
            batcher.run(PredictJob(), [value], lambda _: 1, deadline_seconds=TIMEOUT_SECONDS) for value in ("1", "one")
        ]
        results = await asyncio.gather(*requests, return_exceptions=True)
        batcher.close()
        return list(results)

    good, bad = asyncio.run(run())
    assert good == [{"label": "positive", "total": 1.0}]
    assert isinstance(bad, Problem) and bad.code == "can_not_predict"
    assert predictor.batches == [["1", "one"], ["1"], ["one"]]


def test_a_predictor_that_loses_an_input_is_an_error(sign: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SignPredictor, "predict", lambda self, inputs: [])
    with create_client(sign) as client:
        assert error_of(predict(client, "1")) == (500, "engine_error")
        assert client.get("/livez").status_code == 200

"""The API over HTTP: what it answers, and what it answers when it does not like the question."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.errors import UserError
from regard.serve import read_keys
from regard.serve.http.access_log import CSP

from .fakes import KEY, Shout, connected, served

SECRET = "xyzzy-plugh"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def api() -> Iterator[TestClient]:
    models = served(name="en-de", source="en", targets=("de",)), served(name="de-en", source="de", targets=("en",))
    with connected(*models, max_text=100, max_texts=4, max_body=10_000) as client:
        yield client


def test_one_text_several_texts_and_none(api: TestClient) -> None:
    one = api.post("/v1/translate", json={"text": "one two"}).json()
    assert one["model"] == "en-de" and one["milliseconds"] > 0
    assert one["translations"] == [{"text": "ONE TWO", "score": -1.0, "alternatives": [], "warnings": [], "n_parts": 1}]
    many = api.post("/v1/translate", json={"text": ["b", " ", "a"]}).json()["translations"]
    assert [found["text"] for found in many] == ["B", "", "A"]
    assert api.post("/v1/translate", json={"text": []}).json()["translations"] == []


def test_details_and_alternatives_come_when_asked_for(api: TestClient) -> None:
    asked = {"text": "one  two", "details": True, "alternatives": 2}
    [found] = api.post("/v1/translate", json=asked).json()["translations"]
    assert found["words"] == [{"text": "ONE", "probability": 0.5}, {"text": "TWO", "probability": 0.5}]
    assert found["source_words"] == ["one", "two"] and found["alignment"] == [[0, 0], [1, 1]]
    assert [token["text"] for token in found["tokens"]] == ["▁ONE", "▁TWO"]
    assert [other["text"] for other in found["alternatives"]] == ["ONE  TWO 1", "ONE  TWO 2"]


def test_languages_or_a_name_pick_the_model(api: TestClient) -> None:
    def picked(**asked: str) -> Any:
        return api.post("/v1/translate", json={"text": "a", **asked}).json().get("model")

    assert picked(source="de") == picked(target="en") == picked(model="de-en") == "de-en"
    assert api.post("/v1/translate", json={"text": "a", "target": "ko"}).status_code == 400
    assert api.post("/v1/translate", json={"text": "a", "model": "none"}).status_code == 404
    assert [model["name"] for model in api.get("/v1/models").json()["models"]] == ["en-de", "de-en"]


def test_a_stream_gives_every_sentence_in_its_order(api: TestClient) -> None:
    text = "One. Two! Three?\n\nFour. " + " ".join(f"Number {i}." for i in range(100))
    response = api.post("/v1/translate?stream=1", json={"text": [text, "last"]})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [event.split("\n") for event in response.text.strip().split("\n\n")]
    kinds = [lines[0] for lines in events]
    assert kinds == ["event: sentence"] * (len(events) - 1) + ["event: done"]
    told = [json.loads(lines[1].removeprefix("data: ")) for lines in events[:-1]]
    assert "".join(one["source"] + one["gap"] for one in told if one["index"] == 0) == text
    assert [one["text"] for one in told] == [one["source"].upper() for one in told]
    assert told[-1]["index"] == 1 and told[-1]["text"] == "LAST"


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"text": "a" * 101}, 413, "too_long"),
        ({"text": ["a"] * 5}, 413, "too_many"),
        ({"text": "a", "beam": 99}, 400, "too_wide"),
        ({"text": "a", "alternatives": 50}, 400, "too_wide"),
        ({"text": "a", "beem": 4}, 422, "not_understood"),
        ({"text": 4}, 422, "not_understood"),
        ({"text": "a", "beam": "4"}, 422, "not_understood"),
        ({"text": ["a" * 99] * 200}, 413, "too_large"),
        ({}, 422, "not_understood"),
    ],
)
def test_what_is_too_much_or_unknown_is_refused(api: TestClient, asked: Any, status: int, code: str) -> None:
    response = api.post("/v1/translate", json=asked)
    assert response.status_code == status
    error = response.json()["error"]
    assert error["code"] == code and error["message"] and error["request_id"] == response.headers["x-request-id"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"text": "\\ud800"}',
        b'{"text": "\\udc00\\ud800", "source": "\\ud83d"}',
        b'{"text": NaN}',
        b'{"text": "a", "beam": NaN}',
        b'{"text": "a", "beam": 1e999}',
        b'{"text": "a", "beam": 99999999999999999999999999}',
        b'{"text": "\xff\xfe"}',
        b"\xef\xbb\xbf{}",
        b'{"text":' + b"[" * 4_000 + b"]" * 4_000 + b"}",
        b'{"a":' * 1_000 + b"1" + b"}" * 1_000,
        b"null",
        b"[]",
        b'"text"',
        b'{"text": "a", "\\ud800": 1}',
    ],
)
@pytest.mark.parametrize("path", ["/v1/translate", "/v1/translate?stream=1", "/v1/look"])
def test_bad_json_is_the_clients_mistake(api: TestClient, body: bytes, path: str) -> None:
    response = api.post(path, content=body, headers=JSON)
    assert 400 <= response.status_code < 500, response.text
    assert response.json()["error"]["message"]


def test_only_json_is_read_so_no_foreign_form_can_ask(api: TestClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        response = api.post("/v1/translate", content=b'{"text": "a"}', headers={"Content-Type": kind})
        assert response.status_code == 415


def test_every_answer_has_an_id_and_the_security_headers(api: TestClient) -> None:
    for method, path in [("GET", "/"), ("GET", "/nothing"), ("POST", "/v1/translate"), ("PUT", "/livez")]:
        response = api.request(method, path, headers={"X-Request-Id": "mine-1"})
        assert response.headers["x-request-id"] == "mine-1"
        assert response.headers["content-security-policy"] == CSP
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in response.headers
    assert "default-src 'self'" in CSP and "unsafe" not in CSP
    insane = api.get("/livez", headers={"X-Request-Id": "<script>" + "a" * 100})
    assert insane.headers["x-request-id"].isalnum()


def test_the_documents_name_every_route_and_load_nothing_from_outside(api: TestClient) -> None:
    paths = api.get("/openapi.json").json()["paths"]
    assert {"/v1/translate", "/v1/look", "/v1/models", "/translate", "/livez", "/metrics"} <= set(paths)
    page = api.get("/docs").text
    assert "//" not in page.replace("<!doctype html>", "") and "<style" not in page
    assert api.get("/docs/docs.js").status_code == 200 and api.get("/docs/other.js").status_code == 404


def test_with_keys_every_route_but_liveness_and_the_page_wants_one() -> None:
    with connected(keys=[KEY]) as api:
        paths = api.app.openapi()["paths"]  # type: ignore[attr-defined]
        tried = [(method, path) for path, methods in paths.items() for method in methods]
        assert len(tried) > 10
        tried += [("get", "/docs"), ("get", "/openapi.json"), ("get", "/nothing"), ("get", "/docs/docs.js")]
        for method, path in tried:
            expected = {"/livez": 200}.get(path, 401)
            assert api.request(method, path).status_code == expected, path
            wrong = {"Authorization": "Bearer " + KEY[:-1]}
            assert api.request(method, path, headers=wrong).status_code == expected, path
        for path in ("/", "/static/main.js"):
            assert api.get(path).status_code == 200
        good = {"Authorization": f"Bearer {KEY}"}
        assert api.post("/v1/translate", json={"text": "a"}, headers=good).status_code == 200
        assert api.get("/metrics", headers=good).status_code == 200


def test_keys_come_from_a_file_plain_or_hashed(tmp_path: Path) -> None:
    import hashlib

    hashed = hashlib.sha256(b"another-key-of-mine").hexdigest()
    file = tmp_path / "keys"
    file.write_text(f"# of the team\n{KEY}  # ours\n\nsha256:{hashed}\n")
    keys = read_keys(file)
    assert keys.allow(KEY) and keys.allow("another-key-of-mine")
    assert not keys.allow(hashed) and not keys.allow("") and not keys.allow("# of the team")
    for bad in ("short\n", "\n# nothing\n", "sha256:" + "g" * 64):
        file.write_text(bad)
        with pytest.raises(UserError):
            read_keys(file)


def test_neither_text_nor_key_nor_path_reaches_logs_or_metrics(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = f"{SECRET}-{KEY}"
    good = {"Authorization": f"Bearer {key}"}
    with connected(keys=[key]) as api:
        for text in (SECRET, f"raise ValueError {SECRET}", SECRET * 9_999):
            api.post("/v1/translate", json={"text": text}, headers=good)
        api.post(f"/v1/translate?{SECRET}=1", content=SECRET, headers={**good, **JSON})
        api.get(f"/{SECRET}?q={SECRET}", headers={"Authorization": f"Bearer {SECRET}"})
        api.get(f"/v1/training?model={SECRET}", headers=good)
        measured = api.get("/metrics", headers=good).text
    ours = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("httpx"))
    assert "POST /v1/translate 200" in ours and "ValueError" not in measured
    assert SECRET not in ours and SECRET not in measured
    assert 'route="/v1/translate",status="2xx"' in measured and 'route="other"' in measured


def test_other_origins_may_ask_only_when_named() -> None:
    with connected(cors=("https://example.org",)) as api:
        for origin, expected in (("https://example.org", "https://example.org"), ("https://evil.example", None)):
            response = api.post("/v1/translate", json={"text": "a"}, headers={"Origin": origin})
            assert response.headers.get("access-control-allow-origin") == expected
        refused = api.post("/v1/translate", json={}, headers={"Origin": "https://example.org"})
        assert refused.headers["access-control-allow-origin"] == "https://example.org"


def test_an_error_of_the_engine_is_told_without_the_text() -> None:
    with connected() as api:
        response = api.post("/v1/translate", json={"text": f"raise ValueError {SECRET}"})
        assert response.status_code == 500 and SECRET not in response.text


def test_an_engine_that_dies_fails_liveness_and_its_waiters(caplog: pytest.LogCaptureFixture) -> None:
    with connected(served(Shout())) as api:
        assert api.get("/livez").status_code == api.get("/readyz").status_code == 200
        waiter = api.post("/v1/translate", json={"text": "raise SystemExit"})
        assert waiter.status_code == 503 and waiter.json()["error"]["code"] == "engine_failed"
        assert api.get("/livez").status_code == api.get("/readyz").status_code == 503
        assert api.post("/v1/translate", json={"text": "a"}).status_code == 503
        assert "regard_live 0.0" in api.get("/metrics").text


def test_draining_fells_readiness_first_then_refuses() -> None:
    with connected() as api:
        service = api.app_state["service"]
        service.draining = True
        assert api.get("/readyz").status_code == 503 and api.get("/livez").status_code == 200
        assert api.post("/v1/translate", json={"text": "a"}).status_code == 200
        service.closed = True
        refused = api.post("/v1/translate", json={"text": "a"})
        assert refused.status_code == 503 and refused.headers["retry-after"]


def test_a_service_for_this_machine_answers_to_no_other_name() -> None:
    with connected() as api:
        for host in ("localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST"):
            assert api.get("/v1/models", headers={"Host": host}).status_code == 200
        refused = api.get("/v1/models", headers={"Host": "stranger.example:8000"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (421, "wrong_host")
    open_ones: list[dict[str, Any]] = [{"host": "0.0.0.0"}, {"keys": [KEY]}, {"names": ("Stranger.Example",)}]
    for settings in open_ones:
        with connected(**settings) as api:
            allowed = {"Host": "stranger.example", "Authorization": f"Bearer {KEY}"}
            assert api.get("/v1/models", headers=allowed).status_code == 200

"""The API of /v1 over HTTP: responses, errors, keys, logs and metrics."""

import hashlib
import json
import logging
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from regard.errors import UserError
from regard.serve import ServedModel, read_keys
from regard.serve.http.access_log import CSP
from regard.serve.http.log_format import JsonFormatter
from regard.serve.http.responses import json_parts, to_json

from .fakes import KEY, create_client, served

SECRET = "xyzzy-plugh"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def api() -> Iterator[TestClient]:
    models = served(name="en-de", source="en", targets=("de",)), served(name="de-en", source="de", targets=("en",))
    with create_client(*models, max_text=100, max_texts=4, max_body=10_000) as client:
        yield client


def test_translate_takes_one_text_a_list_or_an_empty_list(api: TestClient) -> None:
    reply = api.post("/v1/translate", json={"text": "one two"}).json()
    assert reply["model"] == "en-de" and reply["milliseconds"] > 0
    expected = {"text": "ONE TWO", "score": -1.0, "alternatives": [], "warnings": [], "n_parts": 1}
    assert reply["translations"] == [expected]
    translations = api.post("/v1/translate", json={"text": ["b", " ", "a"]}).json()["translations"]
    assert [translation["text"] for translation in translations] == ["B", "", "A"]
    assert api.post("/v1/translate", json={"text": []}).json()["translations"] == []


def test_details_and_alternatives_are_returned_on_request(api: TestClient) -> None:
    body = {"text": "one  two", "details": True, "alternatives": 2}
    [translation] = api.post("/v1/translate", json=body).json()["translations"]
    assert translation["words"] == [{"text": "ONE", "probability": 0.5}, {"text": "TWO", "probability": 0.5}]
    assert translation["source_words"] == ["one", "two"] and translation["alignment"] == [[0, 0], [1, 1]]
    assert [token["text"] for token in translation["tokens"]] == ["▁ONE", "▁TWO"]
    assert [alternative["text"] for alternative in translation["alternatives"]] == ["ONE  TWO 1", "ONE  TWO 2"]


def test_model_is_selected_by_languages_or_name(api: TestClient) -> None:
    def model_for(**fields: str) -> Any:
        return api.post("/v1/translate", json={"text": "a", **fields}).json().get("model")

    assert model_for(source="de") == model_for(target="en") == model_for(model="de-en") == "de-en"
    assert api.post("/v1/translate", json={"text": "a", "target": "ko"}).status_code == 400
    assert api.post("/v1/translate", json={"text": "a", "model": "none"}).status_code == 404
    assert [model["name"] for model in api.get("/v1/models").json()["models"]] == ["en-de", "de-en"]


def test_stream_returns_every_sentence_in_order(api: TestClient) -> None:
    text = "One. Two! Three?\n\nFour. " + " ".join(f"Number {i}." for i in range(100))
    response = api.post("/v1/translate?stream=1", json={"text": [text, "last"]})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [event.split("\n") for event in response.text.strip().split("\n\n")]
    assert [lines[0] for lines in events] == ["event: sentence"] * (len(events) - 1) + ["event: done"]
    sentences = [json.loads(lines[1].removeprefix("data: ")) for lines in events[:-1]]
    assert "".join(sentence["source"] + sentence["gap"] for sentence in sentences if sentence["index"] == 0) == text
    assert [sentence["text"] for sentence in sentences] == [sentence["source"].upper() for sentence in sentences]
    assert sentences[-1]["index"] == 1 and sentences[-1]["text"] == "LAST"


@pytest.mark.parametrize(
    ("body", "status", "code"),
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
def test_requests_over_a_limit_or_with_invalid_fields_are_refused(
    api: TestClient, body: Any, status: int, code: str
) -> None:
    response = api.post("/v1/translate", json=body)
    assert response.status_code == status
    error = response.json()["error"]
    assert error["code"] == code and error["message"] and error["request_id"] == response.headers["x-request-id"]


def test_thousands_of_mistakes_are_counted_not_listed(api: TestClient) -> None:
    response = api.post("/v1/translate", json={"text": "a", **dict.fromkeys(map(str, range(500)), 1)})
    assert response.status_code == 422
    assert response.json()["error"]["message"] == "500 fields or values are not as described in /docs"


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
def test_invalid_json_gets_4xx(api: TestClient, body: bytes, path: str) -> None:
    response = api.post(path, content=body, headers=JSON)
    assert 400 <= response.status_code < 500, response.text
    assert response.json()["error"]["message"]


def test_other_content_types_are_refused_because_foreign_pages_can_send_them(api: TestClient) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        response = api.post("/v1/translate", content=b'{"text": "a"}', headers={"Content-Type": content_type})
        assert response.status_code == 415


def test_every_response_has_a_request_id_and_security_headers(api: TestClient) -> None:
    for method, path in [("GET", "/"), ("GET", "/nothing"), ("POST", "/v1/translate"), ("PUT", "/livez")]:
        response = api.request(method, path, headers={"X-Request-Id": "mine-1"})
        assert response.headers["x-request-id"] == "mine-1"
        assert response.headers["content-security-policy"] == CSP
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in response.headers
    assert "default-src 'self'" in CSP and "unsafe" not in CSP
    invalid = api.get("/livez", headers={"X-Request-Id": "<script>" + "a" * 100})
    assert invalid.headers["x-request-id"].isalnum()


def test_documentation_lists_the_routes_and_loads_nothing_from_other_hosts(api: TestClient) -> None:
    paths = api.get("/openapi.json").json()["paths"]
    assert {"/v1/translate", "/v1/look", "/v1/models", "/translate", "/livez", "/metrics"} <= set(paths)
    for path, method, name in (("/v1/models", "get", "ModelsReply"), ("/translate", "post", "TranslateResponse")):
        schema = paths[path][method]["responses"]["200"]["content"]["application/json"]["schema"]
        assert schema == {"$ref": f"#/components/schemas/{name}"}
    page = api.get("/docs").text
    assert "//" not in page.replace("<!doctype html>", "") and "<style" not in page
    assert api.get("/docs/docs.js").status_code == 200 and api.get("/docs/other.js").status_code == 404


def test_with_keys_every_route_except_liveness_and_the_page_requires_one() -> None:
    with create_client(keys=[KEY]) as api:
        paths = api.app.openapi()["paths"]  # type: ignore[attr-defined]
        routes = [(method, path) for path, methods in paths.items() for method in methods]
        assert len(routes) > 10
        routes += [("get", "/nothing"), ("get", "/docs.html")]
        for method, path in routes:
            expected = 200 if path in ("/livez", "/health") else 401
            assert api.request(method, path).status_code == expected, path
            wrong = {"Authorization": "Bearer " + KEY[:-1]}
            assert api.request(method, path, headers=wrong).status_code == expected, path
        for path in ("/", "/static/main.js", "/docs", "/docs/docs.js", "/openapi.json"):
            assert api.get(path).status_code == 200
        authorized = {"Authorization": f"Bearer {KEY}"}
        assert api.post("/v1/translate", json={"text": "a"}, headers=authorized).status_code == 200
        assert api.get("/metrics", headers=authorized).status_code == 200


def test_keys_are_read_from_a_file_in_plain_text_or_hashed(tmp_path: Path) -> None:
    hashed = hashlib.sha256(b"another-key-of-some-length").hexdigest()
    file = tmp_path / "keys"
    file.write_text(f"# keys of the team\n{KEY}  # a comment\n\nsha256:{hashed}\n")
    keys = read_keys(file)
    assert keys.allow(KEY) and keys.allow("another-key-of-some-length")
    assert not keys.allow(hashed) and not keys.allow("") and not keys.allow("# keys of the team")
    for content in ("short\n", "\n# no key\n", "sha256:" + "g" * 64):
        file.write_text(content)
        with pytest.raises(UserError):
            read_keys(file)


def test_texts_keys_and_unknown_paths_never_reach_logs_or_metrics(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = f"{SECRET}-{KEY}"
    authorized = {"Authorization": f"Bearer {key}"}
    with create_client(keys=[key]) as api:
        for text in (SECRET, f"raise ValueError {SECRET}", SECRET * 9_999):
            api.post("/v1/translate", json={"text": text}, headers=authorized)
        api.post(f"/v1/translate?{SECRET}=1", content=SECRET, headers={**authorized, **JSON})
        api.get(f"/{SECRET}?q={SECRET}", headers={"Authorization": f"Bearer {SECRET}"})
        api.get(f"/v1/training?model={SECRET}", headers=authorized)
        metrics = api.get("/metrics", headers=authorized).text
    log = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("httpx"))
    assert "POST /v1/translate 200" in log and "ValueError" not in metrics
    assert SECRET not in log and SECRET not in metrics
    assert 'route="/v1/translate",status="2xx"' in metrics and 'route="other"' in metrics


def test_cors_allows_only_the_configured_origins() -> None:
    with create_client(cors=("https://example.org",)) as api:
        for origin, expected in (("https://example.org", "https://example.org"), ("https://evil.example", None)):
            response = api.post("/v1/translate", json={"text": "a"}, headers={"Origin": origin})
            assert response.headers.get("access-control-allow-origin") == expected
        refused = api.post("/v1/translate", json={}, headers={"Origin": "https://example.org"})
        assert refused.headers["access-control-allow-origin"] == "https://example.org"


def test_engine_error_gets_500_without_the_text() -> None:
    with create_client() as api:
        response = api.post("/v1/translate", json={"text": f"raise ValueError {SECRET}"})
        assert response.status_code == 500 and SECRET not in response.text


def test_dead_engine_thread_fails_liveness_and_all_requests() -> None:
    with create_client(served()) as api:
        assert api.get("/livez").status_code == api.get("/readyz").status_code == 200
        failed = api.post("/v1/translate", json={"text": "raise SystemExit"})
        assert failed.status_code == 503 and failed.json()["error"]["code"] == "engine_failed"
        assert api.get("/livez").status_code == api.get("/readyz").status_code == 503
        assert api.post("/v1/translate", json={"text": "a"}).status_code == 503
        assert "regard_live 0.0" in api.get("/metrics").text


def test_stopping_service_fails_readiness_first_and_then_refuses_requests() -> None:
    with create_client() as api:
        service = api.app_state["service"]
        service.draining = True
        assert api.get("/readyz").status_code == 503 and api.get("/livez").status_code == 200
        assert api.post("/v1/translate", json={"text": "a"}).status_code == 200
        service.closed = True
        refused = api.post("/v1/translate", json={"text": "a"})
        assert refused.status_code == 503 and refused.headers["retry-after"]


def test_local_service_refuses_other_host_names() -> None:
    with create_client() as api:
        for host in ("localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST"):
            assert api.get("/v1/models", headers={"Host": host}).status_code == 200
        refused = api.get("/v1/models", headers={"Host": "other.example:8000"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (421, "wrong_host")
    permissive: list[dict[str, Any]] = [{"host": "0.0.0.0"}, {"keys": [KEY]}, {"names": ("Other.Example",)}]
    for settings in permissive:
        with create_client(**settings) as api:
            headers = {"Host": "other.example", "Authorization": f"Bearer {KEY}"}
            assert api.get("/v1/models", headers=headers).status_code == 200


@given(
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_in_parts_equals_the_whole_json(value: Any) -> None:
    assert b"".join(json_parts(value)) == to_json(value)


def test_large_json_is_split_into_parts() -> None:
    parts = list(json_parts({"rows": [[0.25] * 1_000] * 1_000}))
    assert len(parts) > 10 and max(map(len, parts)) < 300_000
    assert json.loads(b"".join(parts)) == {"rows": [[0.25] * 1_000] * 1_000}


MANY = 100_000


@pytest.mark.parametrize("path", ["/v1/translate", "/v1/predict", "/v1/look", "/translate", "/detect"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"text": [' + b"1," * MANY + b'1], "input": 1, "q": 1}',
        b'{"text": [' + b"[]," * MANY + b'1], "input": [' + b"[]," * 9 + b'1], "q": []}',
        b'{"input": [' + b"{}," * MANY + b'1], "q": ["a"]}',
        b'{"q": [' + b"[]," * MANY + b'1], "text": "a"}',
        b"{" + b",".join(b'"%x": 1' % number for number in range(19_000)) + b"}",
        b'{"text": "a", "interventions": {"heads_off": [' + b"1," * 3_999 + b"1]}}",
    ],
    ids=["numbers", "lists", "objects", "lists in q", "fields", "heads"],
)
def test_a_large_request_with_mistakes_everywhere_is_refused_at_the_first(body: bytes, path: str) -> None:
    """One error per element took seconds and 470 MB: validation allocates little more than the parsed body."""
    with create_client(max_body=10_000_000) as api:
        api.post("/v1/translate", json={"text": "a"})
        tracemalloc.start()
        try:
            response = api.post(path, content=body, headers=JSON)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert 400 <= response.status_code < 500
    assert peak < 15_000_000


def test_head_gives_the_headers_of_get(api: TestClient) -> None:
    for path in ("/", "/livez", "/health", "/docs", "/static/main.js", "/v1/models"):
        got, asked = api.get(path), api.head(path)
        assert (asked.status_code, asked.content) == (200, b"")
        assert asked.headers["content-type"] == got.headers["content-type"]
    assert api.head("/v1/translate").status_code == 405 and api.head("/nothing").status_code == 404


def test_a_service_whose_models_all_train_is_alive_but_not_ready(tmp_path: Path) -> None:
    training = ServedModel(name="new", predictors=(), task=None, run=tmp_path)
    with create_client(training) as api:
        assert api.get("/livez").status_code == 200
        for path in ("/readyz", "/health"):
            response = api.get(path)
            assert (response.status_code, response.json()) == (503, {"status": "training"})
    with create_client(training, served()) as api:
        assert api.get("/readyz").status_code == api.get("/health").status_code == 200


def test_files_are_not_logged_unless_they_are_missing(api: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "regard.access")
    for path in ("/static/main.js", "/docs/docs.js", "/livez", "/static/none.js"):
        api.get(path)
    messages = [record.getMessage() for record in caplog.records if record.name == "regard.access"]
    assert [message.split()[1:3] for message in messages] == [["/livez", "200"], ["/static", "404"]]


def test_the_log_can_be_json(api: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "regard.access")
    api.get("/livez", headers={"X-Request-Id": "mine"})
    [record] = [record for record in caplog.records if record.name == "regard.access"]
    line = json.loads(JsonFormatter().format(record))
    fields = {"method": "GET", "route": "/livez", "status": 200, "request_id": "mine", "level": "info"}
    assert fields.items() <= line.items() and line["milliseconds"] >= 0 and line["at"].endswith("+00:00")
    plain = logging.makeLogRecord({"msg": "started with %s", "args": ("a",), "levelname": "INFO"})
    assert json.loads(JsonFormatter().format(plain))["message"] == "started with a"

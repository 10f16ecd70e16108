"""LibreTranslate's API, field by field."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.serve.batching.batcher import Batcher

from .fakes import KEY
from .libretranslate_fakes import ReversingTranslator, create_client, served


@pytest.fixture(scope="module")
def api() -> Iterator[TestClient]:
    with create_client(served("en-de", "en", "de"), served("de-en", "de", "en")) as client:
        yield client


def body(q: Any, source: Any = "en", target: Any = "de", **fields: Any) -> dict[str, Any]:
    return {"q": q, "source": source, "target": target, **fields}


def test_json_forms_and_query_parameters_are_equivalent(api: TestClient) -> None:
    fields = body("the animal was tired")
    expected = {"translatedText": "TIRED WAS ANIMAL THE"}
    assert api.post("/translate", json=fields).json() == expected
    assert api.post("/translate", data=fields).json() == expected
    assert api.post("/translate", files={name: (None, value) for name, value in fields.items()}).json() == expected
    assert api.post("/translate", params=fields).json() == expected


@pytest.mark.parametrize("q", ["müde ist 어제", "m%C3%BCde+ist%20%EC%96%B4%EC%A0%9C"])
def test_a_form_is_utf8_as_curl_sends_it(api: TestClient, q: str) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    response = api.post("/translate", content=f"q={q}&source=en&target=de".encode(), headers=form)
    assert response.json() == {"translatedText": "어제 IST MÜDE"}
    latin = api.post("/translate", content="q=müde&source=en&target=de".encode("latin-1"), headers=form)
    assert latin.status_code == 400 and "UTF-8" in latin.json()["error"]


def test_list_of_texts_returns_a_list_in_order(api: TestClient) -> None:
    texts = ["one two", "", "  ", "three"]
    assert api.post("/translate", json=body(texts)).json() == {"translatedText": ["TWO ONE", "", "  ", "THREE"]}
    assert api.post("/translate", json=body(["one"])).json() == {"translatedText": ["ONE"]}
    assert api.post("/translate", data=body(["one two", "three"])).json() == {"translatedText": ["TWO ONE", "THREE"]}


def test_line_breaks_and_indentation_are_kept(api: TestClient) -> None:
    response = api.post("/translate", json=body("one two\n\n  - three four\r\n😀\n"))
    assert response.json() == {"translatedText": "TWO ONE\n\n  FOUR THREE -\n😀\n"}


def test_text_may_have_more_lines_than_max_texts(api: TestClient) -> None:
    text = "\n".join(f"a {number}" for number in range(300))
    lines = api.post("/translate", json=body(text)).json()["translatedText"].split("\n")
    assert lines == [f"{number} A" for number in range(300)]


def test_too_many_lines_are_refused_before_any_is_translated() -> None:
    translator = ReversingTranslator()
    with create_client(served("en-de", "en", "de", translator=translator), max_lines=10) as api:
        for text_format in ("text", "html"):
            refused = api.post("/translate", json=body("<p>a</p>\n" * 11, format=text_format))
            assert refused.status_code == 413 and "limit (10)" in refused.json()["error"]
        assert not translator.texts
        assert api.post("/translate", json=body(["a\nb"] * 5)).status_code == 200


def test_long_text_is_admitted_once_so_that_429_means_nothing_was_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    admitted: list[int] = []
    monkeypatch.setattr(Batcher, "admit", lambda self, n_texts, seconds: admitted.append(n_texts))
    with create_client(max_texts=10) as api:
        text = "\n".join(f"a {number}" for number in range(35))
        assert api.post("/translate", json=body(text)).json()["translatedText"].count("\n") == 34
    assert admitted == [10]


def test_html_tags_are_kept(api: TestClient) -> None:
    html = '<p>the <b class="x">tired</b> animal &amp; I</p><pre>one two</pre>'
    response = api.post("/translate", json=body(html, format="html"))
    assert response.json() == {"translatedText": '<p>I &amp; ANIMAL <b class="x">TIRED</b> THE</p><pre>one two</pre>'}
    plain = api.post("/translate", json=body("a <b>c</b>")).json()
    assert plain == {"translatedText": "<B>C</B> A"}


def test_alternatives_are_returned_on_request(api: TestClient) -> None:
    assert api.post("/translate", json=body("one two", alternatives=2)).json() == {
        "translatedText": "TWO ONE", "alternatives": ["TWO ONE 2", "TWO ONE 3"],
    }  # fmt: skip
    response = api.post("/translate", data=body(["one", "two\nthree"], alternatives="1")).json()
    assert response["alternatives"] == [["ONE 2"], ["TWO 2\nTHREE 2"]]
    assert api.post("/translate", json=body("<b>one</b>", format="html", alternatives=1)).json()["alternatives"] == []


def test_source_auto_detects_the_language_of_each_text(api: TestClient) -> None:
    english, german = "the animal did not cross the street", "das Tier überquerte die Straße nicht"
    response = api.post("/translate", json=body(english, "auto", "de")).json()
    assert response["translatedText"] == "STREET THE CROSS NOT DID ANIMAL THE"
    assert response["detectedLanguage"]["language"] == "en" and response["detectedLanguage"]["confidence"] > 90
    both = api.post("/translate", json=body([english, german], "auto", "de")).json()
    assert [detected["language"] for detected in both["detectedLanguage"]] == ["en", "de"]
    assert both["translatedText"][1] == german  # German already


def test_detected_target_language_is_refused_if_no_model_translates_into_it() -> None:
    with create_client(served("en-de", "en", "de")) as api:
        refused = api.post("/translate", json=body("das Tier überquerte die Straße nicht", "auto", "en"))
    assert (refused.status_code, refused.json()) == (
        400, {"error": "English (en) is not available as a target language from German (de)"},
    )  # fmt: skip


def test_model_is_selected_by_languages() -> None:
    models = [
        served("a", "en", "de", translator=ReversingTranslator("a ")),
        served("b", "de", "fr", translator=ReversingTranslator("b ")),
        served("c", "ko", "de", "en", translator=ReversingTranslator("c ")),
    ]
    with create_client(*models) as api:
        assert api.post("/translate", json=body("x", "de", "fr")).json() == {"translatedText": "b X"}
        assert api.post("/translate", json=body("x", "ko", "en")).json() == {"translatedText": "c X"}
        assert api.post("/translate", json=body("안녕", "auto", "de")).json()["translatedText"] == "c 안녕"
        assert api.post("/translate", json=body("x", "de-AT", "fr-FR")).json() == {"translatedText": "b X"}
        refused = api.post("/translate", json=body("x", "en", "fr"))
        assert (refused.status_code, refused.json()) == (
            400, {"error": "French (fr) is not available as a target language from English (en)"},
        )  # fmt: skip
        assert api.get("/languages").json() == [
            {"code": "en", "name": "English", "targets": ["de"]},
            {"code": "de", "name": "German", "targets": ["fr"]},
            {"code": "ko", "name": "Korean", "targets": ["de", "en"]},
            {"code": "fr", "name": "French", "targets": []},
        ]


def test_model_with_unknown_languages_accepts_any() -> None:
    with create_client(served("unknown", None)) as api:
        assert api.post("/translate", json=body("x y", "auto", "de")).json()["translatedText"] == "Y X"
        assert api.post("/translate", json=body("x y", "sw", "nl")).json() == {"translatedText": "Y X"}
        assert api.get("/languages").json() == []
        assert api.get("/frontend/settings").json()["language"]["source"] == {"code": "auto", "name": "Auto Detect"}


def test_model_with_unknown_source_translates_any_text() -> None:
    with create_client(served("small", None, "es")) as api:
        response = api.post("/translate", json=body("x y", "auto", "es")).json()
        assert response == {"translatedText": "Y X", "detectedLanguage": {"confidence": 0.0, "language": "auto"}}


def test_detect_returns_the_best_language_first(api: TestClient) -> None:
    fields = {"q": "the animal was tired"}
    for response in (api.post("/detect", json=fields), api.post("/detect", data=fields)):
        detections = response.json()
        assert detections[0]["language"] == "en" and 50 < detections[0]["confidence"] <= 100
        assert all(set(detection) == {"confidence", "language"} for detection in detections)


def test_detect_does_not_claim_a_language_that_it_does_not_know(api: TestClient) -> None:
    unknown = [{"language": "unknown", "confidence": 0.0}]
    for text in ("Bonjour, comment allez-vous ? Je voudrais une tasse de café.", "안녕하세요"):
        assert api.post("/detect", json={"q": text}).json() == unknown
    for text in ("123", "ok", "Where is the nearest hospital, please?", "Wo ist das nächste Krankenhaus, bitte?"):
        assert api.post("/detect", json={"q": text}).json() != unknown


def test_frontend_settings(api: TestClient) -> None:
    assert api.get("/frontend/settings").json() == {
        "apiKeys": False, "charLimit": 10_000, "filesTranslation": False, "frontendTimeout": 500, "keyRequired": False,
        "language": {"source": {"code": "en", "name": "English"}, "target": {"code": "de", "name": "German"}},
        "suggestions": False, "supportedFilesFormat": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, "Invalid request: missing q parameter"),
        (body(""), "Invalid request: missing q parameter"),
        (body([]), "Invalid request: missing q parameter"),
        (body("x", ""), "Invalid request: missing source parameter"),
        ({"q": "x", "source": "en"}, "Invalid request: missing target parameter"),
        (body("x", "zz"), "zz is not supported"),
        (body("x", "en", "zz"), "zz is not supported"),
        (body("x", "en", "auto"), "auto is not supported"),
        (body("x", "en", {"a": 1}), "this is not supported"),
        (body("x", "en", "<b>" * 99), "<b><b><b><b><b><b><b is not supported"),
        (body("x", format="xml"), "xml format is not supported"),
        (body("x", alternatives="abc"), "Invalid request: alternatives parameter is not a number"),
        (body("x", alternatives=[1]), "Invalid request: alternatives parameter is not a number"),
        (body("x", alternatives=99), "Invalid request: alternatives parameter must be <= 15"),
        (body(5), "Invalid request: q must be a text or a list of texts"),
        (body(["x", None]), "Invalid request: q must be a text or a list of texts"),
        (body("x" * 10_001), "Invalid request: request (10001) exceeds text limit (10000)"),
        (body(["x"] * 129), "Invalid request: request (129) exceeds text limit (128)"),
    ],
)
def test_error_messages_are_those_of_libretranslate(api: TestClient, fields: Any, error: str) -> None:
    response = api.post("/translate", json=fields)
    assert (response.status_code, response.json()) == (400, {"error": error})


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b'"q"', b"[" * 10_000, b"\xff", b"NaN", b'{"q": "x", "q": ' + b"9" * 5000]
)
@pytest.mark.parametrize("path", ["/translate", "/detect"])
@pytest.mark.parametrize(
    "content_type", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
def test_malformed_body_gets_400_with_a_message(api: TestClient, content: bytes, path: str, content_type: str) -> None:
    response = api.post(path, content=content, headers={"Content-Type": content_type})
    assert response.status_code == 400
    assert isinstance(response.json()["error"], str)


def test_lone_surrogates_become_replacement_characters(api: TestClient) -> None:
    content = b'{"q": "a \\ud800 b <i>", "source": "en", "target": "de", "format": "html"}'
    response = api.post("/translate", content=content, headers={"Content-Type": "application/json"})
    assert response.json() == {"translatedText": "B \ufffd A <i>"}


def test_api_key_may_be_in_the_body_the_query_or_the_header() -> None:
    with create_client(keys=[KEY]) as api:
        for path in ("/translate", "/detect"):
            assert api.post(path, json=body("x")).status_code == 401
            assert api.post(path, json=body("x", api_key="wrong")).json() == {"error": "Invalid API key"}
            assert api.post(path, json=body("x", api_key="wrong")).status_code == 403
            assert api.post(path, json=body("x", api_key=[KEY])).status_code == 401
            for key in ({"api_key": KEY}, {"apiKey": KEY}):
                assert api.post(path, json=body("x") | key).status_code == 200
            assert api.post(path, data=body("x", api_key=KEY)).status_code == 200
            assert api.post(path, json=body("x"), headers={"Authorization": f"Bearer {KEY}"}).status_code == 200
        for path in ("/languages", "/frontend/settings"):
            assert api.get(path).status_code == 401
            assert api.get(path, params={"api_key": KEY}).status_code == 200
        assert api.get("/frontend/settings", params={"api_key": KEY}).json()["keyRequired"] is True


def test_texts_are_never_logged(api: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", logger="regard"):
        api.post("/translate", json=body("a secret sentence", format="html"))
        api.post("/translate", json=body("a secret sentence", "secret-code"))
    assert caplog.records and "secret" not in caplog.text

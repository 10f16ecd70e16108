"""LibreTranslate's API, field by field, as its clients speak it."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.serve.batching.batcher import Batcher

from .mirror import Mirror, client, served

KEY = "a-key-of-some-length"


@pytest.fixture(scope="module")
def api() -> Iterator[TestClient]:
    with client(served("en-de", "en", "de", translator=Mirror()), served("de-en", "de", "en")) as connected:
        yield connected


def ask(q: Any, source: Any = "en", target: Any = "de", **more: Any) -> dict[str, Any]:
    return {"q": q, "source": source, "target": target, **more}


def test_json_and_both_kinds_of_form_give_the_same(api: TestClient) -> None:
    fields = ask("the animal was tired")
    expected = {"translatedText": "TIRED WAS ANIMAL THE"}
    assert api.post("/translate", json=fields).json() == expected
    assert api.post("/translate", data=fields).json() == expected
    assert api.post("/translate", files={name: (None, value) for name, value in fields.items()}).json() == expected
    assert api.post("/translate", params=fields).json() == expected


def test_a_list_gives_a_list_in_its_order(api: TestClient) -> None:
    texts = ["one two", "", "  ", "three"]
    assert api.post("/translate", json=ask(texts)).json() == {"translatedText": ["TWO ONE", "", "  ", "THREE"]}
    assert api.post("/translate", json=ask(["one"])).json() == {"translatedText": ["ONE"]}
    assert api.post("/translate", data=ask(["one two", "three"])).json() == {"translatedText": ["TWO ONE", "THREE"]}


def test_lines_stay_where_they_are(api: TestClient) -> None:
    answer = api.post("/translate", json=ask("one two\n\n  - three four\r\n😀\n"))
    assert answer.json() == {"translatedText": "TWO ONE\n\n  FOUR THREE -\n😀\n"}


def test_more_sentences_than_one_request_may_have_are_sent_in_parts(api: TestClient) -> None:
    text = "\n".join(f"a {number}" for number in range(300))
    lines = api.post("/translate", json=ask(text)).json()["translatedText"].split("\n")
    assert lines == [f"{number} A" for number in range(300)]


def test_too_many_lines_are_refused_before_any_is_translated() -> None:
    mirror = Mirror()
    with client(served("en-de", "en", "de", translator=mirror), max_lines=10) as api:
        for more in ({}, {"format": "html"}):
            refused = api.post("/translate", json=ask("<p>a</p>\n" * 11, **more))
            assert refused.status_code == 413 and "limit (10)" in refused.json()["error"]
        assert not mirror.seen
        assert api.post("/translate", json=ask(["a\nb"] * 5)).status_code == 200


def test_many_lines_are_let_in_once_so_that_429_means_nothing_was_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    admitted: list[int] = []
    monkeypatch.setattr(Batcher, "admit", lambda self, n_texts, seconds: admitted.append(n_texts))
    with client(max_texts=10) as api:
        text = "\n".join(f"a {number}" for number in range(35))
        assert api.post("/translate", json=ask(text)).json()["translatedText"].count("\n") == 34
    assert admitted == [10]


def test_html_keeps_its_tags(api: TestClient) -> None:
    html = '<p>the <b class="x">tired</b> animal &amp; I</p><pre>one two</pre>'
    answer = api.post("/translate", json=ask(html, format="html"))
    assert answer.json() == {"translatedText": '<p>I &amp; ANIMAL <b class="x">TIRED</b> THE</p><pre>one two</pre>'}
    plain = api.post("/translate", json=ask("a <b>c</b>")).json()
    assert plain == {"translatedText": "<B>C</B> A"}


def test_alternatives_come_when_asked_for(api: TestClient) -> None:
    assert api.post("/translate", json=ask("one two", alternatives=2)).json() == {
        "translatedText": "TWO ONE", "alternatives": ["TWO ONE 2", "TWO ONE 3"],
    }  # fmt: skip
    many = api.post("/translate", data=ask(["one", "two\nthree"], alternatives="1")).json()
    assert many["alternatives"] == [["ONE 2"], ["TWO 2\nTHREE 2"]]
    assert api.post("/translate", json=ask("<b>one</b>", format="html", alternatives=1)).json()["alternatives"] == []


def test_the_language_is_found_out_when_asked_to(api: TestClient) -> None:
    english, german = "the animal did not cross the street", "das Tier überquerte die Straße nicht"
    one = api.post("/translate", json=ask(english, "auto", "de")).json()
    assert one["translatedText"] == "STREET THE CROSS NOT DID ANIMAL THE"
    assert one["detectedLanguage"]["language"] == "en" and one["detectedLanguage"]["confidence"] > 90
    both = api.post("/translate", json=ask([english, german], "auto", "de")).json()
    assert [found["language"] for found in both["detectedLanguage"]] == ["en", "de"]
    assert both["translatedText"][1] == german  # it is German already


def test_a_text_is_not_taken_for_the_target_where_nothing_translates_into_it() -> None:
    with client(served("en-de", "en", "de")) as api:
        refused = api.post("/translate", json=ask("das Tier überquerte die Straße nicht", "auto", "en"))
    assert (refused.status_code, refused.json()) == (
        400, {"error": "English (en) is not available as a target language from German (de)"},
    )  # fmt: skip


def test_models_are_picked_by_languages() -> None:
    models = [
        served("a", "en", "de", translator=Mirror("a ")),
        served("b", "de", "fr", translator=Mirror("b ")),
        served("c", "ko", "de", "en", translator=Mirror("c ")),
    ]
    with client(*models) as api:
        assert api.post("/translate", json=ask("x", "de", "fr")).json() == {"translatedText": "b X"}
        assert api.post("/translate", json=ask("x", "ko", "en")).json() == {"translatedText": "c X"}
        assert api.post("/translate", json=ask("안녕", "auto", "de")).json()["translatedText"] == "c 안녕"
        assert api.post("/translate", json=ask("x", "de-AT", "fr-FR")).json() == {"translatedText": "b X"}
        refused = api.post("/translate", json=ask("x", "en", "fr"))
        assert (refused.status_code, refused.json()) == (
            400, {"error": "French (fr) is not available as a target language from English (en)"},
        )  # fmt: skip
        assert api.get("/languages").json() == [
            {"code": "en", "name": "English", "targets": ["de"]},
            {"code": "de", "name": "German", "targets": ["fr"]},
            {"code": "ko", "name": "Korean", "targets": ["de", "en"]},
            {"code": "fr", "name": "French", "targets": []},
        ]


def test_a_model_that_does_not_say_its_languages_takes_any() -> None:
    with client(served("old", None)) as api:
        assert api.post("/translate", json=ask("x y", "auto", "de")).json()["translatedText"] == "Y X"
        assert api.post("/translate", json=ask("x y", "sw", "nl")).json() == {"translatedText": "Y X"}
        assert api.get("/languages").json() == []
        assert api.get("/frontend/settings").json()["language"]["source"] == {"code": "auto", "name": "Auto Detect"}


def test_a_model_that_names_its_target_alone_translates_whatever_comes() -> None:
    with client(served("small", None, "es")) as api:
        found = api.post("/translate", json=ask("x y", "auto", "es")).json()
        assert found == {"translatedText": "Y X", "detectedLanguage": {"confidence": 0.0, "language": "auto"}}


def test_detect_gives_the_best_first(api: TestClient) -> None:
    for sent in ({"json": {"q": "the animal was tired"}}, {"data": {"q": "the animal was tired"}}):
        found = api.post("/detect", **sent).json()
        assert found[0]["language"] == "en" and 50 < found[0]["confidence"] <= 100
        assert [set(one) for one in found] == [{"confidence", "language"}] * len(found)


def test_settings_of_a_page(api: TestClient) -> None:
    assert api.get("/frontend/settings").json() == {
        "apiKeys": False, "charLimit": 10_000, "filesTranslation": False, "frontendTimeout": 500, "keyRequired": False,
        "language": {"source": {"code": "en", "name": "English"}, "target": {"code": "de", "name": "German"}},
        "suggestions": False, "supportedFilesFormat": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, "Invalid request: missing q parameter"),
        (ask(""), "Invalid request: missing q parameter"),
        (ask([]), "Invalid request: missing q parameter"),
        (ask("x", ""), "Invalid request: missing source parameter"),
        ({"q": "x", "source": "en"}, "Invalid request: missing target parameter"),
        (ask("x", "zz"), "zz is not supported"),
        (ask("x", "en", "zz"), "zz is not supported"),
        (ask("x", "en", "auto"), "auto is not supported"),
        (ask("x", "en", {"a": 1}), "this is not supported"),
        (ask("x", "en", "<b>" * 99), "<b><b><b><b><b><b><b is not supported"),
        (ask("x", format="xml"), "xml format is not supported"),
        (ask("x", alternatives="abc"), "Invalid request: alternatives parameter is not a number"),
        (ask("x", alternatives=[1]), "Invalid request: alternatives parameter is not a number"),
        (ask("x", alternatives=99), "Invalid request: alternatives parameter must be <= 15"),
        (ask(5), "Invalid request: q must be a text or a list of texts"),
        (ask(["x", None]), "Invalid request: q must be a text or a list of texts"),
        (ask("x" * 10_001), "Invalid request: request (10001) exceeds text limit (10000)"),
        (ask(["x"] * 129), "Invalid request: request (129) exceeds text limit (128)"),
    ],
)
def test_what_is_wrong_is_said_as_libretranslate_says_it(api: TestClient, fields: Any, error: str) -> None:
    answer = api.post("/translate", json=fields)
    assert (answer.status_code, answer.json()) == (400, {"error": error})


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'"q"', b"[" * 100_000, b"\xff", b"NaN", b'{"q": "x", "q": ' + b"9" * 5000]
)
@pytest.mark.parametrize("path", ["/translate", "/detect"])
@pytest.mark.parametrize(
    "kind", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
def test_nonsense_is_refused_with_a_sentence(api: TestClient, body: bytes, path: str, kind: str) -> None:
    answer = api.post(path, content=body, headers={"Content-Type": kind})
    assert answer.status_code == 400
    assert isinstance(answer.json()["error"], str)


def test_half_characters_come_back_as_whole_ones(api: TestClient) -> None:
    body = b'{"q": "a \\ud800 b <i>", "source": "en", "target": "de", "format": "html"}'
    answer = api.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert answer.json() == {"translatedText": "B \ufffd A <i>"}


def test_keys_are_asked_for_in_the_body_or_the_header() -> None:
    with client(keys=[KEY]) as api:
        for path in ("/translate", "/detect"):
            assert api.post(path, json=ask("x")).status_code == 401
            assert api.post(path, json=ask("x", api_key="wrong")).json() == {"error": "Invalid API key"}
            assert api.post(path, json=ask("x", api_key="wrong")).status_code == 403
            assert api.post(path, json=ask("x", api_key=[KEY])).status_code == 401
            for key in ({"api_key": KEY}, {"apiKey": KEY}):
                assert api.post(path, json=ask("x") | key).status_code == 200
            assert api.post(path, data=ask("x", api_key=KEY)).status_code == 200
            assert api.post(path, json=ask("x"), headers={"Authorization": f"Bearer {KEY}"}).status_code == 200
        for path in ("/languages", "/frontend/settings"):
            assert api.get(path).status_code == 401
            assert api.get(path, params={"api_key": KEY}).status_code == 200
        assert api.get("/frontend/settings", params={"api_key": KEY}).json()["keyRequired"] is True


def test_text_reaches_no_log(api: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", logger="regard"):
        api.post("/translate", json=ask("a secret sentence", format="html"))
        api.post("/translate", json=ask("a secret sentence", "secret-code"))
    assert caplog.records and "secret" not in caplog.text

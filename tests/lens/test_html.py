"""A look as one file: joined modules, a policy that holds, and a page that works without a server."""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from html import unescape
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from regard.lens import Head, Interventions, Look
from regard.lens.html import bundle, look_page
from regard.lens.lens import Lens

HOSTILE = '</script><script>alert(1)</script> <img src=x onerror=alert(2)> \u202eevil\u2066 & "quoted" \''


def test_modules_come_after_what_they_need() -> None:
    modules = {
        "page.js": 'import { b } from "./b.js";\nimport { a } from "./a.js";\n\nb(a);\n',
        "b.js": 'import { a } from "./a.js";\nexport function b() {\n  return a;\n}\n',
        "a.js": "// first\nexport const a = 1;\n",
        "unused.js": "export const unused = 1;\n",
    }
    assert bundle("page.js", modules) == "// first\nconst a = 1;\n\nfunction b() {\n  return a;\n}\n\nb(a);\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('import * as a from "./a.js";\n', "cannot be bundled"),
        ("export default 1;\n", "cannot be bundled"),
        ('import { a } from "./missing.js";\n', "no module missing.js"),
        ('import { a } from "./a.js";\nconst a = 2;\n', "a is declared in a.js and in page.js"),
    ],
)
def test_modules_that_can_not_be_joined_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        bundle("page.js", {"page.js": text, "a.js": "export const a = 1;\n"})


@pytest.fixture(scope="module")
def hostile(make_lens: Callable[..., Lens]) -> Look:
    return make_lens(facts={"max_length": 200}).look(HOSTILE, "das <b>Tier</b>")


def test_the_numbers_come_through_whole(hostile: Look) -> None:
    look = hostile.to_dict("base64")
    page = look_page(look)
    found = re.search(r'<script type="application/json" id="look">(.*?)</script>', page, re.DOTALL)
    assert found
    assert json.loads(found[1]) == json.loads(json.dumps(look))
    assert page.count("</script>") == 2
    assert "<img" not in page
    title = re.search("<title>(.*?)</title>", page, re.DOTALL)
    assert title
    assert unescape(title[1]).startswith(hostile.source.text)


def test_only_what_was_hashed_may_run(look: Look) -> None:
    page = look_page(look.to_dict("base64"))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="(.*?)"', page)
    assert policy
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules["default-src"] == "'none'"
    for kind, pattern in (
        ("script-src", r'<script type="module">(.*?)</script>'),
        ("style-src", "<style>(.*?)</style>"),
    ):
        (text,) = re.findall(pattern, page, re.DOTALL)
        assert rules[kind] == f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
    assert not re.search(r'\s(?:src|href)="', page)


Visit = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser, tmp_path: Path) -> Iterator[Visit]:
    """Opens a page from a file; fails when it complains, opens a dialog, or asks for anything but itself."""
    said: list[str] = []
    contexts = []

    def open_page(html: str, *, width: int = 1200, locale: str = "en-US", theme: str = "light") -> Page:
        (tmp_path / "look.html").write_text(html, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 800}, locale=locale)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: said.append(request.url) if "look.html" not in request.url else None)
        page.goto((tmp_path / "look.html").as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


def test_it_opens_from_a_file_and_shows_the_heads(visit: Visit, look: Look) -> None:
    page = visit(look_page(look.to_dict("base64"), {"stop": "heads", "attention": "encoder", "layer": 1, "head": 2}))
    assert page.inner_text("h1") == look.source.text
    assert page.locator(".head-grid").first.is_visible()
    assert "#" not in page.url  # nothing is in the address before the reader moves
    page.keyboard.press("ArrowRight")
    page.wait_for_url(lambda url: "stop=9" in url)
    title = page.inner_text(".step-title")
    page.reload()
    assert page.inner_text(".step-title") == title
    page.get_by_role("button", name="한국어").click()
    assert page.get_attribute("html", "lang") == "ko"
    assert "들여다보기" in page.inner_text(".file-name")
    assert page.inner_text(".step-title") != title


def test_the_whole_walk_opens_from_a_file(visit: Visit, lens: Lens) -> None:
    page = visit(look_page(lens.look("the animal was tired .").to_dict("base64")))
    titles = [page.inner_text(".step-title")]
    for _ in range(14):
        page.keyboard.press("ArrowRight")
        titles.append(page.inner_text(".step-title"))
    assert len(set(titles)) == 15


def test_language_and_theme_are_the_readers(visit: Visit, look: Look) -> None:
    page = visit(look_page(look.to_dict("base64")), locale="ko-KR", theme="dark")
    assert page.get_attribute("html", "lang") == "ko"

    def ground() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    dark = ground()
    page.locator(".file-theme").click()
    assert ground() == "rgb(255, 255, 255)" != dark
    page.locator(".file-theme").click()
    assert ground() == dark


def test_a_change_is_told(visit: Visit, lens: Lens) -> None:
    changes = Interventions(heads_off=frozenset([Head("cross", 1, 2)]), scale=False, mask=False, positions="none")
    look = lens.look("the animal was tired .", interventions=changes)
    page = visit(look_page(look.to_dict("base64")))
    notes = page.inner_text(".file-notes")
    assert "encoder–decoder layer 2 head 3 off · no ÷ √d_k · no mask · no positions" in notes
    assert look.change is not None
    assert look.change.before.text in notes


@pytest.mark.parametrize("width", [400, 1400])
def test_hostile_text_is_inert(visit: Visit, hostile: Look, width: int) -> None:
    page = visit(look_page(hostile.to_dict("base64")), width=width)
    assert page.locator("h1").text_content() == hostile.source.text
    for _ in range(15):
        assert page.evaluate("document.scripts.length") == 2
        assert page.evaluate("document.images.length") == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.keyboard.press("ArrowRight")

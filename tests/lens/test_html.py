"""`regard look --html`: bundled modules, an enforced content security policy, and a page that needs no server."""

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


def test_bundle_puts_each_module_after_its_imports() -> None:
    modules = {
        "page.js": 'import { b } from "./b.js";\nimport { a } from "./a.js";\n\nb(a);\n',
        "b.js": 'import { a } from "./a.js";\nexport function b() {\n  return a;\n}\n',
        "a.js": "// first\nexport const a = 1;\n",
        "unused.js": "export const unused = 1;\n",
    }
    assert bundle("page.js", modules) == "// first\nconst a = 1;\n\nfunction b() {\n  return a;\n}\n\nb(a);\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('import * as a from "./a.js";\n', "cannot be bundled"),
        ("export default 1;\n", "cannot be bundled"),
        ('import { a } from "./missing.js";\n', "no module missing.js"),
        ('import { a } from "./a.js";\nconst a = 2;\n', "a is declared in a.js and in page.js"),
    ],
)
def test_modules_that_cannot_be_bundled_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bundle("page.js", {"page.js": text, "a.js": "export const a = 1;\n"})


@pytest.fixture(scope="module")
def hostile(make_lens: Callable[..., Lens]) -> Look:
    return make_lens(facts={"max_length": 200}).look(HOSTILE, "das <b>Tier</b>")


def test_page_contains_the_whole_look_escaped(hostile: Look) -> None:
    look = hostile.to_dict("base64")
    page = look_page(look)
    match = re.search(r'<script type="application/json" id="look">(.*?)</script>', page, re.DOTALL)
    assert match
    assert json.loads(match[1]) == json.loads(json.dumps(look))
    assert page.count("</script>") == 2
    assert "<img" not in page
    title = re.search("<title>(.*?)</title>", page, re.DOTALL)
    assert title
    assert unescape(title[1]).startswith(hostile.source.text)


def test_policy_allows_only_the_hashed_script_and_style(look: Look) -> None:
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


PageOpener = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[PageOpener]:
    """Opens a page from a file; the test fails on a console message, a dialog or a request for another file."""
    problems: list[str] = []
    contexts = []

    def open_it(html: str, *, width: int = 1200, locale: str = "en-US", theme: str = "light") -> Page:
        (tmp_path / "look.html").write_text(html, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 800}, locale=locale)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: (problems.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: problems.append(request.url) if "look.html" not in request.url else None)
        page.goto((tmp_path / "look.html").as_uri())
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert problems == []


def test_page_opens_at_the_given_step_and_keeps_its_place_on_reload(open_page: PageOpener, look: Look) -> None:
    page = open_page(
        look_page(look.to_dict("base64"), {"stop": "heads", "attention": "encoder", "layer": 1, "head": 2})
    )
    assert page.inner_text("h1") == look.source.text
    assert page.locator(".head-grid").first.is_visible()
    assert "#" not in page.url  # the address is written only after a move
    page.keyboard.press("ArrowRight")
    page.wait_for_url(lambda url: "stop=9" in url)
    title = page.inner_text(".step-title")
    page.reload()
    assert page.inner_text(".step-title") == title
    page.get_by_role("button", name="한국어").click()
    assert page.get_attribute("html", "lang") == "ko"
    assert "들여다보기" in page.inner_text(".file-name")
    assert page.inner_text(".step-title") != title


def test_all_steps_open_without_a_server(open_page: PageOpener, lens: Lens) -> None:
    page = open_page(look_page(lens.look("the animal was tired .").to_dict("base64")))
    titles = [page.inner_text(".step-title")]
    for _ in range(15):
        page.keyboard.press("ArrowRight")
        titles.append(page.inner_text(".step-title"))
    assert len(set(titles)) == 16


def test_language_and_theme_follow_the_browser(open_page: PageOpener, look: Look) -> None:
    page = open_page(look_page(look.to_dict("base64")), locale="ko-KR", theme="dark")
    assert page.get_attribute("html", "lang") == "ko"

    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    dark = background()
    page.locator(".file-theme").click()
    assert background() == "rgb(255, 255, 255)" != dark
    page.locator(".file-theme").click()
    assert background() == dark


def test_what_each_word_depends_on_is_shown_if_it_was_measured(open_page: PageOpener, lens: Lens) -> None:
    look = lens.look("the animal was tired .", "das Tier war müde", dependence=True)
    assert look.dependence is not None
    page = open_page(look_page(look.to_dict("base64")))
    assert page.locator(".file-part").inner_text() == "What each word depends on"
    attention, gradient, left_out = page.locator(".depends .heat-grid").all()
    for shown, values in ((attention, "attention"), (gradient, "gradient"), (left_out, "left_out")):
        strongest = look.importance()[values][0].argmax()
        assert f"das → {look.source.words[strongest].text} " in str(shown.get_attribute("aria-label"))
    means = page.locator(".depends .table-scroll tbody tr").last.inner_text()
    assert means.split()[0] == "mean"
    for shown, (_, mean) in zip(means.split()[1:], look.agreement().values(), strict=True):
        assert float(shown.replace("−", "-")) == pytest.approx(mean, abs=0.006)
    page.get_by_role("button", name="한국어").click()
    assert "켄달의 τ" in page.locator(".depends").inner_text()


def test_interventions_are_described(open_page: PageOpener, lens: Lens) -> None:
    changes = Interventions(heads_off=frozenset([Head("cross", 1, 2)]), scale=False, mask=False, positions="none")
    look = lens.look("the animal was tired .", interventions=changes)
    page = open_page(look_page(look.to_dict("base64")))
    notes = page.inner_text(".file-notes")
    assert "encoder–decoder layer 2 head 3 off · no ÷ √d_k · no mask · no positions" in notes
    assert look.change is not None
    assert look.change.before.text in notes


@pytest.mark.parametrize("width", [400, 1400])
def test_hostile_text_is_inert(open_page: PageOpener, hostile: Look, width: int) -> None:
    page = open_page(look_page(hostile.to_dict("base64")), width=width)
    assert page.locator("h1").text_content() == hostile.source.text
    for _ in range(15):
        assert page.evaluate("document.scripts.length") == 2
        assert page.evaluate("document.images.length") == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.keyboard.press("ArrowRight")

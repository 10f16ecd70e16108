"""The comparison page: complete, escaped, without external resources."""

import re
from html.parser import HTMLParser

from regard.evaluate import compare, comparison_page

EVIL = '<script>alert("1")</script> & <img src=x onerror=alert(1)>'


class Reader(HTMLParser):
    """Collects tags, attributes, text, and elements that are not closed."""

    void = {"meta", "br"}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def evil_page() -> str:
    comparison = compare([EVIL, "gut so"], ["gut", EVIL], [["gut", EVIL]], sources=[EVIL, "x"])
    return comparison_page(comparison, name_a=f"runs/{EVIL}", name_b='"><script>')


def test_text_from_files_is_escaped() -> None:
    page = evil_page()
    reader = read(page)
    assert not reader.tags & {"script", "img", "link", "iframe", "object"}
    assert not any(name.startswith("on") for name, _ in reader.attributes)
    assert EVIL in reader.text


def test_page_has_no_external_resources() -> None:
    page = evil_page()
    assert not [name for name, _ in read(page).attributes if name in ("src", "href", "srcset", "action")]
    assert "url(" not in page and "@import" not in page
    assert "default-src 'none'" in page
    assert not re.search(r"https?://", page)


def test_page_supports_dark_mode_and_small_screens() -> None:
    page = evil_page()
    for rule in ("prefers-color-scheme: dark", "max-width: 40rem", 'name="viewport"'):
        assert rule in page


def test_page_shows_verdict_scores_and_examples(references, corrupt) -> None:
    comparison = compare(corrupt(references, 0.4, 2), corrupt(references, 0.1, 3), [references])
    page = comparison_page(comparison, name_a="runs/a", name_b="runs/b")
    reader = read(page)
    assert comparison.verdict in reader.text
    for change in comparison.changes:
        assert f"{change.a:.2f}" in reader.text and change.signature in reader.text
    assert comparison.better_in_b[0].references[0] in reader.text
    assert comparison.better_in_b[0].b in reader.text
    for bucket in comparison.buckets:
        assert f"{bucket.label}{bucket.n_sentences}{bucket.bleu_a:.1f}{bucket.bleu_b:.1f}" in reader.text
    assert page.count('<circle class="orange"') == page.count('<circle class="blue"') == len(comparison.buckets)
    assert '<mark class="a">' in page and '<mark class="b">' in page


def test_page_of_equal_systems() -> None:
    reader = read(comparison_page(compare(["", "b"], ["", "b"], [["a", "b"]]), name_a="a", name_b="b"))
    assert "Where" not in reader.text
    assert "No significant difference by any measure." in reader.text


def test_empty_translation_is_labelled() -> None:
    page = comparison_page(compare([""], ["gut"], [["gut"]]), name_a="a", name_b="b")
    assert "(empty)" in read(page).text

"""The quiz and the predictions at the stop about heads; and that a reload, or a link, shows what the reader did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from .conftest import PageOpener
from .fake_server import FakeServer

TEXT = "good it day"
ANSWERED = "[aria-pressed=true]"


def softmax(x: Any) -> Any:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def answers(look: Any) -> list[str]:
    """What is right, recomputed from the numbers of the look; every word is one token."""
    model = look["model"]
    n, d, d_k = len(look["source"]["pieces"]), model["d_model"], model["d_k"]
    heads = {(record["attention"], record["layer"]): record for record in look["attentions"]}
    first = np.array(heads["encoder", 0]["scores"])[0, 0]
    divided, plain = softmax(first / np.sqrt(d_k)).max(), softmax(first).max()
    positions = np.array(look["embedding"]["source"]["position"])
    cosines = positions @ positions[n // 2] / np.linalg.norm(positions, axis=1)
    cosines[n // 2] = -np.inf
    sublayer = next(part for part in look["sublayers"] if part["stack"] == "encoder" and part["name"] == "feed_forward")
    top = model["n_encoder_layers"] - 1
    most = np.array(heads["encoder", top]["weights"])[:, 1].argmax(-1)  # of "it"
    epsilon, size = model["label_smoothing"], model["n_tgt_symbols"]
    return [
        f"{n}",
        f"{n * d:,}",
        f"{(np.array(heads['decoder', 0]['weights'])[0, 2] > 0).sum()}",
        "its training loss is lower, but its translations are wrong",
        f"√{d_k} = {np.sqrt(d_k):.2f}",
        "larger" if plain > divided else "smaller",
        "1.00",
        f"{cosines.argmax()}",
        f"{n} × {d}",
        "the one before the sub-layer"
        if sublayer["norm_before"][0] >= sublayer["norm_added"][0]
        else "the one that is added",
        f"{1 - epsilon + epsilon / size:.3f}",
        f"{size * d * (2 if model['tie'] == 'all' else 1):,}",
        look["source"]["pieces"][most[0]]["text"].strip("▁"),
        f"{(most != 1).sum()}",
    ]


def fetch_look(page: Page, url: str) -> Any:
    return page.request.post(f"{url}v1/look", data={"text": TEXT, "translation": None, "interventions": {}}).json()


def test_right_answers_are_those_of_the_numbers_and_stay_after_a_reload(
    open_page: PageOpener, fake_server: FakeServer
) -> None:
    page = open_page(fake_server.url, "look", text=TEXT, stop=16)
    items = page.locator(".quiz > li")
    expect(items).to_have_count(14)
    for item in items.all():
        item.locator(".options button").first.click()
    expected = answers(fetch_look(page, fake_server.url))
    expect(page.locator(".quiz [data-right]")).to_have_text(expected)
    picked = [item.locator(ANSWERED).inner_text() for item in items.all()]
    right = sum(option == answer for option, answer in zip(picked, expected, strict=True))
    score = page.locator(".step-body [role=status]").last
    expect(score).to_have_text(f"{right} right of 14 answered, 14 in all.")
    page.wait_for_url(lambda url: "answers=00000000000000" in url)
    page.reload()
    expect(score).to_have_text(f"{right} right of 14 answered, 14 in all.")
    page.locator("#sentence").fill("it good")  # other numbers, other answers
    expect(score).to_have_text("0 right of 0 answered, 14 in all.")


@pytest.mark.parametrize(
    ("item", "where"),
    [
        (5, "Encoder self-attention · layer 1 · head 1"),
        (9, "Encoder · layer 1"),
        (12, "Encoder self-attention · layer 2 · head 1"),
    ],
)
def test_quiz_leads_to_the_numbers_that_answer_it(
    open_page: PageOpener, fake_server: FakeServer, item: int, where: str
) -> None:
    """Not to the decoder's, where the reader comes from."""
    page = open_page(fake_server.url, "look", text=TEXT, stop=16, attention="decoder", layer=2, head=2)
    asked = page.locator(".quiz > li").nth(item)
    asked.locator(".options button").first.click()
    asked.get_by_role("button", name="Show it").click()
    expect(page.locator(".breadcrumb")).to_have_text(where)


def test_predictions_and_open_sections_stay_after_a_reload(open_page: PageOpener, fake_server: FakeServer) -> None:
    page = open_page(fake_server.url, "look", text=TEXT, stop=8)
    pair = page.locator(".example-pair")
    pair.locator(".guess").nth(2).click()
    expect(pair.locator(ANSWERED)).to_have_text("day")
    expect(pair).to_contain_text("fits only one of the two nouns")
    page.locator(".depends-section > summary").click()
    page.wait_for_url(lambda url: "guess=3%2C0" in url and "depends=on" in url)
    page.reload()
    expect(pair.locator(ANSWERED)).to_have_text("day")
    expect(pair.locator(".bar-line")).to_have_count(6)
    assert page.locator(".depends-section").evaluate("section => section.open")

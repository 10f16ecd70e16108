"""The page with a model of images: draw one, choose a file, look at its patches."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from ..images import write_folder
from .conftest import PageOpener
from .page_checks import expect_width

SERVER = """
import os, sys
from pathlib import Path
from regard.cli import main
from regard.run import train
os.chdir(sys.argv[1])
train(
    {
        "task": "images",
        "data": {"train": [{"images": "train"}]},
        "model": {"n_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2, "max_patches": 16},
        "training": {"steps": 100, "max_tokens": 64, "validate_every": 50, "rate": 0.02, "two_processes": "off"},
    },
    Path("bars"),
    fill_defaults=True,
)
sys.argv[1:] = ["serve", "bars", "--port", "0", "--quiet"]
main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images")
    write_folder(path / "train", 300)
    return path


@pytest.fixture(scope="module")
def url(browser: Browser, folder: Path) -> Iterator[str]:
    """Starts a process that trains and serves a classifier of bars."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with (
        (folder / "errors").open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", SERVER, folder], env=environment, text=True, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()  # empty if the process has ended
        try:
            assert "http" in line, (folder / "errors").read_text()
            yield line.split()[-1] + "/"
        finally:
            process.terminate()


def draw_line(page: Page, *places: tuple[float, float]) -> None:
    """A stroke on the pad; places are shares of its side."""
    box = page.locator(".pad").bounding_box()
    assert box is not None
    for number, (x, y) in enumerate(places):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=4)
        if number == 0:
            page.mouse.down()
    page.mouse.up()


def test_what_is_drawn_is_predicted_and_looked_at(open_page: PageOpener, url: str) -> None:
    page = open_page(url)
    expect(page.locator(".pad")).to_be_visible()
    expect(page.locator("#sentence")).to_be_hidden()
    words = page.locator("#words")
    draw_line(page, (0.2, 0.6), (0.8, 0.6))
    expect(words).to_contain_text(re.compile("^across: "))
    page.wait_for_timeout(300)  # until the end of the stroke is predicted too
    first = words.inner_text()
    draw_line(page, (0.5, 0.2), (0.5, 0.9))  # on the same drawing
    expect(words).not_to_have_text(first)
    page.wait_for_timeout(300)
    both = words.inner_text()
    page.wait_for_function("location.hash.includes('text=data%3Aimage')")
    page.locator("#tab-look").click()
    expect(page.locator(".image-figures figcaption").nth(0)).to_contain_text("4 × 4 patches of 3 pixels")
    expect(page.locator(".image-figures figcaption").nth(1)).to_contain_text("%")
    expect(page.locator(".image-figures canvas")).to_have_count(3)
    expect(page.locator(".recorded .heat-columns").first.locator(".heat-label").first).to_have_text("class")
    for width in (360, 1400):
        page.set_viewport_size({"width": width, "height": 800})
        expect_width(page, width)
    page.get_by_role("button", name="한국어").click()
    expect(page.locator(".recorded")).to_contain_text("어텐션 롤아웃")
    page.reload()
    expect(words).to_have_text(both)  # the image is in the address
    page.locator("#source-tools button").first.click()  # clear
    expect(words).to_have_text("")


def test_a_file_can_be_chosen(open_page: PageOpener, url: str, folder: Path) -> None:
    page = open_page(url)
    page.locator("#image-file").set_input_files(next((folder / "train" / "down").iterdir()))
    expect(page.locator("#words")).to_contain_text(re.compile("^down: "))
    page.locator("#image-file").set_input_files(folder / "errors")
    expect(page.locator(".image-input .note")).to_contain_text("no image")
    expect(page.locator("#words")).to_contain_text(re.compile("^down: "))

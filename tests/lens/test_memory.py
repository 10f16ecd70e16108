"""The memory over time, in every form of a look: terminal, picture, JSON, HTML."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.artifact import LoadedModel
from regard.cli.look.terminal import print_look
from regard.lens import Lens
from regard.lens.html import look_page
from regard.lens.look import Look
from regard.lens.look_json import count_numbers
from regard.lens.memory import memory_maps
from regard.lens.plots.pictures import draw_vectors
from regard.models.neural_gpu import NeuralGPU, NeuralGPUConfig
from regard.text import Tokenizer, TokenizerPair

from .conftest import SENTENCE

TRANSLATION = "das Tier überquerte die Straße nicht"


def look_with(tokenizer: Tokenizer, **config: object) -> Look:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        sizes = NeuralGPUConfig(**({"d_model": 6} | config))  # type: ignore[arg-type]
        model = NeuralGPU(sizes, tokenizer.size, tokenizer.size, tokenizer.pad_id).eval()
    facts = {"max_length": 40}
    loaded = LoadedModel("neural-gpu", sizes, model, TokenizerPair(tokenizer, tokenizer), facts)
    return Lens(loaded, "gpu").look(SENTENCE, TRANSLATION)


@pytest.fixture(scope="module")
def look(tokenizer: Tokenizer) -> Look:
    return look_with(tokenizer)


def test_a_map_has_the_length_of_every_cell_after_every_step(look: Look) -> None:
    encoder, decoder = memory_maps(look)
    n_source, n_target = len(look.source.ids), len(look.target.outputs.ids)
    assert (encoder.title, decoder.title) == ("encoder.memory", "decoder.memory")
    assert encoder.rows == [str(step) for step in range(n_source + 1)]
    assert encoder.columns[:n_source] == look.source.labels("pieces")
    assert decoder.rows == look.target.outputs.labels("pieces")
    assert encoder.values.shape == (n_source + 1, len(encoder.columns))
    assert decoder.values.shape == (n_target, len(decoder.columns))
    expected = look.trace["encoder.memory"][0, 2, 3, 0].square().sum().sqrt()
    assert encoder.values[2, 3] == pytest.approx(float(expected), rel=1e-5)


def test_every_row_of_cells_has_a_map_of_its_own(tokenizer: Tokenizer) -> None:
    plain = look_with(tokenizer, form="plain", n_rows=3)
    assert [each.title for each in memory_maps(plain)] == [f"encoder.memory · row {row}" for row in (1, 2, 3)]
    assert not memory_maps(plain)[1].values[0].any()  # the source is in the first row


def test_the_terminal_has_one_line_per_step(look: Look, capsys: pytest.CaptureFixture[str]) -> None:
    print_look(look, "states")
    lines = capsys.readouterr().out.splitlines()
    encoder = memory_maps(look)[0]
    first = next(i for i, line in enumerate(lines) if line.startswith("encoder.memory"))
    for step, values in enumerate(encoder.values):
        label, bars = lines[first + 1 + step].split()
        assert (label, len(bars)) == (str(step), len(encoder.columns))
        assert bars[int(values.argmax())] == max(bars)
    print_look(look)
    assert "decoder.memory" in capsys.readouterr().out


def test_the_picture_the_json_and_the_html_file_have_it(look: Look, tmp_path: Path) -> None:
    picture = draw_vectors(look)
    assert picture.title == "The memory over time"
    assert len(picture.figure.axes) >= 2
    record = look.to_dict()
    json.dumps(record, allow_nan=False)
    np.testing.assert_allclose(
        record["arrays"]["decoder.memory"], look.trace["decoder.memory"][0], rtol=1e-5, atol=1e-9
    )
    [site] = [site for site in record["sites"] if site["path"] == "encoder.memory"]
    assert (site["kind"], site["axes"]) == ("memory", ("step", "column", "row", "unit"))
    assert "memoryPanels" in look_page(look.to_dict("base64"))


def test_the_numbers_of_a_look_are_not_underestimated(look: Look) -> None:
    n_source, n_target = len(look.source.ids), len(look.target.outputs.ids)
    one_token = tuple(site._replace(shape=(2, 4, 1, 6)) if site.kind == "memory" else site for site in look.sites)
    counted = count_numbers(one_token, n_source, n_target)
    assert counted >= sum(int(np.prod(site.shape)) for site in look.sites if site.kind == "memory")

"""Input files from Windows, compressed or damaged; the output of a training; recipe files."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

Inline = Callable[..., Any]
Arguments = Callable[..., list[str]]
FEW = "training.steps=4"


def weights(run: Path) -> bytes:
    return (run / "model" / "model.safetensors").read_bytes()


@pytest.mark.parametrize("encoding", ["crlf", "bom", "gzip", "zstd"])
def test_file_format_does_not_change_the_model(
    inline: Inline, text: Any, arguments: Arguments, tmp_path: Path, encoding: str
) -> None:
    assert inline(*arguments(text, "plain", FEW)).returncode == 0
    change: dict[str, Callable[[bytes], bytes]] = {
        "crlf": lambda data: data.replace(b"\n", b"\r\n"),
        "bom": lambda data: b"\xef\xbb\xbf" + data,
        "gzip": gzip.compress,
        "zstd": zstandard.ZstdCompressor().compress,
    }
    for path in (text.source, text.target):
        path.write_bytes(change[encoding](path.read_bytes()))
    changed = inline(*arguments(text, "changed", FEW))
    assert changed.returncode == 0, changed.stderr
    assert weights(tmp_path / "changed") == weights(tmp_path / "plain")


def test_invalid_line_is_an_error_or_skipped_and_counted(
    inline: Inline, text: Any, arguments: Arguments, tmp_path: Path
) -> None:
    lines = text.source.read_bytes().split(b"\n")
    text.source.write_bytes(b"\n".join([*lines[:41], b"1 \xe4 2", *lines[42:]]))
    refused = inline(*arguments(text, "run", FEW))
    assert refused.returncode == 2
    error = refused.stderr.splitlines()[-1]
    assert str(text.source) in error
    assert re.search(r"\b(line 42|:42\b)", error), error

    skipped = inline(*arguments(text, "run", FEW, "data.on_bad=skip"))
    assert skipped.returncode == 0, skipped.stderr
    assert re.search(r"1 line.* not valid", skipped.stderr), skipped.stderr
    facts = json.loads((tmp_path / "run" / "model" / "config.json").read_text())["facts"]
    n_validation = int(re.search(r"(\d+) validation pairs", skipped.stderr)[1])
    assert facts["n_pairs"] + n_validation == 299


def test_progress_is_plain_lines_on_stderr(regard: Any, text: Any, tmp_path: Path) -> None:
    result = regard.train(text, "run", FEW, "training.validate_every=2")
    assert (result.returncode, result.stdout) == (0, "")
    assert "\x1b" not in result.stderr
    assert "\r" not in result.stderr
    first_words = [line.split()[0] for line in result.stderr.splitlines()]
    assert first_words[:4] == ["examining", "building", "encoding", "measuring"]
    assert first_words[4:8] == ["data", "model", "training", "cost"]
    assert re.search(r"^step 1/4  loss \d+\.\d+  [\d,]+ tokens/s", result.stderr, re.MULTILINE)
    assert len(re.findall(r"validation: loss \d", result.stderr)) == 2
    *paths, verdict = result.stderr.splitlines()[-3:]
    assert paths == ["the model is in run/model", "the report is in run/report.html"]
    assert verdict.startswith("BLEU ")


def test_run_directory_has_the_documented_files(
    inline: Inline, text: Any, arguments: Arguments, tmp_path: Path
) -> None:
    assert inline(*arguments(text, "run", FEW)).returncode == 0
    names = {entry.name for entry in (tmp_path / "run").iterdir()}
    assert names == {".lock", "recipe.toml", "journal.jsonl", "data", "checkpoints", "model", "report.html"}
    assert {entry.name for entry in (tmp_path / "run" / "model").iterdir()} >= {
        "config.json", "model.safetensors", "tokenizer.model", "manifest.json", "README.md",
    }  # fmt: skip


def test_settings_override_the_recipe_file(inline: Inline, text: Any, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text(
        "[model]\npreset = 'tiny'\nd_model = 16\nn_heads = 2\nd_ff = 16\nn_encoder_layers = 1\nn_decoder_layers = 1\n"
        "[training]\nsteps = 9\nmax_tokens = 512\nwarmup = 7\n"
    )
    result = inline("train", *text.flags, "--out", "run", "--recipe", "r.toml", "--set", "training.steps=3")
    assert result.returncode == 0, result.stderr
    written = (tmp_path / "run" / "recipe.toml").read_text()
    for line in ("d_model = 16", "steps = 3", "warmup = 7", 'schedule = "noam"', 'norm = "post"', "clip = "):
        assert (line in written) == (line != "clip = "), line  # with a recipe, missing values are the paper's

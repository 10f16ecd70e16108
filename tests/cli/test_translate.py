"""`regard translate` as a Unix command: lines, files and exit codes. The model has random weights."""

import gzip
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import zstandard

from regard.artifact import LoadedModel, save_model
from regard.engines.ctranslate2.convert import SUBDIRECTORY, convert
from regard.models import ModelSpec, Transformer, TransformerConfig, named_weights
from regard.text import Tokenizer, TokenizerPair, train_tokenizer

UNUSUAL_SEPARATORS = "one\u2028two\x0b\x0c\x1c\x1d\x1e\x1f\x85three\u2029\rfour"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = Tokenizer(train_tokenizer(["one two three four five"] * 9, size=300))
    tokenizers = TokenizerPair(tokenizer, tokenizer)
    config = TransformerConfig(d_model=16, d_ff=32, n_heads=2, n_encoder_layers=1, n_decoder_layers=1)
    torch.manual_seed(1)
    network = Transformer(config, tokenizer.size, tokenizer.size).eval()
    loaded = LoadedModel("transformer", config, network, tokenizers, {"max_length": 32})
    directory = tmp_path_factory.mktemp("cli") / "model"
    save_model(
        directory,
        spec=ModelSpec("translation", "transformer", config, tokenizers.sizes),
        weights=named_weights(network),
        assets=tokenizers.files(),
        facts=loaded.facts,
        card="",
        write_more=lambda aside: convert(loaded, aside / SUBDIRECTORY, "float32"),
    )
    return directory


def command(model: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "regard", "translate", str(model), "--beam", "1", *options]


def run(model: Path, text: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(model, *options), input=text, capture_output=True, timeout=120)


def test_output_has_as_many_lines_as_the_input(model: Path) -> None:
    lines = ["one two", "", "   ", UNUSUAL_SEPARATORS, "\ufeffmiddle", "emoji 👩‍👩‍👧 \u200f\u200e", "last without end"]
    result = run(model, "\n".join(lines).encode())
    assert result.returncode == 0
    out = result.stdout.decode().split("\n")
    assert len(out) == len(lines) + 1 and out[-1] == ""
    assert out[1] == out[2] == ""
    assert b"7 lines: 2 blank" in result.stderr


def test_standard_input_may_be_a_file_at_an_offset_or_a_socket(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a header\none\ntwo\n")
    with (tmp_path / "in.txt").open("rb", buffering=0) as file:
        file.seek(len("a header\n"))
        result = subprocess.run(command(model), stdin=file, capture_output=True, timeout=120)
    assert result.stdout.count(b"\n") == 2
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"one\n")
        ours.shutdown(socket.SHUT_WR)
        result = subprocess.run(command(model), stdin=theirs, capture_output=True, timeout=120)
    assert (result.returncode, result.stdout.count(b"\n")) == (0, 1), result.stderr


def test_no_input_gives_no_output(model: Path) -> None:
    result = run(model, b"")
    assert (result.returncode, result.stdout) == (0, b"")


def test_invalid_text_is_replaced_and_reported(model: Path) -> None:
    result = run(model, b"one\n\xff\xfe two\nnul \x00 here\n")
    assert result.returncode == 0 and result.stdout.count(b"\n") == 3
    assert b"not valid text on 2 lines" in result.stderr


def test_crlf_and_bom_are_removed(model: Path) -> None:
    plain, windows = run(model, b"one\ntwo\n"), run(model, b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert plain.stdout == windows.stdout
    assert b"byte order mark" in windows.stderr and b"CRLF" in windows.stderr


def test_files_may_be_plain_or_compressed(model: Path, tmp_path: Path) -> None:
    lines = b"one\n\ntwo three\n"
    expected = run(model, lines).stdout
    (tmp_path / "in.txt").write_bytes(lines)
    (tmp_path / "in.gz").write_bytes(gzip.compress(lines))
    (tmp_path / "in.zst").write_bytes(zstandard.compress(lines))
    out = {"out.txt": lambda raw: raw, "out.gz": gzip.decompress, "out.zst": zstandard.decompress}
    for source, (name, decompress) in zip(("in.zst", "in.txt", "in.gz"), out.items(), strict=True):
        result = run(model, b"", str(tmp_path / source), "--out", str(tmp_path / name))
        assert result.returncode == 0, result.stderr
        assert decompress((tmp_path / name).read_bytes()) == expected
    assert not list(tmp_path.glob(".*"))


def test_several_files_are_written_to_a_directory(model: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in ("a", "b"):
        (tmp_path / name).write_text("one\n" if name == "a" else "one\ntwo\n")
    result = run(model, b"", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path / "out"))
    assert result.returncode == 0
    assert [(tmp_path / "out" / name).read_text().count("\n") for name in ("a", "b")] == [1, 2]


def test_jsonl_has_details_and_tsv_has_scores(model: Path) -> None:
    record = json.loads(run(model, b"one two\n", "--format", "jsonl").stdout)
    assert record["source"] == "one two" and record["tokens"] and "alignment" in record
    row = run(model, b"one two\n", "--format", "tsv", "--beam", "3", "--nbest", "3").stdout.decode()
    assert len(row.split("\t")) == 6 and row.count("\n") == 1


def test_length_penalty_changes_the_score(model: Path) -> None:
    default, none, high = (
        float(run(model, b"one two\n", "--format", "tsv", "--beam", "1", *options).stdout.split(b"\t")[0])
        for options in ([], ["--length-penalty", "0"], ["--length-penalty", "3"])
    )
    assert none < default < high < 0  # a sum of log-probabilities, divided by an increasing number


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--nbest", "2"], "--nbest needs"),
        (["--resume"], "--resume needs"),
        (["nowhere.txt"], "no such file"),
        (["A sentence."], "hint: to translate a sentence: echo 'A sentence.' | regard translate /"),
        (["안녕하세요."], "hint: check the path; to translate a sentence: echo '안녕하세요.' | regard translate /"),
        (["--target", "xx"], "no target language"),
        (["--sample", "1", "--seed", "-1"], "--seed"),
        (["x" * 300], "file name too long"),
    ],
)
def test_user_error_is_one_line_and_exit_code_2(model: Path, options: list[str], message: str) -> None:
    result = run(model, b"one\n", *options)
    assert result.returncode == 2
    assert result.stderr.decode().startswith("error: ") and result.stderr.count(b"\n") == 1
    assert message in result.stderr.decode()


def test_closed_pipe_is_not_an_error(model: Path) -> None:
    shell = f'yes one | head -20000 | {" ".join(command(model))} | head -1; echo "${{PIPESTATUS[2]}}"'
    result = subprocess.run(["bash", "-c", shell], capture_output=True, timeout=120)
    assert result.stdout.count(b"\n") == 2 and result.stdout.endswith(b"\n0\n")
    assert result.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_full_disk_is_a_user_error(model: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(command(model), input=b"one\n", stdout=full, stderr=subprocess.PIPE, timeout=120)
    assert result.returncode == 2
    assert b"no space left" in result.stderr and b"Traceback" not in result.stderr


def test_closed_standard_output_is_a_user_error(model: Path) -> None:
    shell = f"echo one | {' '.join(command(model))} >&-"
    result = subprocess.run(["bash", "-c", shell], capture_output=True, timeout=120)
    assert result.returncode == 2
    assert result.stderr.startswith(b"error: ") and b"Traceback" not in result.stderr


def test_typed_line_is_translated_at_once(model: Path) -> None:
    with subprocess.Popen(
        command(model), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        for _ in range(3):
            child.stdin.write(b"one two\n")
            child.stdin.flush()
            assert child.stdout.readline().endswith(b"\n")  # would block if the command waited for more lines
        child.stdin.close()
        assert child.wait(60) == 0


def test_killed_command_leaves_no_partial_output_and_can_be_resumed(model: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"one two {'three ' * (n % 7)}\n" for n in range(20_000)))
    arguments = command(model, str(source), "--out", str(out), "--threads", "1")
    child = subprocess.Popen(arguments, stderr=subprocess.PIPE)
    state = tmp_path / ".out.txt.part.json"
    deadline = time.monotonic() + 120
    while not state.exists() and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not out.exists() and state.exists()
    n_done = json.loads(state.read_text())["n_lines"]
    assert 0 < n_done < 20_000
    resumed = subprocess.run([*arguments, "--resume"], capture_output=True, timeout=240)
    assert resumed.returncode == 0, resumed.stderr
    lines = out.read_text().split("\n")
    assert len(lines) == 20_001
    assert f"{20_000 - n_done:,} lines".encode() in resumed.stderr
    assert len({lines[n] for n in range(0, 20_000, 7)}) == 1  # equal inputs, equal outputs, before and after the kill
    assert not list(tmp_path.glob(".*"))

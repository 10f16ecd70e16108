"""The documentation matches the code: snippets run, commands parse, and everything a user can set is described."""

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import typer
from pydantic import BaseModel

from regard.cli.app import app
from regard.models import ARCHITECTURES
from regard.run import Recipe
from regard.serve import Service, create_app, load_models

from .digits import write_digits

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "commands.md"  # generated, so it cannot tell whether a guide is complete
GUIDES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").glob("*.md") if path != REFERENCE)]
KOREAN = [ROOT / "README.ko.md", *sorted((ROOT / "docs" / "ko").glob("*.md"))]
DOCUMENTS = [*GUIDES, *KOREAN, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"]


def all_commands(group: Any, prefix: str = "") -> dict[str, Any]:
    """By name; "paper story" is a command of the group "paper"."""
    commands: dict[str, Any] = {}
    for name, command in group.commands.items():
        commands |= (
            all_commands(command, f"{prefix}{name} ") if hasattr(command, "commands") else {prefix + name: command}
        )
    return commands


COMMANDS = all_commands(typer.main.get_command(app))


def read(*paths: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def code_blocks(path: Path, *languages: str) -> list[str]:
    """The fenced blocks in these languages; "" is a fence without one."""
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```", read(path), re.DOTALL | re.MULTILINE)
    return [text for language, text in blocks if language in languages]


# Snippets and commands


SNIPPETS = [
    pytest.param(snippet, id=f"{path.name}-{number}")
    for path in DOCUMENTS
    for number, snippet in enumerate(code_blocks(path, "python"))
]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_python_snippets_run(snippet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "train.en" in snippet:  # the reader's own files and 20 minutes: here a small text and a few steps
        monkeypatch.chdir(tmp_path)
        for written, name in zip(write_digits(tmp_path, 300, seed=1), ("train.en", "train.de"), strict=True):
            written.rename(name)
        assert '"budget_seconds": 1200' in snippet
        snippet = snippet.replace('"budget_seconds": 1200', '"steps": 5')
    else:
        monkeypatch.chdir(ROOT)
    exec(compile(snippet, "snippet", "exec"), {})


COMMAND_LINES = [
    pytest.param(shlex.split(line[line.index("regard ") :], comments=True), id=f"{path.name}-{number}")
    for path in DOCUMENTS
    for number, line in enumerate(
        line
        for block in code_blocks(path, "", "sh", "console")
        for line in block.splitlines()
        if re.match(r"(\$ )?(echo .*\| )?regard ", line)
    )
]


@pytest.mark.parametrize("words", COMMAND_LINES)
def test_commands_have_only_options_that_exist(words: list[str]) -> None:
    command = words[1] if words[1] in COMMANDS else " ".join(words[1:3])
    assert command in COMMANDS
    assert {word.partition("=")[0] for word in words[2:] if word.startswith("-")} <= {*flags_of(command), "--help"}


def test_the_documents_have_snippets_and_commands() -> None:
    assert len(COMMAND_LINES) >= 30
    assert len(SNIPPETS) >= 6


def test_links_lead_to_files_that_exist() -> None:
    for path in DOCUMENTS:
        for link in re.findall(r"\]\(([^)#:]+)\)", read(path)):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_source_files_named_in_the_tour_and_in_contributing_exist() -> None:
    text = read(ROOT / "docs" / "tour.md", ROOT / "CONTRIBUTING.md")
    paths = re.findall(r"`((?:[\w.-]+/)*[\w.-]+\.py|(?:[\w.-]+/)+)`", text)
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists() and not (ROOT / "src/regard" / path).exists()] == []


def test_names_in_the_steps_for_an_architecture_exist() -> None:
    steps = re.findall(r"`([A-Z]\w+)(?:\.\w+)?` in\s+`([\w/]+\.py)`", read(ROOT / "CONTRIBUTING.md"))
    assert len(steps) >= 4
    assert [name for name, path in steps if name not in read(ROOT / path)] == []


def test_the_tour_visits_every_package() -> None:
    packages = {f"{path.name}/" for path in (ROOT / "src" / "regard").iterdir() if (path / "__init__.py").exists()}
    assert len(packages) > 10
    tour = read(ROOT / "docs" / "tour.md")
    assert sorted(package for package in packages if f"`{package}" not in tour) == []


def test_the_command_reference_is_up_to_date(tmp_path: Path) -> None:
    (line,) = (line for line in read(ROOT / "Makefile").splitlines() if "utils docs" in line)
    arguments = shlex.split(line)[1:-1]  # between the interpreter and the output
    subprocess.run([sys.executable, *arguments, str(tmp_path / "commands.md")], check=True, capture_output=True)
    assert read(tmp_path / "commands.md") == read(REFERENCE), "run `make docs` and commit docs/commands.md"


# Results in README.md, which `benchmarks/readme.py` writes together with a row of results/quality.md


def quality_rows() -> list[list[str]]:
    lines = read(ROOT / "benchmarks" / "results" / "quality.md").splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| 2")]


def scores_in(text: str, bleu: str, chrf: str) -> list[float]:
    """The scores that these patterns find."""
    matches = [re.search(pattern, text) for pattern in (bleu, chrf)]
    return [float(match[1]) for match in matches if match]


def test_the_readme_shows_the_output_of_its_measured_run() -> None:
    (block,) = re.findall(r"<!-- own-text -->(.*?)<!-- /own-text -->", read(ROOT / "README.md"), re.DOTALL)
    (row,) = (row for row in quality_rows() if "README" in row[3])
    (budget,) = re.findall(r"--budget (\w+)", block)
    assert row[3] == f"`--budget {budget}`, README"
    shown = scores_in(block, r"BLEU +(\S+) .*–", r"chrF\+\+ +(\S+) .*–")  # with intervals: those of the test set
    assert len(shown) == 2
    in_table = scores_in(row[-1], r"test_2016_flickr: (\S+)", r"chrF\+\+ (\S+)")
    assert in_table == pytest.approx(shown, abs=0.056)  # the table has one digit, the block two


def test_every_bleu_score_in_the_readmes_has_a_row() -> None:
    measured = {bleu for row in quality_rows() for bleu in re.findall(r"test_2016_flickr: (\S+)", row[-1])}
    for path in (ROOT / "README.md", ROOT / "README.ko.md"):
        claimed = re.findall(r"(\d\d\.\d) BLEU", read(path))
        assert claimed and set(claimed) <= measured, path.name


# Everything that a user can set or meet is described in a guide


def flags_of(command: str) -> set[str]:
    return {flag for parameter in COMMANDS[command].params for flag in (*parameter.opts, *parameter.secondary_opts)}


def recipe_fields(model: type[BaseModel]) -> Iterator[str]:
    """The names of all fields, and the values of those with a fixed set of values."""
    for name, field in model.model_fields.items():
        yield name
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from recipe_fields(kind)
        if get_origin(field.annotation) is Literal:
            yield from get_args(field.annotation)


def routes() -> set[str]:
    service = Service(load_models([ROOT / "tests" / "golden" / "model"], n_engines=1))
    (paths,) = (layer.kwargs["routes"] for layer in create_app(service).user_middleware if "routes" in layer.kwargs)
    return {path for path in paths if path not in {"/", "/static"} and "{" not in path}  # the page and its files


def environment_variables() -> set[str]:
    source = read(*(ROOT / "src").rglob("*.py"))
    own = read(*(ROOT / "tests").rglob("*.py"), ROOT / "Makefile", ROOT / ".ci" / "run")
    in_source = set(re.findall(r'(?:environ(?:\.\w+\(|\[)|getenv\()\s*"(\w+)"', source))
    return {*in_source, *re.findall(r"REGARD_[A-Z_]*[A-Z]", source + own), "OMP_NUM_THREADS"}  # torch reads the last


def error_codes() -> set[str]:
    """From `Problem(status, code, …)`, `refusal_code: … = code`, `{status: code}` and `{"code": code}`."""
    codes: set[str] = set()
    for path in (ROOT / "src" / "regard" / "serve").rglob("*.py"):
        if path.parent.name == "libretranslate":  # its responses have no codes
            continue
        for node in ast.walk(ast.parse(read(path))):
            match node:
                case ast.Call(func=ast.Name(id="Problem"), args=[_, code, *_]):
                    codes |= string_constants(code)
                case ast.AnnAssign(target=ast.Name(id="refusal_code"), value=ast.Constant() as code):
                    codes |= string_constants(code)
                case ast.Dict(keys=[ast.Constant(value=int(status)), *_], values=[ast.Constant(), *_]) if status >= 400:
                    codes |= string_constants(node)
                case ast.Dict(keys=[ast.Constant(value="code"), ast.Constant(value="message"), *_], values=[code, *_]):
                    codes |= string_constants(code)
    return codes


def string_constants(node: ast.AST) -> set[str]:
    constants = (child.value for child in ast.walk(node) if isinstance(child, ast.Constant))
    return {constant for constant in constants if isinstance(constant, str)}


def missing(names: set[str], *paths: Path) -> list[str]:
    """The names that occur in no code span or block of these documents."""
    code = "\n".join(re.findall(r"```.*?```|`[^`]+`", read(*paths), re.DOTALL))
    return sorted(name for name in names if not re.search(rf"(?<![\w/-]){re.escape(name)}(?![\w-]|/\w)", code))


def test_every_command_and_flag_is_described() -> None:
    assert missing({f"regard {command}" for command in COMMANDS}, *GUIDES) == []
    flags = {flag for command in COMMANDS for flag in flags_of(command) if flag.startswith("--")}
    assert len(flags) > 50
    assert missing(flags, *GUIDES) == []


def test_every_recipe_field_is_described() -> None:
    data: dict[str, Any] = {"translation": {"tsv": "x"}, "classification": {"labels": "x"}}
    data["images"] = {"images": "x"}
    data |= dict.fromkeys(("pretraining", "language", "answering"), "x")
    raws = [
        {"task": task, "data": {"train": [data[task]]}, "model": {"architecture": name}}
        for name, architecture in ARCHITECTURES.items()
        for task in architecture.models
    ]
    fields = {field for raw in raws for field in recipe_fields(type(Recipe.build(raw)))}
    assert {"start_from", "held_out", "d_model", "smoothing", "swiglu", "bidirectional"} <= fields
    names = ("train", "architectures", "classify", "pretrain", "answer", "language", "images")
    assert missing(fields, *(ROOT / "docs" / f"{name}.md" for name in names)) == []


def test_every_route_is_described() -> None:
    paths = routes()
    assert {"/v1/translate", "/translate", "/metrics"} <= paths
    assert missing(paths, ROOT / "docs" / "serve.md", ROOT / "docs" / "libretranslate.md") == []


def test_every_environment_variable_is_described() -> None:
    variables = environment_variables()
    assert {"GOMP_SPINCOUNT", "REGARD_BROWSER"} <= variables
    assert missing(variables, *GUIDES, ROOT / "CONTRIBUTING.md") == []


def test_every_error_code_is_described() -> None:
    codes = error_codes()
    assert {"busy", "too_long", "not_found", "refused", "can_not_predict"} <= codes
    assert missing(codes, ROOT / "docs" / "serve.md") == []


def test_undocumented_name_is_reported(tmp_path: Path) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text("`--max-texts 3`, `/v1/models`, steps\n```\nregard look\n```\n")
    assert missing({"--max-texts", "/v1/models", "regard look"}, guide) == []
    absent = {"--max-text", "--max", "/v1", "/models", "regard loo", "steps"}
    assert missing(absent, guide) == sorted(absent)

"""Every Python snippet in the documents runs, and every command in them could."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from regard.cli.app import app

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path: Path, *languages: str) -> list[str]:
    """What stands between fences, of some languages."""
    found = re.findall(r"^ *```(\w*)\n(.*?)^ *```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [text for language, text in found if language in languages]


SNIPPETS = [
    pytest.param(snippet, id=f"{path.name}-{number}")
    for path in DOCUMENTS
    for number, snippet in enumerate(blocks(path, "python"))
]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_runs_as_it_stands(snippet: str) -> None:
    exec(compile(snippet, "snippet", "exec"), {})


def test_links_in_the_documents_lead_somewhere() -> None:
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


COMMANDS = [
    pytest.param(shlex.split(line[line.index("regard ") :], comments=True), id=f"{path.name}-{number}")
    for path in DOCUMENTS
    for number, line in enumerate(
        line
        for block in blocks(path, "", "sh", "console")
        for line in block.splitlines()
        if re.match(r"(\$ )?(echo .*\| )?regard ", line)
    )
]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_has_only_options_that_exist(words: list[str]) -> None:
    verbs = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert words[1] in verbs
    known = {name for parameter in verbs[words[1]].params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert {word.partition("=")[0] for word in words[2:] if word.startswith("-")} <= known


def test_there_are_commands_in_the_documents() -> None:
    assert len(COMMANDS) >= 30
    assert len(SNIPPETS) >= 5

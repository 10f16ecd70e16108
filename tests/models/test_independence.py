"""An architecture can be read, changed and removed alone: its file imports no other architecture."""

import ast
import re
from pathlib import Path

import pytest

import regard.models
from regard.models import ARCHITECTURES as REGISTERED

SHARED = {"__init__", "architecture", "base", "config", "defaults", "pretraining", "sites", "weights"}
ARCHITECTURES = [path for path in sorted(Path(regard.models.__file__).parent.rglob("*.py")) if path.stem not in SHARED]


def forbidden_imports(source: str) -> list[str]:
    """What a file in `regard.models` imports from its own package, except what all architectures share."""
    imported = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = {0: None, 1: "regard.models", 2: "regard"}[node.level]
            module = ".".join(filter(None, (package, node.module)))
            imported += [f"{module}.{alias.name}" for alias in node.names]
    return [name for name in imported if re.match(r"regard\.models(?!\w)(?!\.(base|config|pretraining)\b)", name)]


@pytest.mark.parametrize("path", ARCHITECTURES, ids=lambda path: path.stem)
def test_an_architecture_imports_no_other_architecture(path: Path) -> None:
    assert forbidden_imports(path.read_text(encoding="utf-8")) == []


def test_every_architecture_is_checked() -> None:
    files = {
        Path(model.__module__.replace(".", "/")).name
        for entry in REGISTERED.values()
        for model in entry.models.values()
    }
    assert files == {path.stem for path in ARCHITECTURES}


@pytest.mark.parametrize(
    "statement",
    [
        "import regard.models.transformer",
        "import regard.models.lstm as lstm",
        "import regard.models",
        "from regard import models",
        "from regard.models import Transformer",
        "from regard.models.transformer import EncoderLayer",
        "from regard.models.base import TranslationModel; from regard.models.transformer import DecoderLayer",
        "from . import transformer",
        "from .transformer import EncoderLayer",
        "from .. import models",
        "def build():\n    from regard.models.transformer import Transformer",
    ],
)
def test_an_import_of_another_architecture_is_found(statement: str) -> None:
    assert forbidden_imports(statement) != []


@pytest.mark.parametrize(
    "statement",
    [
        "import torch",
        "from regard.nn import Trace",
        "from regard.models.base import TranslationModel",
        "from .base import TranslationModel",
        "from . import base",
        "import regard.models.base",
        "from regard.modelsX import Y",
    ],
)
def test_other_imports_are_allowed(statement: str) -> None:
    assert forbidden_imports(statement) == []

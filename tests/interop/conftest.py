"""A directory as transformers writes it, and what we import from it."""

from pathlib import Path

import pytest

from regard.interop.importing import import_model

from .marian_model import TAGS, write_marian


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of transformers, with two target languages."""
    path = tmp_path_factory.mktemp("marian") / "opus-mt-en-de"
    write_marian(path, TAGS)
    return path


@pytest.fixture(scope="session")
def run(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, imported."""
    path = tmp_path_factory.mktemp("imported") / "run"
    import_model(directory, path)
    return path

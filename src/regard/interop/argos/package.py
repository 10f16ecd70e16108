"""An .argosmodel file: a zip with one directory that has a CTranslate2 model, SentencePiece and a sentence splitter."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from regard import __version__
from regard.interop.argos.check import check_argos
from regard.interop.argos.splitter import splitter
from regard.interop.ctranslate2 import write_model
from regard.interop.original import Exported, Original, Target, read_card
from regard.text.languages import language_name
from regard.text.standalone import standalone_model

_VERSION, _ARGOS_VERSION = "1.0", "1.9.0"  # of the package, and the oldest of Argos Translate that reads it
_CODES = {"pt-BR": "pb", "zh-Hans": "zh", "zh-CN": "zh", "zh-Hant": "zt", "zh-TW": "zt"}  # where Argos has its own
_NO_LANGUAGES = "train with text.source_language and text.target_language, or on files such as train.en and train.de"


def export_argos(original: Original, target: Target) -> Exported:
    """DIR/translate-en_de-1_0.argosmodel."""
    source, goal = _languages(original)
    name = f"translate-{_argos_code(source)}_{_argos_code(goal)}-{_VERSION.replace('.', '_')}"
    package = target.directory / f"{name}.argosmodel"
    with TemporaryDirectory(dir=target.directory) as scratch:
        directory = Path(scratch) / name
        directory.mkdir()
        quantization = write_model(original, target, directory / "model")
        _write_files(original, directory, source, goal)
        original.report("packing", 0, None)
        _zip(directory, package)
    verified, not_verified = check_argos(original, package, quantization)
    return Exported(
        usage=_USAGE.format(package=package.name, source=_argos_code(source), target=_argos_code(goal)),
        verified=verified,
        not_verified=not_verified,
        notes=(
            f"the weights are stored as {quantization}",
            "it has its own sentence splitter, a rule, so that nothing is downloaded",
            "Argos Translate replaces underscores in a translation by spaces",
            "Argos Translate chooses among translations by its own length penalty, 0.2",
        ),
    )


def _languages(original: Original) -> tuple[str, str]:
    """Source and target. A package has one of each, and no tags."""
    source, targets = original.languages.source, original.languages.targets
    if original.loaded.tokenizers.source.tags:
        raise original.refused("a package of Argos Translate has one target language, and this model has tags")
    if source is None or len(targets) != 1:
        raise original.refused("its languages are not known, and Argos Translate needs them", _NO_LANGUAGES)
    return source, targets[0]


def _argos_code(code: str) -> str:
    """`pt-BR` is `pb`; other codes lose what follows the language."""
    return _CODES.get(code.replace("_", "-"), re.split("[-_]", code)[0])


def _write_files(original: Original, directory: Path, source: str, goal: str) -> None:
    tokenizers = original.loaded.tokenizers
    (directory / "sentencepiece.model").write_bytes(standalone_model(tokenizers.source))
    standalone_model(tokenizers.target)  # raises ArtifactError if it cannot be used there
    (directory / "minisbd").mkdir()
    (directory / "minisbd" / "rule.onnx").write_bytes(splitter(source))
    metadata = {
        "package_version": _VERSION,
        "argos_version": _ARGOS_VERSION,
        "from_code": _argos_code(source),
        "from_name": language_name(source),
        "to_code": _argos_code(goal),
        "to_name": language_name(goal),
    }
    (directory / "metadata.json").write_text(
        json.dumps(metadata, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    card = f"# {original.title}\n\nExported by regard {__version__}.\n\n{read_card(original.described)}"
    (directory / "README.md").write_text(card, encoding="utf-8")


def _zip(directory: Path, package: Path) -> None:
    """With the directory's own name in front. Entries have no times, so that the same model gives the same bytes."""
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in directory.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(str(Path(directory.name) / path.relative_to(directory)))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, path.read_bytes())


_USAGE = """```sh
argospm install {package}  # or in Python: argostranslate.package.install_from_path
argos-translate --from {source} --to {target} "A sentence."
```

LibreTranslate finds installed packages when it starts."""

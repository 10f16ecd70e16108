"""Which engine runs a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.artifact import Description
    from regard.engines.protocol import Engine

EngineName = Literal["auto", "ctranslate2", "torch"]
Precision = Literal["int8", "float32"]


def load_engine(described: Description, engine: EngineName, precision: Precision, threads: int | None) -> Engine:
    """`auto` is CTranslate2 where the model directory has it, torch elsewhere."""
    if engine not in get_args(EngineName):
        raise UserError(f"no engine is called {engine!r}", hint=f"one of {', '.join(get_args(EngineName))}")
    converted = any(name.startswith("ctranslate2/") for name in described.files)
    if engine == "ctranslate2" and not converted:
        raise UserError(f"{described.directory} can not run on CTranslate2", hint="use --engine torch")
    if engine == "torch" or not converted:
        from regard.artifact import load_model
        from regard.engines.torch_engine import TorchEngine

        return TorchEngine(load_model(described.directory), n_threads=threads)
    from regard.engines.ctranslate2.engine import CTranslate2Engine

    return CTranslate2Engine(
        described.directory / "ctranslate2",
        compute_type=precision,
        n_threads=threads,
        n_symbols=(described.tokenizers.source.size, described.tokenizers.target.size),
    )

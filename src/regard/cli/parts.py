"""Parts of a large job: the option --part i/N."""

import re
from typing import Annotated

import typer

from regard.errors import RecipeError

Part = Annotated[
    str | None, typer.Option(metavar="I/N", help="Do only part I of N, counted from 1; the others run elsewhere.")
]
Ray = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Use this Ray cluster; `local` is one of this machine alone.")
]


def parse_part(text: str) -> tuple[int, int]:
    """`3/64` → (3, 64)."""
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise RecipeError(f"{text!r} is not a part", hint="write it as 3/64: from 1/64 to 64/64")
    return int(match[1]), int(match[2])

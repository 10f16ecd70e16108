"""Arrays for JSON: nested lists that a person can read, or base64 that a page can read quickly."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from torch import Tensor

from regard.errors import UserError

Form = Literal["list", "base64"]

_DIGITS = 6  # significant ones in a list; float32 has about seven
_EXACT_POWER = 22  # of ten, in float64


def writer(form: Form) -> Callable[[Tensor], Any]:
    """How an array is written."""
    if form not in get_args(Form):
        raise UserError(f"arrays can not be {form!r}", hint=f"one of {', '.join(get_args(Form))}")
    return as_list if form == "list" else as_base64


def as_list(array: Tensor) -> Any:
    """Nested lists, rounded to six significant digits."""
    values = array.detach().double().numpy()
    with np.errstate(divide="ignore"):  # log10 of zero
        places = _DIGITS - 1 - np.floor(np.log10(np.abs(values)))
    # an integer over an exact power of ten is the float that prints shortest
    power = 10.0 ** np.clip(places, 0, _EXACT_POWER)
    return (np.round(values * power) / power).tolist()


def as_base64(array: Tensor) -> dict[str, Any]:
    """The float32 values themselves, little endian."""
    raw = np.ascontiguousarray(array.detach().numpy(), dtype="<f4")
    return {"shape": list(raw.shape), "float32": b64encode(raw.data).decode("ascii")}

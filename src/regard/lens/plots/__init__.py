"""Pictures, drawn with matplotlib, an optional dependency: importing this package without it is a UserError."""

from importlib.metadata import PackageNotFoundError, version

from regard.errors import UserError

_MIN_MATPLOTLIB = (3, 11)  # the first that shapes Arabic and Indic text and reads every font of a .ttc file


def _check_matplotlib() -> None:
    try:
        installed = version("matplotlib")
    except PackageNotFoundError:
        raise UserError("pictures need matplotlib", hint="in Regard's directory, run: pip install '.[plot]'") from None
    if tuple(map(int, installed.split(".")[:2])) < _MIN_MATPLOTLIB:
        raise UserError(
            f"matplotlib {installed} is too old for pictures", hint="in Regard's directory, run: pip install '.[plot]'"
        )


_check_matplotlib()

"""The command line: one file a verb. The only room that reads arguments, or prints."""

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

# Threads that wait for each other should soon sleep, not spin on: an idle machine gains a little, a busy one trains
# several times faster. GNU OpenMP reads this when torch is loaded, so it is said before anything is.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")
# oneDNN, and torch above it, keep a thousand kernels each, one for every shape of a product: a gigabyte for shapes that
# hardly come again.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
os.environ.setdefault("LRU_CACHE_CAPACITY", "64")


def main() -> None:
    """Run the command; what a person can mend is one line on stderr and exit code 2."""
    import typer

    from regard.cli.app import app
    from regard.errors import UserError

    if sys.stderr is None:  # closed by the shell: what is said goes nowhere, and the work goes on
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name need not be text
    # ClickException: of Typer's own copy of click, or of the system's
    usage_error: type[Exception] = typer.BadParameter.__mro__[2]
    try:
        code = app(standalone_mode=False, prog_name="regard")
    except UserError as error:
        _end(f"error: {error}")
    except usage_error as error:
        _end(_misused(error))
    except typer.Abort:
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            raise
        _end(f"error: {error.filename}: {(error.strerror or str(error)).lower()}")
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as end:
        # Click says 1 when whoever read our output has left: that is no error, and there is nobody to tell
        sys.exit(0 if isinstance(end.__context__, BrokenPipeError) else end.code)
    sys.exit(code if isinstance(code, int) else 0)


def _misused(error: Any) -> str:
    """An argument that is missing, unknown or of the wrong kind; without any, the help was the answer."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return ""
    message = " ".join(str(error.format_message()).split()).rstrip(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "regard"
    return f"error: {message[:1].lower()}{message[1:]}; hint: {command} --help"


def _end(message: str) -> NoReturn:
    sys.stderr.write(f"{message}\n" if message else "")
    sys.exit(2)

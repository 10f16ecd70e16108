"""The command line: one module per command. Only this package reads arguments and prints."""

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

# Threads that wait should sleep soon, not spin: a little faster on an idle machine, several times on a busy one.
# GNU OpenMP reads this when torch is imported, so it has to be set first.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")
# By default oneDNN and torch cache a thousand kernels each, one per matrix shape: a gigabyte for rarely used shapes.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
os.environ.setdefault("LRU_CACHE_CAPACITY", "64")


def main() -> None:
    """Run the command. An error that the user can fix is one line on stderr and exit code 2."""
    import typer

    from regard.cli.app import app
    from regard.errors import UserError

    if sys.stderr is None:  # closed by the shell: discard messages and continue
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file name may be invalid UTF-8
    # ClickException, from the copy of click in Typer or from click itself
    usage_error: type[Exception] = typer.BadParameter.__mro__[2]
    try:
        code = app(standalone_mode=False, prog_name="regard")
    except UserError as error:
        _fail(f"error: {error}")
    except usage_error as error:
        _fail(_usage_message(error))
    except typer.Abort:
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            raise
        _fail(f"error: {error.filename}: {(error.strerror or str(error)).lower()}")
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as end:
        # Click exits with 1 if the reader of our output has closed the pipe: that is not an error
        sys.exit(0 if isinstance(end.__context__, BrokenPipeError) else end.code)
    sys.exit(code if isinstance(code, int) else 0)


def _usage_message(error: Any) -> str:
    """The message for a missing, unknown or invalid argument; empty if the help was shown instead."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return ""
    message = " ".join(str(error.format_message()).split()).rstrip(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "regard"
    return f"error: {message[:1].lower()}{message[1:]}; hint: {command} --help"


def _fail(message: str) -> NoReturn:
    sys.stderr.write(f"{message}\n" if message else "")
    sys.exit(2)

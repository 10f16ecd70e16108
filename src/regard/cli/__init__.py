"""The command line: one file a verb. The only room that reads arguments, or prints."""

import os
import sys

# Threads that wait for each other should soon sleep, not spin on: an idle machine gains a little, a busy one trains
# several times faster. GNU OpenMP reads this when torch is loaded, so it is said before anything is.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")


def main() -> None:
    """Run the command; a UserError is one line on stderr and exit code 2."""
    from regard.cli.app import app
    from regard.errors import UserError

    try:
        app()
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # whoever read our output has left: that is no error, and there is nobody to tell
        sys.stderr.close()
        sys.exit(0)

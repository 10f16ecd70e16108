"""A service in a process, controlled through its standard input; prints its port first.

`admitted` prints the number of requests in progress. `release` lets translations finish, which wait until then.
"""

import os
import threading
from collections.abc import Sequence
from typing import Any

from regard.decoding.options import DecodingOptions
from regard.serve import ServedModel, Service, Settings, create_app, run
from regard.serve.http.server import bind
from regard.translator import Translation

LONG_SECONDS = 300.0


class HeldTranslator:
    def __init__(self) -> None:
        self.released = threading.Event()

    def translate(
        self, lines: Sequence[str], *, options: DecodingOptions, target: str | None, details: bool, **_: Any
    ) -> list[Translation]:
        self.released.wait(LONG_SECONDS)
        return [Translation(line.upper()) for line in lines]


def obey(service: Service, translator: HeldTranslator) -> None:
    while command := os.read(0, 100):  # not sys.stdin: a daemon thread in its lock would break the exit of Python
        if command == b"admitted\n":
            print(service.n_admitted, flush=True)
        elif command == b"release\n":
            translator.released.set()


if __name__ == "__main__":
    settings = Settings(
        port=0,
        notice_seconds=0.3,
        deadline_seconds=LONG_SECONDS,
        grace_seconds=LONG_SECONDS,
        stall_seconds=LONG_SECONDS,
    )
    translator = HeldTranslator()
    service = Service([ServedModel(name="held", predictors=[translator])], settings)
    threading.Thread(target=obey, args=(service, translator), daemon=True).start()
    run(create_app(service), service, bind(settings), lambda url: print(url.rpartition(":")[2], flush=True))

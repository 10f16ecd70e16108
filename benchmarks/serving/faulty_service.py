"""`regard serve` with an engine that dies or blocks on certain words; runs as a subprocess."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import sleep

from regard.decoding.options import DecodingOptions
from regard.serve import Service, Settings, create_app, load_models, run
from regard.serve.http.server import bind
from regard.translator import Translation, Translator


class FaultyTranslator:
    """Ends its thread on `die` and hangs on `block`."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator

    def translate(
        self, lines: Sequence[str], *, options: DecodingOptions, target: str | None, details: bool
    ) -> list[Translation]:
        if "die" in lines:
            raise SystemExit
        if "block" in lines:
            sleep(3_600)
        return self._translator.translate(lines, options=options, target=target, details=details)


def main() -> None:
    settings = Settings(port=0)
    [model] = load_models([Path(sys.argv[1])])
    faulty = replace(model, predictors=[FaultyTranslator(translator) for translator in model.predictors])
    service = Service([faulty], settings)
    run(create_app(service), service, bind(settings), lambda url: print(url, flush=True))
    os._exit(0)


if __name__ == "__main__":
    main()

"""A service that takes its time, in a process of its own; prints its port."""

from collections.abc import Sequence
from time import sleep

from regard.decoding.options import DecodingOptions
from regard.serve import ServedModel, Service, Settings, create_app, run
from regard.serve.http.server import bind
from regard.translator import Translation


class Slow:
    def translate(
        self, lines: Sequence[str], *, options: DecodingOptions, target: str | None, details: bool
    ) -> list[Translation]:
        sleep(0.08 * len(lines))
        return [Translation(line.upper()) for line in lines]


if __name__ == "__main__":
    settings = Settings(port=0, notice_seconds=0.3)
    service = Service([ServedModel(name="slow", translators=[Slow()])], settings)
    run(create_app(service), service, bind(settings), lambda url: print(url.rpartition(":")[2], flush=True))

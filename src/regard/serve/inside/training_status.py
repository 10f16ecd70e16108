"""The story of each run for the page; read again when it is asked for, live while a model trains."""

from __future__ import annotations

from regard.errors import UserError
from regard.report import RunReader
from regard.serve.batching.worker import WorkThread
from regard.serve.http.problem import Problem
from regard.serve.http.responses import to_json
from regard.serve.models import ServedModel


class Stories:
    """Journals are read in a thread: a long one takes a while, and a disk may."""

    def __init__(self) -> None:
        self._readers: dict[str, RunReader] = {}
        self._thread: WorkThread | None = None

    async def story(self, model: ServedModel) -> bytes:
        """The JSON of a run's story."""
        run = model.run
        if run is None:
            raise Problem(404, "no_run", "this model came without its run, so its training is not known")
        if self._thread is None or not self._thread.alive:
            self._thread = WorkThread("stories")
        try:
            reader = self._readers.setdefault(model.name, RunReader(run))
            return await self._thread.submit(lambda: to_json(reader.read().to_dict()))
        except (UserError, OSError):
            raise Problem(404, "no_run", "the run directory can not be read any more") from None

    def close(self) -> None:
        if self._thread is not None:
            self._thread.close()

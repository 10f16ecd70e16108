"""Training progress and history of a run, read again for every request, so that a running training is live."""

from __future__ import annotations

from regard.errors import UserError
from regard.report import RunReader
from regard.serve.batching.worker import Worker
from regard.serve.http.problem import Problem
from regard.serve.http.responses import to_json
from regard.serve.models import ServedModel


class TrainingStatus:
    """Reads journals in a worker thread, because long journals and slow disks take time."""

    def __init__(self) -> None:
        self._readers: dict[str, RunReader] = {}
        self._worker = Worker("training-status")

    async def read(self, model: ServedModel) -> bytes:
        """The run as JSON (regard-run/2)."""
        run = model.run
        if run is None:
            raise Problem(404, "no_run", "this model has no run directory, so its training is unknown")
        try:
            reader = self._readers.setdefault(model.name, RunReader(run))
            return await self._worker.submit(lambda: to_json(reader.read().to_dict()))
        except (UserError, OSError):
            raise Problem(404, "no_run", "the run directory cannot be read") from None

    def close(self) -> None:
        self._worker.close()

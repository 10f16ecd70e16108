"""Training: objectives, optimizers, schedules, the loop, and checkpoints from which a run resumes exactly."""

from regard.training.averaging import average
from regard.training.checkpoints import Checkpoints
from regard.training.config import TrainingConfig
from regard.training.device import check_precision, has_fast_bfloat16, keep_freed_memory, select_device
from regard.training.journal import Journal
from regard.training.loop import Training, fit, measure_seconds_per_step
from regard.training.onednn import fast_matmul
from regard.training.progress import Progress
from regard.training.ranks.start import follow_torchrun, open_workers, torchrun_identity
from regard.training.ranks.workers import Workers
from regard.training.stop import Stop
from regard.training.validation import Validation

__all__ = [
    "Checkpoints",
    "Journal",
    "Progress",
    "Stop",
    "Training",
    "TrainingConfig",
    "Validation",
    "Workers",
    "average",
    "check_precision",
    "fast_matmul",
    "fit",
    "follow_torchrun",
    "has_fast_bfloat16",
    "keep_freed_memory",
    "measure_seconds_per_step",
    "open_workers",
    "select_device",
    "torchrun_identity",
]

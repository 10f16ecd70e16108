"""Objectives, schedules, the loop, checkpoints: how a model learns, and how nothing of it is lost."""

from regard.training.allocator import keep_freed_memory
from regard.training.averaging import EMA, average
from regard.training.checkpoints import Checkpoints
from regard.training.config import TrainingConfig
from regard.training.device import check_precision, choose_device, has_fast_bfloat16
from regard.training.journal import Journal, events
from regard.training.loop import Progress, Report, Training, fit, set_up, time_steps
from regard.training.onednn import quick_products
from regard.training.schedule import noam
from regard.training.stop import Stop
from regard.training.validation import Validation, validate

__all__ = [
    "EMA",
    "Checkpoints",
    "Journal",
    "Progress",
    "Report",
    "Stop",
    "Training",
    "TrainingConfig",
    "Validation",
    "average",
    "check_precision",
    "choose_device",
    "events",
    "fit",
    "has_fast_bfloat16",
    "keep_freed_memory",
    "noam",
    "quick_products",
    "set_up",
    "time_steps",
    "validate",
]

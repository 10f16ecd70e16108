"""What every rank but the first does: build the model that rank 0 describes, and take the steps that it orders."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, suppress
from types import FrameType
from typing import Any

import torch

from regard.data import Place
from regard.errors import UserError
from regard.training.config import TrainingConfig
from regard.training.device import check_precision, keep_freed_memory
from regard.training.gradients.messages import decode_batch
from regard.training.gradients.setup import spec_of
from regard.training.learner import Learner, compute_gradient, update_weights
from regard.training.onednn import fast_matmul
from regard.training.ranks.group import OtherRank
from regard.training.ranks.links import Link, Message
from regard.training.stop import Stop


class ForwardedStop(Stop):
    """Passes the first signal on to rank 0, which saves and ends all ranks; the second ends this process at once."""

    link: Link | None = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        super()._handle(number, frame)
        if self.link is None:  # not connected yet
            os._exit(128 + number)
        with suppress(OSError):
            self.link.send("stop", signal=number)


def follow(rank: OtherRank, stop: ForwardedStop) -> int:
    """Serves rank 0 until it closes; returns the exit code for this process."""
    stop.link = rank.link
    keep_freed_memory()
    try:
        return _serve(rank)
    except Exception as error:
        is_user_error = isinstance(error, UserError)
        message = error.message if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        with suppress(OSError):  # rank 0 may have ended, too
            rank.link.send("failed", message=" ".join(message.split()), hint=getattr(error, "hint", None))
        if is_user_error and error is not rank.verdict.error:
            while rank.order().kind != "close":  # rank 0 says what happened
                pass
            return 2
        raise


def _serve(rank: OtherRank) -> int:
    job = 0
    with ExitStack() as resources:
        learner: Learner | None = None
        while (order := rank.order()).kind != "close":
            if order.kind == "job":
                setup, job = order.fields["setup"], order.fields["job"]
                if setup["fp32_precision"] != "none":  # rank 0 uses oneDNN
                    resources.enter_context(fast_matmul())
                learner = _learner(setup, rank)
                resources.callback(learner.close)
                rank.load_optimizer(learner, order.fields["state"])
            elif order.kind == "end":
                resources.close()
                learner = None
            elif learner is not None:
                _obey(rank, learner, job, order)
    return int(order.fields["exit_code"])


def _learner(setup: dict[str, Any], rank: OtherRank) -> Learner:
    config, spec = TrainingConfig.model_validate(setup["training"]), spec_of(setup)
    check_precision(config.precision, rank.device)
    torch.set_num_threads(1 if config.exact else rank.n_threads)
    return Learner(config=config, spec=spec, model=spec.build(), device=rank.device, workers=rank)


def _obey(rank: OtherRank, learner: Learner, job: int, order: Message) -> None:
    if order.kind == "step":
        _step(rank, learner, job, **order.fields)
    elif order.kind == "align":
        rank.agrees(learner)
    elif order.kind == "share":
        rank.load_optimizer(learner, order.fields["state"])


def _step(rank: OtherRank, learner: Learner, job: int, *, n_targets: list[int], n_batches: int, rates: list[float],
          place: dict[str, Any]) -> None:  # fmt: skip
    for group, rate in zip(learner.optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    messages = [rank.batch(job) for _ in range(rank.rank, n_batches, rank.world_size)]
    own = [decode_batch(json.loads(message.fields["request"]), message.data) for message in messages]
    result = compute_gradient(learner, own, tuple(n_targets), n_batches, Place(**place))
    if result.is_finite:  # otherwise rank 0 ends the training
        update_weights(learner)

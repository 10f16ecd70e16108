"""A training with several processes: data parallel, with the same weights in every rank.

Rank 0 decides and writes. It sends the other ranks their batches, which carry their place in the update, so that these
ranks need neither the text nor the run directory. Every rank takes the same step of the optimizer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from multiprocessing.connection import wait
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.data import Batch
from regard.errors import RunError
from regard.models import named_weights
from regard.training.checkpoints import load_optimizer_tensors, optimizer_tensors
from regard.training.gradients import BatchLoss, Sums
from regard.training.gradients.messages import encode_request
from regard.training.gradients.setup import setup_message
from regard.training.learner import Learner
from regard.training.ranks.links import Link, Message, Verdict, how_lost
from regard.training.ranks.workers import Updates, Workers
from regard.training.stop import Stop

PIECE = 2**20  # numbers that are summed over the ranks at a time: gloo overlaps a few pieces


class Ranks(Workers):
    """One of several ranks."""

    device: torch.device

    def __init__(self, rank: int, world_size: int, verdict: Verdict, n_threads: int, device: torch.device) -> None:
        self.rank, self.world_size = rank, world_size
        self.verdict, self.n_threads, self.device = verdict, n_threads, device

    def sum(self, sums: Sums, losses: Mapping[int, BatchLoss], n_batches: int) -> list[BatchLoss]:
        flat, used = sums.pack()
        assert flat is not None
        names = list(next(iter(losses.values())).nll)
        rows = torch.zeros(n_batches, 1 + len(names), dtype=torch.float64)  # x + 0 is x: the same in every order
        pieces = flat.split(PIECE)
        with self.verdict.explains():
            works = [dist.all_reduce(piece, async_op=True) for piece in pieces]
            for part, (loss, nll) in losses.items():
                rows[part] = torch.tensor([float(loss), *(float(nll[name]) for name in names)], dtype=torch.float64)
            numbers = torch.cat([rows.flatten(), torch.tensor(used, dtype=torch.float64)])
            dist.all_reduce(numbers)
            for work in works:
                work.wait()
        sums.unpack((numbers[rows.numel() :] > 0).tolist())
        summed = numbers[: rows.numel()].view(rows.shape).tolist()
        return [BatchLoss(loss, dict(zip(names, nll, strict=True))) for loss, *nll in summed]

    def share(self, learner: Learner, state: dict[str, Tensor], headers: list[list[Any]]) -> dict[str, Tensor]:
        """The weights of rank 0, in place, and its optimizer state with these names, shapes and dtypes."""
        with self.verdict.explains(), torch.no_grad():
            for tensor in named_weights(learner.model).values():
                received = tensor.contiguous()
                dist.broadcast(received, 0)
                tensor.copy_(received)
            for name, shape, dtype in headers:
                device = learner.device if shape else torch.device("cpu")  # step counts are scalars
                own = state[name].to(device) if self.rank == 0 else torch.empty(shape, dtype=getattr(torch, dtype))
                received = own.to(device).contiguous()
                dist.broadcast(received, 0)
                state[name] = received
        return state

    def agrees(self, learner: Learner) -> bool:
        """Whether all ranks have the same weights and optimizer state, by a sum over their bits."""
        state = optimizer_tensors(learner.optimizer, learner.model)
        tensors = [tensor for tensor in (*named_weights(learner.model).values(), *state.values()) if tensor.dim()]
        total = sum(int(tensor.reshape(-1).view(torch.uint8).sum(dtype=torch.int64)) for tensor in tensors)
        lowest, highest = torch.tensor([total]), torch.tensor([total])
        with self.verdict.explains():
            dist.all_reduce(lowest, dist.ReduceOp.MIN)
            dist.all_reduce(highest, dist.ReduceOp.MAX)
        return torch.equal(lowest, highest)


class MainRank(Ranks):
    """Rank 0."""

    def __init__(
        self, links: dict[int, Link], verdict: Verdict, n_threads: int, device: torch.device, n_local: int
    ) -> None:
        super().__init__(0, len(links) + 1, verdict, n_threads, device)
        self._links, self._n_local = links, n_local
        self._job = 0
        self._stop: Stop | None = None
        self._signal: int | None = None  # that has not stopped anything yet
        self._closed = False
        threading.Thread(target=self._watch, daemon=True, name="regard-ranks").start()

    @contextmanager
    def job(self, learner: Learner, stop: Stop | None = None) -> Iterator[None]:
        self._job += 1
        state = optimizer_tensors(learner.optimizer, learner.model)
        headers = [[name, list(tensor.shape), str(tensor.dtype).split(".")[1]] for name, tensor in state.items()]
        setup = setup_message(learner.config, learner.spec, learner.model, self.n_threads)
        setup["training"]["two_processes"] = "on" if learner.gradients.n_processes == 2 else "off"
        self._tell("job", job=self._job, setup=setup, state=headers)
        self.share(learner, state, headers)
        self._stop = stop
        if stop is not None and self._signal is not None:
            stop.request(self._signal)
            self._signal = None
        try:
            yield
        finally:
            self._stop = None
            with suppress(RunError):  # a reason of its own is being raised
                self._tell("end")

    def deal(self, updates: Updates) -> Updates:
        for update, cursor in updates:
            for batch in update:
                rank = batch.place.part % self.world_size
                if rank:
                    header, data = encode_request(batch, (), batch.place.key("dropout"))
                    with self.verdict.explains():
                        self._links[rank].send("batch", data, job=self._job, request=header.decode())
            yield update, cursor

    def begin_step(self, learner: Learner, update: list[Batch], n_targets: tuple[int, ...]) -> list[Batch]:
        rates = [group["lr"] for group in learner.optimizer.param_groups]
        self._tell("step", n_targets=n_targets, n_batches=len(update), rates=rates,
                   place=asdict(update[0].place))  # fmt: skip
        return [batch for batch in update if batch.place.part % self.world_size == 0]

    def align(self, learner: Learner) -> bool:
        self._tell("align")
        if self.agrees(learner):
            return True
        state = optimizer_tensors(learner.optimizer, learner.model)
        headers = [[name, list(tensor.shape), str(tensor.dtype).split(".")[1]] for name, tensor in state.items()]
        self._tell("share", state=headers)
        self.share(learner, state, headers)
        return False

    @contextmanager
    def all_threads(self) -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(self.n_threads * self._n_local)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def close(self, exit_code: int) -> None:
        """Ends all other ranks."""
        self._closed = True
        for link in self._links.values():
            with suppress(OSError):
                link.send("close", exit_code=exit_code)

    def _tell(self, kind: str, **fields: Any) -> None:
        with self.verdict.explains():
            for link in self._links.values():
                link.send(kind, **fields)

    def _watch(self) -> None:
        by_connection: dict[Any, Link] = {link.connection: link for link in self._links.values()}
        while not self._closed:
            for ready in wait(list(by_connection)):
                link = by_connection[ready]
                try:
                    self._on_message(link, link.receive())
                except (OSError, EOFError) as error:
                    if self._closed:
                        return
                    self._lose(how_lost(link.name, error))
                    return

    def _on_message(self, link: Link, message: Message) -> None:
        if message.kind == "stop" and self._stop is None:
            self._signal = message.fields["signal"]  # for the first job that can be stopped
        elif message.kind == "stop" and self._stop is not None:
            self._stop.request(message.fields["signal"])
        elif not self._closed:
            self._lose(f"{link.name}: {message.fields['message']}", message.fields["hint"])

    def _lose(self, message: str, *hint: str | None) -> None:
        self.verdict.set(message, *hint)
        for link in self._links.values():
            with suppress(OSError):
                link.send("lost", message=message)


class OtherRank(Ranks):
    """A rank that does what rank 0 says; see follow.py."""

    def __init__(
        self, rank: int, world_size: int, link: Link, verdict: Verdict, n_threads: int, device: torch.device
    ) -> None:
        super().__init__(rank, world_size, verdict, n_threads, device)
        self.link = link
        self._orders: queue.Queue[Message] = queue.Queue()
        self._batches: queue.Queue[Message] = queue.Queue()
        threading.Thread(target=self._watch, daemon=True, name="regard-ranks").start()

    def order(self) -> Message:
        """The next order of rank 0."""
        return self._orders.get()

    def batch(self, job: int) -> Message:
        """The next batch of this job; those that were sent ahead for an earlier one are dropped."""
        while (message := self._batches.get()).fields["job"] != job:
            pass
        return message

    def load_optimizer(self, learner: Learner, headers: list[list[Any]]) -> None:
        """Weights and optimizer state of rank 0."""
        load_optimizer_tensors(learner.optimizer, learner.model, self.share(learner, {}, headers))

    def _watch(self) -> None:
        try:
            while True:
                message = self.link.receive()
                if message.kind == "lost":
                    self.verdict.set(message.fields["message"])
                    break
                (self._batches if message.kind == "batch" else self._orders).put(message)
                if message.kind == "close":
                    return
        except (OSError, EOFError) as error:
            self.verdict.says_it |= self.rank == 1  # otherwise it is rank 0 that says it
            self.verdict.set(how_lost(self.link.name, error))
        self._orders.put(Message("close", {"exit_code": 2}))

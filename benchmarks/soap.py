"""`regard` with SOAP instead of Muon for the weight matrices, for ablations.py.

    python benchmarks/soap.py train --source … --set training.optimizer=muon --set training.rate=0.003

SOAP (Vyas et al., 2024) runs Adam in the eigenbasis of the gradients' covariance. It is not better than Muon here
(docs/experiments.md), so it is not in the package.

R rows, C columns
"""

from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam

from regard.cli import main
from regard.training import optimizers

BETA = 0.95  # of all moving averages
EPSILON = 1e-8
STEPS_PER_BASIS = 10  # the basis changes slowly, and updating it is expensive


class Soap(Adam):
    """Adam in the eigenbases of Σ GGᵀ and Σ GᵀG for matrices, plain Adam for embeddings and vectors."""

    def __init__(self, groups: list[dict[str, Any]], momentum: float, orthogonalize_in: torch.dtype, **adam: Any):
        super().__init__(groups, lr=0.0, **adam)
        self._memory: dict[Tensor, dict[str, Tensor]] = {}  # not in Adam's state, so these runs cannot be resumed

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"] if group["n_parts"] else ():
                if parameter.grad is not None:
                    parameter.sub_(self._update(parameter, parameter.grad), alpha=group["lr"])
                    parameter.grad = None  # so that Adam skips it
        return super().step(closure)

    def _update(self, parameter: Tensor, gradient: Tensor) -> Tensor:
        """(R, C): Adam's step in the previous basis, rotated back; then the basis is updated with this gradient."""
        state = self._memory.get(parameter)
        left, right = gradient @ gradient.mT, gradient.mT @ gradient  # (R, R), (C, C)
        if state is None:  # the first step only initialises the basis
            rows, columns = torch.linalg.eigh(left)[1], torch.linalg.eigh(right)[1]
            self._memory[parameter] = {
                "step": torch.zeros(()), "momentum": torch.zeros_like(gradient), "square": torch.zeros_like(gradient),
                "left": left, "right": right, "rows": rows, "columns": columns,
            }  # fmt: skip
            return torch.zeros_like(gradient)
        rows, columns = state["rows"], state["columns"]
        state["step"] += 1
        state["momentum"].lerp_(gradient, 1 - BETA)
        rotated = rows.mT @ gradient @ columns
        state["square"].lerp_(rotated.square(), 1 - BETA)
        bias_correction = 1 - BETA ** float(state["step"])
        step = (rows.mT @ state["momentum"] @ columns / bias_correction) / (
            (state["square"] / bias_correction).sqrt() + EPSILON
        )
        update = rows @ step @ columns.mT
        state["left"].lerp_(left, 1 - BETA)
        state["right"].lerp_(right, 1 - BETA)
        if float(state["step"]) % STEPS_PER_BASIS == 0:  # one power iteration from the previous basis
            state["rows"] = torch.linalg.qr(state["left"] @ rows)[0]
            state["columns"] = torch.linalg.qr(state["right"] @ columns)[0]
        return update


if __name__ == "__main__":
    optimizers.Muon = Soap
    main()

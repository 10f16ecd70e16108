"""`regard`, with SOAP for the matrices inside the layers in place of Muon: a trial, for levers.py.

    python benchmarks/soap.py train --source … --set training.optimizer=muon --set training.rate=0.003

SOAP (Vyas et al., 2024) is Adam in another basis: the one in which the matrix's gradients, seen over many steps, do
not depend on each other. It does not pay here (docs/experiments.md), and so it is not in the package.

R rows, C columns
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam

from regard.cli import main
from regard.training import optimizers

BETA = 0.95  # of all its averages
EPSILON = 1e-8
STEPS_A_BASIS = 10  # it turns slowly, and finding it anew takes long


class Soap(Adam):
    """Adam in the eigenbases of Σ GGᵀ and Σ GᵀG for matrices, plain Adam for embeddings and vectors."""

    def __init__(self, model: nn.Module, momentum: float, inside: torch.dtype, **adam: Any) -> None:
        joined, single = optimizers._matrices(model)
        turned = {id(one) for one in joined + single}
        groups = [[one for one in model.parameters() if (id(one) in turned) is which] for which in (True, False)]
        named = [{"params": group, "turned": which} for group, which in zip(groups, (True, False), strict=True)]
        super().__init__(named, lr=0.0, **adam)
        self._memory: dict[Tensor, dict[str, Tensor]] = {}  # beside Adam's state: a trial is not resumed

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"] if group["turned"] else ():
                if parameter.grad is not None:
                    parameter.sub_(self._wanted(parameter, parameter.grad), alpha=group["lr"])
                    parameter.grad = None  # Adam has nothing to do here
        return super().step(closure)

    def _wanted(self, parameter: Tensor, gradient: Tensor) -> Tensor:
        """(R, C): Adam's step in the basis of before, turned back; then the basis learns of this gradient."""
        known = self._memory.get(parameter)
        left, right = gradient @ gradient.mT, gradient.mT @ gradient  # (R, R), (C, C)
        if known is None:  # the first step only finds a basis
            rows, columns = torch.linalg.eigh(left)[1], torch.linalg.eigh(right)[1]
            self._memory[parameter] = {
                "step": torch.zeros(()), "momentum": torch.zeros_like(gradient), "square": torch.zeros_like(gradient),
                "left": left, "right": right, "rows": rows, "columns": columns,
            }  # fmt: skip
            return torch.zeros_like(gradient)
        rows, columns = known["rows"], known["columns"]
        known["step"] += 1
        known["momentum"].lerp_(gradient, 1 - BETA)
        turned = rows.mT @ gradient @ columns
        known["square"].lerp_(turned.square(), 1 - BETA)
        fair = 1 - BETA ** float(known["step"])  # an average that began with nothing
        step = (rows.mT @ known["momentum"] @ columns / fair) / ((known["square"] / fair).sqrt() + EPSILON)
        update = rows @ step @ columns.mT
        known["left"].lerp_(left, 1 - BETA)
        known["right"].lerp_(right, 1 - BETA)
        if float(known["step"]) % STEPS_A_BASIS == 0:  # one power iteration from the basis of before
            known["rows"] = torch.linalg.qr(known["left"] @ rows)[0]
            known["columns"] = torch.linalg.qr(known["right"] @ columns)[0]
        return update


if __name__ == "__main__":
    optimizers.Muon = Soap
    main()

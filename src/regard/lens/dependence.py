"""How much each output depends on each source token: the gradient of its log-probability.

S source, T target, D size of an embedding
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.errors import UserError
from regard.models import TranslationModel
from regard.nn import Trace


def source_gradients(
    model: TranslationModel, source: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]
) -> Tensor:
    """(T, S): ‖∂ log p(y_t) / ∂ e_i‖ for every output y_t and the embedding e_i of every source token."""
    trace = Trace(gradient=True)
    with torch.inference_mode(False), torch.enable_grad():
        log_probs = model(torch.tensor([source]), torch.tensor([inputs]), trace)[0].log_softmax(-1)  # (T, V)
        embeddings = [site.path for site in trace.sites("embedding") if site.axes == ("source", "unit")]
        if not embeddings:
            raise UserError("this model does not show its source embeddings, so there are no gradients of them")
        chosen = log_probs[range(len(outputs)), list(outputs)]  # (T,)
        rows = [torch.autograd.grad(value, trace[embeddings[0]], retain_graph=True)[0] for value in chosen]
    return torch.stack([row[0].norm(dim=-1) for row in rows])  # T × (1, S, D) → (T, S)

"""Who may see whom. One polarity everywhere: True may be seen.

B batch, S keys, T queries
"""

import torch
from torch import Tensor


def padding_visible(ids: Tensor, pad_id: int) -> Tensor | None:
    """(B, S) ids → (B, 1, 1, S): every query sees every real symbol; None when nothing is padded."""
    real = ids != pad_id
    return None if bool(real.all()) else real[:, None, None, :]


def causal_visible(n_queries: int, n_keys: int | None = None, device: torch.device | None = None) -> Tensor:
    """(T, S): position t sees itself and what came before (section 3.2.3, "masked").

    With more keys than queries the queries are the last positions, as when a cache holds the past.
    """
    n_keys = n_queries if n_keys is None else n_keys
    return torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(n_keys - n_queries)

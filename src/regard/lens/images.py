"""What a Vision Transformer makes of an image: where it looked, and what its positions and patches have become.

L layers, H heads, T tokens: the class token and N patches, P patch, C channels, D d_model
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating]


def attention_rollout(weights: Sequence[Values]) -> Values:
    """L × (H, T, T) → (N,): how much of each patch reaches the class token, as shares (Abnar and Zuidema, 2020).

    Half of a layer's output is its residual connection: the product over layers of ½ (mean over heads) + ½ I.
    """
    reached = np.eye(weights[0].shape[-1])
    for layer in weights:
        reached = (layer.mean(0) + np.eye(layer.shape[-1])) / 2 @ reached
    patches = reached[0, 1:]
    return np.asarray(patches / patches.sum())


def attention_distance(weights: Values, grid: tuple[int, int], patch: int) -> Values:
    """(H, T, T) → (H,): the mean distance in pixels between a patch and what it attends to (section 4.5, figure 7)."""
    rows, columns = np.divmod(np.arange(grid[0] * grid[1]), grid[1])
    distance = patch * np.hypot(rows[:, None] - rows, columns[:, None] - columns)  # (N, N)
    between = weights[:, 1:, 1:]
    return np.asarray(((between * distance).sum(-1) / between.sum(-1)).mean(-1))


def position_similarity(table: Values) -> Values:
    """(T, D) → (N, N): the cosine of the positions of two patches; that of the class token is left out."""
    units = table[1:] / np.linalg.norm(table[1:], axis=1, keepdims=True)
    return np.asarray(units @ units.T)


def patch_filters(weight: Values, patch: int, n_channels: int, n: int) -> Values:
    """(D, C · P · P) → (n, P, P, C): the first principal components of the projection of patches (figure 7)."""
    _, _, components = np.linalg.svd(weight - weight.mean(0), full_matrices=False)
    chosen = components[:n].reshape(-1, n_channels, patch, patch)
    return np.asarray(chosen.transpose(0, 2, 3, 1))

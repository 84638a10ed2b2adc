"""Make random directions, and vectors at chosen cosines of others."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]


def random_directions(count: int, dimensions: int, rng: np.random.Generator) -> Rows:
    """Return vectors of length 1, shape (count, dimensions)."""
    rows = rng.standard_normal((count, dimensions))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def at_cosines(rows: Rows, cosines: Rows, rng: np.random.Generator) -> Rows:
    """Return a vector of length 1 at a cosine of each row, of the same shape.

    rows: of length 1, shape (n, dimensions). cosines: shape (n,).
    """
    across = rng.standard_normal(rows.shape)
    across -= (across * rows).sum(axis=1, keepdims=True) * rows
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    return rows * cosines[:, None] + across * np.sqrt(1.0 - cosines**2)[:, None]

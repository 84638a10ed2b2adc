"""Random vectors, and pairs of them at a given cosine."""

import math

import numpy as np

from esdedup.sketch.vectors import F32


def directions(count: int, dimensions: int, seed: int) -> F32:
    """Return vectors of length 1 in random directions, shape (count, dimensions)."""
    vectors = np.random.default_rng(seed).standard_normal((count, dimensions))
    unit: F32 = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


def pairs_at(
    cosine: float, count: int, dimensions: int, seed: int, *, is_sparse: bool = False
) -> tuple[F32, F32]:
    """Return pairs of vectors at a cosine, shape (count, dimensions) each.

    is_sparse: the left vectors have one number that is not 0, and the right ones two.
    """
    # Other numbers than those of `directions`.
    rng = np.random.default_rng([seed, 1])
    if is_sparse:
        axes = np.eye(dimensions)
        first = rng.integers(0, dimensions, count)
        second = (first + rng.integers(1, dimensions, count)) % dimensions
        left, across = axes[first], axes[second]
    else:
        left = directions(count, dimensions, seed).astype(np.float64)
        across = rng.standard_normal((count, dimensions))
        across -= (left * across).sum(axis=1, keepdims=True) * left
        across /= np.linalg.norm(across, axis=1, keepdims=True)
    right = cosine * left + math.sqrt(1 - cosine * cosine) * across
    return left.astype(np.float32), right.astype(np.float32)


def clustered(count: int, dimensions: int, seed: int) -> F32:
    """Return vectors in clusters of some random directions, at cosines of 0.9 to 1 to these."""
    rng = np.random.default_rng([seed, 2])
    centres = directions(max(1, count // 8), dimensions, seed).astype(np.float64)
    centre = centres[rng.integers(0, len(centres), count)]
    across = rng.standard_normal((count, dimensions))
    across -= (centre * across).sum(axis=1, keepdims=True) * centre
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    cosine = rng.uniform(0.9, 1.0, count)[:, None]
    vectors = cosine * centre + np.sqrt(1 - cosine * cosine) * across
    lengths = rng.uniform(0.1, 10.0, count)[:, None]
    scaled: F32 = (vectors * lengths).astype(np.float32)
    return scaled

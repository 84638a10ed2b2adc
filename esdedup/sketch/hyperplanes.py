"""Random hyperplanes: the signs of projections, and the chance that two vectors share them.

Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002, section 3: the
signs of a random projection of two vectors differ with the chance angle / pi. A band of r signs is
shared with the chance p**r, p = 1 - angle / pi, for every pair at this angle, whatever the vectors
are: the projections are normal, so that no direction of space is special.

A query may look up more values of a band: its own one, and those with one sign flipped, of the
projections nearest to 0. Lv, Josephson, Wang, Charikar, Li, "Multi-probe LSH: efficient indexing
for high-dimensional similarity search", VLDB 2007, section 4. Scaled to length 1, the projections
of a pair are y and y * cos + z * sin, with y and z normal and independent. So a sign differs with
the chance Phi(-|y| * cos / sin), which falls with |y|. `meeting` integrates over |y|.

Every number here is whole, so that tokens are the same on every machine: a hyperplane has numbers
below 2**22, a vector is scaled to numbers of at most 2**19, and sums of 4,096 products are below
2**53, which float64 holds exactly in any order of adding.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from esdedup.sketch.banding import most_required, shared_at_least
from esdedup.sketch.vectors import F32
from esdedup.text.arrays import F64, I64, U64, Mask, Unsigned
from esdedup.text.hashing import PRIME64_1, avalanche, keys

MOST_DIMENSIONS = 4096
_SCALE = float(1 << 19)
_STEP = 1 << 15
_PLANES_AT_ONCE = 256
_FARTHEST, _POINTS = 8.0, 1_601
"""The integral is over |y| from 0 to this, at so many points: exact to 6 decimals."""
_BANDS_A_STEP = 16
"""Bands whose signs are counted before pairs that differ in too many are left out."""


@functools.lru_cache(4)
def hyperplanes(dimensions: int, count: int, seed: int) -> F64:
    """Return the normals of hyperplanes as whole numbers, shape (dimensions, count).

    Number i of plane j is of two hashes of 2**12 * j + i: the first one's bits that are set, of 64,
    are binomial, so that twice their number less 64 is nearly normal, of deviation 8. The upper 16
    bits of the second one spread it evenly over the step of 2: sums of few numbers have no ties.
    The numbers do not depend on `dimensions` and `count`.
    """
    key_of_bits, key_of_spread = keys(2, "hyperplane", seed)
    planes = np.empty((count, dimensions))
    for first in range(0, count, _PLANES_AT_ONCE):
        numbers = np.arange(first, min(count, first + _PLANES_AT_ONCE), dtype=np.uint64)[:, None]
        counters = numbers * np.uint64(MOST_DIMENSIONS) + np.arange(dimensions, dtype=np.uint64)
        counters *= PRIME64_1
        bits = np.bitwise_count(avalanche(counters + key_of_bits)).astype(np.int64)
        spread = (avalanche(counters + key_of_spread) >> np.uint64(48)).astype(np.int64)
        planes[first : first + _PLANES_AT_ONCE] = (2 * bits - 64) * _STEP + spread - _STEP
    return np.ascontiguousarray(planes.T)


def projections(vectors: F32, count: int, seed: int) -> F64:
    """Return the scalar products of vectors and hyperplanes, exact whole numbers: (n, count).

    vectors: shape (n, dimensions), which are scaled so that the greatest number is 2**19.
    """
    wide = vectors.astype(np.float64)
    greatest = np.abs(wide).max(axis=1, initial=0.0, keepdims=True)
    scaled = np.rint(wide / np.where(greatest > 0.0, greatest, 1.0) * _SCALE)
    products: F64 = scaled @ hyperplanes(vectors.shape[1], count, seed)
    return products


def sign_bands(products: F64, bands: int, rows: int) -> U64:
    """Return the signs of each band as a number of `rows` bits, shape (n, bands); 0 is positive.

    products: as `projections` returns them, shape (n, bands * rows).
    """
    is_positive = (products >= 0.0).reshape(len(products), bands, rows)
    values = np.zeros((len(products), bands), np.uint64)
    for row in range(rows):
        values = values << np.uint64(1) | is_positive[:, :, row]
    return values


def probe_bands(products: F64, bands: int, rows: int, flips: int) -> U64:
    """Return the values that queries look up in each band, shape (n, bands, 1 + flips).

    A query's own value is first, then those with one sign flipped, the nearest to 0 first.
    """
    own_values = sign_bands(products, bands, rows)[:, :, None]
    distances = np.abs(products).reshape(len(products), bands, rows)
    nearest: I64 = np.argsort(distances, axis=2, kind="stable")[:, :, :flips]
    flipped = own_values ^ (np.uint64(1) << (rows - 1 - nearest).astype(np.uint64))
    return np.concatenate([own_values, flipped], axis=2)


@functools.lru_cache(4096)
def meeting(cosine: float, rows: int, flips: int = 0) -> float:
    """Return the chance that a query with a number of flips a band meets a band of a document."""
    chance_of_sign = 1.0 - math.acos(min(1.0, max(-1.0, cosine))) / math.pi
    chance = chance_of_sign**rows
    if not flips or chance_of_sign == 1.0:
        return chance
    distances, density, sign_chances = _of_distances(cosine)
    flipped = density * (1.0 - sign_chances)
    nearer = _integral(density * sign_chances, distances)
    farther = nearer[-1] - nearer
    for position in range(min(flips, rows)):
        # The sign whose projection is nearest to 0 but for `position` others is the only one that
        # differs: of the others, `position` are nearer, and the remaining ones farther.
        orders = rows * math.comb(rows - 1, position)
        equal_signs = nearer**position * farther ** (rows - 1 - position)
        chance += orders * float(_integral(flipped * equal_signs, distances)[-1])
    return min(1.0, chance)


@functools.lru_cache(64)
def _of_distances(cosine: float) -> tuple[F64, F64, F64]:
    """Return values of |y|, their density, and the chance that the sign is the same at each."""
    distances = np.linspace(0.0, _FARTHEST, _POINTS)
    density = math.sqrt(2.0 / math.pi) * np.exp(-distances * distances / 2.0)
    cotangent = cosine / math.sqrt(1.0 - cosine * cosine)
    scale = cotangent / math.sqrt(2.0)
    sign_chances = [0.5 * (1.0 + math.erf(scale * distance)) for distance in distances.tolist()]
    return distances, density, np.array(sign_chances)


def _integral(values: F64, points: F64) -> F64:
    """Return the integral from the first point to each one, by trapezia."""
    areas = (values[1:] + values[:-1]) / 2.0 * np.diff(points)
    return np.concatenate([[0.0], np.cumsum(areas)])


@functools.lru_cache(4096)
def expected_recall(cosine: float, bands: int, rows: int, least: int = 1, flips: int = 0) -> float:
    """Return the chance that a query meets at least `least` bands of a document at a cosine."""
    return shared_at_least(least, bands, meeting(cosine, rows, flips))


@functools.lru_cache(4096)
def least_bands(cosine: float, recall: float, bands: int, rows: int, flips: int = 0) -> int:
    """Return the most shared bands to require that still reach `recall`; at least 1."""
    expected = functools.partial(expected_recall, cosine, bands, rows, flips=flips)
    return most_required(recall, bands, expected)


@functools.lru_cache(4096)
def flips_for(cosine: float, recall: float, bands: int, rows: int) -> int:
    """Return the fewest flips that reach `recall`; all rows if none does."""
    reaching = (
        flips
        for flips in range(rows + 1)
        if expected_recall(cosine, bands, rows, 1, flips) >= recall
    )
    return next(reaching, rows)


def bands_needed(cosine: float, recall: float, rows: int) -> int:
    """Return the fewest bands of `rows` signs that reach the recall if one has to be shared."""
    met = meeting(cosine, rows)
    return 1 if met == 1.0 else max(1, math.ceil(math.log1p(-recall) / math.log1p(-met)))


@dataclass(frozen=True)
class SignFilter:
    """Leaves out pairs that differ in more signs than pairs at a cosine do.

    A pair that shares a band may be at any cosine. All signs of the bands together show the angle:
    of n signs, a pair at an angle of a differs in a binomial number, of mean n * a / pi.

    bounds: after each step of the bands, the most signs that a pair may differ in.
    lost: greatest share of the pairs at the cosine that is left out.
    """

    bounds: tuple[int, ...]
    lost: float

    @staticmethod
    @functools.lru_cache(256)
    def at(cosine: float, bands: int, rows: int, lost: float) -> "SignFilter":
        """Return the filter that leaves out at most a share of the pairs at a cosine."""
        steps = [min(bands, first + _BANDS_A_STEP) for first in range(0, bands, _BANDS_A_STEP)]
        differs = math.acos(min(1.0, cosine)) / math.pi
        bounds = [_most_of(step * rows, differs, lost / len(steps)) for step in steps]
        return SignFilter(tuple(bounds), lost)

    def keeps(self, bands: Unsigned, left: I64, right: I64) -> Mask:
        """Return which pairs of rows stay, shape (pairs,). bands: shape (bands, n)."""
        is_kept = np.ones(left.size, np.bool_)
        positions = np.arange(left.size)
        differing = np.zeros(left.size, np.int32)
        for step, bound in enumerate(self.bounds):
            for band in bands[step * _BANDS_A_STEP : (step + 1) * _BANDS_A_STEP]:
                differing += np.bitwise_count(band[left] ^ band[right])
            is_near = differing <= bound
            is_kept[positions[~is_near]] = False
            positions, differing = positions[is_near], differing[is_near]
            left, right = left[is_near], right[is_near]
        return is_kept


def _most_of(trials: int, chance: float, beyond: float) -> int:
    """Return the least number that a binomial one exceeds with at most the chance `beyond`."""
    if chance <= 0.0:
        return 0
    log_chance, log_other = math.log(chance), math.log1p(-chance)
    total, number = 0.0, trials
    while number > 0:
        ways = math.lgamma(trials + 1) - math.lgamma(number + 1) - math.lgamma(trials - number + 1)
        total += math.exp(ways + number * log_chance + (trials - number) * log_other)
        if total > beyond:
            return number
        number -= 1
    return 0

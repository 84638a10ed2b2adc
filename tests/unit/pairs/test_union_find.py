"""Groups of pairs of rows, against plain-Python references."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from esdedup.compare.union_find import follow, join, singletons

EDGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60)


@given(EDGES)
def test_connected_components(edges: list[tuple[int, int]]) -> None:
    found = singletons(31)
    sides = np.array(edges, np.int64).reshape(-1, 2)
    join(found, sides[:, 0], sides[:, 1])
    expected = list(range(31))
    for _ in range(31):
        for a, b in edges:
            expected[a] = expected[b] = min(expected[a], expected[b])
    assert found.tolist() == expected


@given(st.dictionaries(st.tuples(st.integers(0, 20), st.integers(0, 20)), st.integers(0, 3)))
def test_each_joins_its_nearest_leader(edges: dict[tuple[int, int], int]) -> None:
    pairs = sorted({(max(p), min(p)): near for p, near in edges.items() if p[0] != p[1]}.items())
    left = np.array([b for (_, b), _ in pairs], np.int64)
    right = np.array([a for (a, _), _ in pairs], np.int64)
    near = np.array([value for _, value in pairs], np.float64)
    found = singletons(21)
    # However the pairs are cut, between two right rows.
    half = int(np.searchsorted(right, 10))
    follow(found, left[:half], right[:half], near[:half])
    follow(found, left[half:], right[half:], near[half:])
    leaders: dict[int, int] = {}
    for row in range(21):
        mine = [(-value, b) for (a, b), value in pairs if a == row and leaders[b] == b]
        leaders[row] = min(mine)[1] if mine else row
    assert found.tolist() == list(leaders.values())

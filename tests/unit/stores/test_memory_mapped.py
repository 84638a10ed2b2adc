"""Arrays in temporary files keep their values when their pages are dropped from memory."""

from pathlib import Path

import numpy as np

from esdedup.stores.memory_mapped import mapped, mapped_zeros, release


def test_released_arrays_keep_what_was_written() -> None:
    rows = mapped(Path(), [np.arange(10_000), np.arange(10_000)])
    zeros = mapped_zeros(Path(), (3, 10_000), np.int64)
    zeros[1, 5:] = 7
    in_memory = np.arange(3)
    release(rows, zeros[1], rows[:4], in_memory)
    assert rows.sum() == 2 * np.arange(10_000).sum()
    assert (zeros.sum(), zeros[1, 5]) == (7 * 9_995, 7)
    zeros[2] = 1
    release(zeros)
    assert zeros[2].sum() == 10_000
    assert in_memory.tolist() == [0, 1, 2]

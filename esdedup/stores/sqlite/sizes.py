"""How much of a local file is in memory at a time."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StoreSizes:
    """How much of a local file is read at a time, and from which numbers on a search counts.

    pages: number of pages of postings that are read, merged or written together.
    counted_entries: number of postings that are counted together: 50 MB of arrays.
    counters_per_entry: a search counts in an array of all documents if there are at most this many
        for each posting. A counter is read in a fraction of the time in which a posting is sorted.
    unverified: number of candidates that are fetched without being compared first, because to read
        them takes less time.
    read_in_scope: documents that are read at most for each candidate of a query with a scope: to
        read 1,000 takes about 10 ms.
    """

    pages: int = 4_096
    counted_entries: int = 1 << 20
    counters_per_entry: int = 32
    unverified: int = 50
    read_in_scope: int = 20

"""Where an index is: what opens its store, and where its jobs keep their files."""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from esdedup.exceptions import IndexNotFound, UsageError
from esdedup.stores import BulkPolicy, Cluster, ClusterStore, LocalStore, Store, connected
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.indices import resolve
from esdedup.stores.judgements import PREFIX
from esdedup.stores.private_files import file_name


@dataclass(frozen=True)
class IndexLocation:
    """The place of an index.

    target: the file, or the connection to a cluster.
    index: the name of the index there.
    policy: sizes of bulk requests; None for the defaults.
    """

    target: Path | Connection
    index: str
    policy: BulkPolicy | None = None

    def work_folder(self, job: str) -> Path:
        """Return the default folder of a job: beside the file, or here for a cluster."""
        name, target = file_name(self.index), self.target
        if not isinstance(target, Connection):
            return target.with_name(f"{target.name}.{name}.{job}")
        hosts = [re.sub(r"^https?://", "", url) for url in sorted(target.addresses)]
        address = re.sub("[:/]", "-", ",".join(hosts or [target.cloud_id or ""]))
        return Path(f"{name}@{file_name(address)}.{job}")

    def store(self) -> Store:
        """Open the store of the index. Raises StoreError if the cluster can't be reached."""
        if isinstance(self.target, Connection):
            return ClusterStore(Cluster(self.target, self.policy), self.index)
        return LocalStore(self.target, self.index)

    def check_apart(self, index: str) -> None:
        """Raise UsageError if another name is the same index, shares one, or holds judgements."""
        if index == self.index:
            raise UsageError(
                f"index {index!r} holds the documents already: name another to move to"
            )
        if index.startswith(PREFIX):
            raise UsageError(f"index {index!r} holds judgements: name another to move to")
        own_indices, destinations = self.indices_of(self.index, index)
        if shared := sorted(own_indices & destinations):
            raise UsageError(
                f"{index!r} names an index that {self.index!r} names too: {', '.join(shared)}"
            )

    def indices_of(self, *names: str) -> list[frozenset[str]]:
        """Return the indices that each name stands for in this place; none for an unknown name."""
        if not isinstance(self.target, Connection):
            return [frozenset([name]) for name in names]
        with connected(self.target, self.policy) as cluster:
            return [_indices_behind(cluster, name) for name in names]


def _indices_behind(cluster: Cluster, name: str) -> frozenset[str]:
    """Return the indices behind a name; none if it does not exist."""
    with suppress(IndexNotFound):
        return frozenset(resolve(cluster, name).indices)
    return frozenset()

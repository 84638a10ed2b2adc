"""Check an index before documents are written to it, and before they are compared."""

from esdedup.admin.obstacles import PIPELINE, obstacles_of
from esdedup.exceptions import StoreError
from esdedup.index import Index
from esdedup.ingest.ingest import require_routing_field
from esdedup.search.warnings import not_compared
from esdedup.sketch.limits import Limits
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import stopped_tokens


def check_writable(
    index: Index, stored: IndexMeta | None, routing_field: str | None = None
) -> list[str]:
    """Return warnings of ingest pipelines that documents pass when they are written.

    stored: the description of the tokens that the store has, None for a new index. routing_field:
    that has the routings of documents. Raises UsageError if the index requires one, StoreError if
    something stops writing documents, or creating the index.
    """
    require_routing_field(index.store, routing_field)
    obstacles = obstacles_of(index.store, index.planned_meta(stored))
    stops = ("attach", "index") if stored is None else ("index",)
    if stopping := [obstacle for obstacle in obstacles if obstacle.stops in stops]:
        raise StoreError("; ".join(map(str, stopping)))
    return [str(obstacle) for obstacle in obstacles if obstacle.name == PIPELINE.name]


def check_ready(index: Index, limits: Limits) -> list[str]:
    """Return warnings of documents and tokens of an index that a comparison leaves out.

    Raises StoreError if no document has tokens, with what is in the way of them.
    """
    statistics = index.statistics()
    if statistics.documents and not statistics.sketched:
        obstacles = obstacles_of(index.store, index.meta)
        stopping = [obstacle for obstacle in obstacles if obstacle.stops != "nothing"]
        advice = f"run `esdedup backfill -i {index.store.index}`"
        raise StoreError(
            f"none of the {statistics.documents:,} documents of {index.store.where} has tokens of"
            f" its scheme: {'; '.join(map(str, stopping)) or advice}"
        )
    sketch = index.scheme.chosen(limits)
    return [*not_compared(statistics, len(stopped_tokens(index.meta.stop, sketch.key)))]

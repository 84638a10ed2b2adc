"""Near-duplicate search for Elasticsearch, OpenSearch, or a local file."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from esdedup import admin as admin
    from esdedup import arrow as arrow
    from esdedup import exceptions as exceptions
    from esdedup import spark as spark
    from esdedup.analysis.report import Report
    from esdedup.analysis.weighing import weights
    from esdedup.cleaning.report import CleanReport
    from esdedup.compare.pairs import SimilarPairs
    from esdedup.exceptions import (
        EsdedupError,
        IndexNotFound,
        RecordError,
        SchemeMismatch,
        StoreError,
        UsageError,
    )
    from esdedup.files import clean, decontaminate
    from esdedup.frames import Deduplicated, dedup, group, pairs
    from esdedup.groups.groups import Group, Grouping, Groups
    from esdedup.groups.marks import GroupReport
    from esdedup.index import Index, open, similarity
    from esdedup.ingest.enrich import enrich
    from esdedup.ingest.ingest import IngestReport
    from esdedup.ingest.policies import DuplicatePolicy
    from esdedup.models import Document, Match, Pair, Query, Result
    from esdedup.removal.remove import Dedup
    from esdedup.sketch.kinds.bits import Bits
    from esdedup.sketch.kinds.minhash import MinHash
    from esdedup.sketch.kinds.passages import Passages
    from esdedup.sketch.kinds.server import Server
    from esdedup.sketch.kinds.signature import Signature
    from esdedup.sketch.kinds.simhash import SimHash
    from esdedup.sketch.limits import Limits
    from esdedup.sketch.scheme import Scheme
    from esdedup.stores.connection import Connection
    from esdedup.text.normalise import Normalisation
    from esdedup.text.shingles import Shingling
    from esdedup.text.weights import Weights

    __version__: str

__all__ = [
    "Bits", "CleanReport", "Connection", "Dedup", "Deduplicated", "Document", "DuplicatePolicy",
    "EsdedupError", "Group", "GroupReport", "Grouping", "Groups", "Index", "IndexNotFound",
    "IngestReport", "Limits", "Match", "MinHash", "Normalisation", "Pair", "Passages", "Query",
    "RecordError", "Report", "Result", "Scheme", "SchemeMismatch", "Server", "Shingling",
    "Signature", "SimHash", "SimilarPairs", "StoreError", "UsageError", "Weights", "clean",
    "decontaminate", "dedup", "enrich", "group", "open", "pairs", "similarity", "weights",
]  # fmt: skip

_MODULES = {
    "analysis.report": "Report",
    "analysis.weighing": "weights",
    "exceptions": "EsdedupError IndexNotFound RecordError SchemeMismatch StoreError UsageError",
    "groups.groups": "Group Grouping Groups",
    "groups.marks": "GroupReport",
    "cleaning.report": "CleanReport",
    "files": "clean decontaminate",
    "frames": "Deduplicated dedup group pairs",
    "index": "Index open similarity",
    "ingest.enrich": "enrich",
    "ingest.ingest": "IngestReport",
    "ingest.policies": "DuplicatePolicy",
    "models": "Document Match Pair Query Result",
    "compare.pairs": "SimilarPairs",
    "removal.remove": "Dedup",
    "sketch.kinds.bits": "Bits",
    "sketch.kinds.minhash": "MinHash",
    "sketch.kinds.passages": "Passages",
    "sketch.kinds.server": "Server",
    "sketch.kinds.simhash": "SimHash",
    "sketch.kinds.signature": "Signature",
    "sketch.limits": "Limits",
    "sketch.scheme": "Scheme",
    "stores.connection": "Connection",
    "text.normalise": "Normalisation",
    "text.shingles": "Shingling",
    "text.weights": "Weights",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


if not TYPE_CHECKING:  # Type checkers would take any name.

    def __getattr__(name: str) -> Any:
        """Import what a program uses when it first uses it: all of it takes half a second."""
        if name in ("admin", "arrow", "exceptions", "spark"):
            return import_module(f"esdedup.{name}")
        if name == "__version__":
            from importlib.metadata import version

            return version("esdedup")
        if (module := _MODULE_OF.get(name)) is None:
            raise AttributeError(f"module 'esdedup' has no attribute {name!r}")
        found = getattr(import_module(f"esdedup.{module}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return [*__all__, "__version__", "admin", "arrow", "exceptions", "spark"]

"""Near-duplicate search for Elasticsearch, OpenSearch, or a local file."""

from importlib import import_module
from typing import TYPE_CHECKING

from esdedup.lazy import import_name

if TYPE_CHECKING:
    from esdedup import admin as admin
    from esdedup import arrow as arrow
    from esdedup import exceptions as exceptions
    from esdedup import files as files
    from esdedup import results as results
    from esdedup import spark as spark
    from esdedup.analysis.weighing import weights
    from esdedup.clean_files import clean, decontaminate
    from esdedup.cleaning.report import CleanReport
    from esdedup.exceptions import EsdedupError, UsageError
    from esdedup.frames import dedup, group, pairs
    from esdedup.groups.groups import Grouping
    from esdedup.index import Index, open, similarity
    from esdedup.ingest.enrich import enrich
    from esdedup.ingest.policies import DuplicatePolicy
    from esdedup.models import Document, Query
    from esdedup.sketch.kinds.bits import Bits
    from esdedup.sketch.kinds.minhash import MinHash
    from esdedup.sketch.kinds.passages import Passages
    from esdedup.sketch.kinds.server import Server
    from esdedup.sketch.kinds.signature import Signature
    from esdedup.sketch.kinds.simhash import SimHash
    from esdedup.sketch.kinds.vectors import Vectors
    from esdedup.sketch.limits import Limits
    from esdedup.sketch.scheme import Scheme
    from esdedup.stores.connection import Connection
    from esdedup.text.normalise import Normalisation
    from esdedup.text.shingles import Shingling
    from esdedup.text.weights import Weights

    __version__: str

__all__ = [
    "Bits", "CleanReport", "Connection", "Document", "DuplicatePolicy", "EsdedupError",
    "Grouping", "Index", "Limits", "MinHash", "Normalisation", "Passages", "Query", "Scheme",
    "Server", "Shingling", "Signature", "SimHash", "UsageError", "Vectors", "Weights", "clean",
    "decontaminate", "dedup", "enrich", "group", "open", "pairs", "similarity", "weights",
]  # fmt: skip

_MODULES = {
    "analysis.weighing": "weights",
    "exceptions": "EsdedupError UsageError",
    "groups.groups": "Grouping",
    "clean_files": "clean decontaminate",
    "cleaning.report": "CleanReport",
    "frames": "dedup group pairs",
    "index": "Index open similarity",
    "ingest.enrich": "enrich",
    "ingest.policies": "DuplicatePolicy",
    "models": "Document Query",
    "sketch.kinds.bits": "Bits",
    "sketch.kinds.minhash": "MinHash",
    "sketch.kinds.passages": "Passages",
    "sketch.kinds.server": "Server",
    "sketch.kinds.simhash": "SimHash",
    "sketch.kinds.signature": "Signature",
    "sketch.kinds.vectors": "Vectors",
    "sketch.limits": "Limits",
    "sketch.scheme": "Scheme",
    "stores.connection": "Connection",
    "text.normalise": "Normalisation",
    "text.shingles": "Shingling",
    "text.weights": "Weights",
}
_SUBMODULES = ("admin", "arrow", "exceptions", "files", "results", "spark")


if not TYPE_CHECKING:  # Type checkers would take any name.

    def __getattr__(name: str) -> object:
        """Import what a program uses when it first uses it: all of it takes half a second."""
        if name in _SUBMODULES:
            return import_module(f"esdedup.{name}")
        if name == "__version__":
            from importlib.metadata import version

            return version("esdedup")
        return import_name(name, __name__, _MODULES)


def __dir__() -> list[str]:
    return [*__all__, "__version__", *_SUBMODULES]

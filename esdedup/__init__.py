"""Near-duplicate search for Elasticsearch, OpenSearch, or a local file."""

from esdedup.connection import Connection
from esdedup.datatypes import Document, Match, Pair, Query, Result, Statistics
from esdedup.duplicates import DuplicatePolicy
from esdedup.enrich import enrich
from esdedup.exceptions import (
    AuthenticationFailed,
    DuplicateFound,
    EsdedupError,
    IndexNotFound,
    InputError,
    MissingExtra,
    PermissionDenied,
    RecordError,
    SchemeMismatch,
    StoreError,
    StoreUnavailable,
    UsageError,
)
from esdedup.explain import Explanation
from esdedup.index import Index
from esdedup.ingest import IngestReport
from esdedup.limits import Limits
from esdedup.minhash import MinHash
from esdedup.open_index import open
from esdedup.scheme import Scheme
from esdedup.segments import Layout
from esdedup.shingles import Shingling
from esdedup.simhash import SimHash
from esdedup.stores import BulkPolicy
from esdedup.text import Normalisation
from esdedup.weights import FeatureWeights

__all__ = [
    "AuthenticationFailed",
    "BulkPolicy",
    "Connection",
    "Document",
    "DuplicateFound",
    "DuplicatePolicy",
    "EsdedupError",
    "Explanation",
    "FeatureWeights",
    "Index",
    "IndexNotFound",
    "IngestReport",
    "InputError",
    "Layout",
    "Limits",
    "Match",
    "MinHash",
    "MissingExtra",
    "Normalisation",
    "Pair",
    "PermissionDenied",
    "Query",
    "RecordError",
    "Result",
    "Scheme",
    "SchemeMismatch",
    "Shingling",
    "SimHash",
    "Statistics",
    "StoreError",
    "StoreUnavailable",
    "UsageError",
    "enrich",
    "open",
]

"""Near-duplicate search for Elasticsearch, OpenSearch, or a local file."""

from esdedup.analysis.explain import Explanation
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
from esdedup.index import Index, open
from esdedup.ingest.enrich import enrich
from esdedup.ingest.ingest import IngestReport
from esdedup.ingest.near_duplicates import DuplicatePolicy
from esdedup.models import Document, Match, Pair, Query, Result, Statistics
from esdedup.search.limits import Limits
from esdedup.sketch.minhash import MinHash
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.segments import Layout
from esdedup.sketch.simhash import SimHash
from esdedup.sketch.weights import FeatureWeights
from esdedup.stores import BulkPolicy
from esdedup.stores.connection import Connection
from esdedup.text.normalise import Normalisation
from esdedup.text.shingles import Shingling

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

"""Near-duplicate search for Elasticsearch, OpenSearch, or a local file."""

from esdedup.analysis.distribution import Bin, SizeRange
from esdedup.analysis.explain import (
    Block,
    ExplainedBands,
    ExplainedDocument,
    ExplainedSegments,
    Explanation,
    Meeting,
)
from esdedup.analysis.report import AllPairs, Example, ExampleText, LargeGroup, Report
from esdedup.analysis.templates import Template
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
from esdedup.groups.constraints import JudgedCounts
from esdedup.groups.groups import Group, Grouping, Groups, Member
from esdedup.index import Dedup, GroupReport, Index, Place, open
from esdedup.ingest.arrivals import Verdict
from esdedup.ingest.enrich import OpenIndex, enrich
from esdedup.ingest.ingest import IngestReport
from esdedup.ingest.policies import DuplicatePolicy
from esdedup.models import Document, Failure, Match, Pair, Query, Result, Share, Statistics
from esdedup.pairing.comparison import Basis
from esdedup.pairing.edges import EdgeCounts, Edges
from esdedup.pairing.keep_rule import KeepRule
from esdedup.pairing.pairs import SimilarPairs
from esdedup.removal.log import LogReader
from esdedup.removal.remove import DedupReport
from esdedup.removal.undo import UndoReport
from esdedup.search.buckets import Capped
from esdedup.search.hot_buckets import HotBucket, HotBuckets
from esdedup.search.limits import Limits
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.sketch.kinds.segments import Layout
from esdedup.sketch.kinds.simhash import SimHash
from esdedup.sketch.kinds.weights import FeatureWeights
from esdedup.sketch.scheme import Scheme
from esdedup.stores import BulkPolicy, Store
from esdedup.stores.changes import ChangeReport
from esdedup.stores.connection import Connection
from esdedup.stores.judgements import Judgement, Judgements
from esdedup.stores.mapping import IndexMeta
from esdedup.text.highlight import Excerpt, MarkedText, Piece, Word, Words
from esdedup.text.normalise import Normalisation
from esdedup.text.shingles import Shingling

__all__ = [
    "AllPairs", "AuthenticationFailed", "Basis", "Bin", "Block", "BulkPolicy", "Capped",
    "ChangeReport", "Connection", "Dedup", "DedupReport", "Document", "DuplicateFound",
    "DuplicatePolicy", "EdgeCounts", "Edges", "EsdedupError", "Example", "ExampleText",
    "Excerpt", "ExplainedBands", "ExplainedDocument", "ExplainedSegments", "Explanation",
    "Failure", "FeatureWeights", "Group", "GroupReport", "Grouping", "Groups",
    "HotBucket", "HotBuckets", "Index", "IndexMeta", "IndexNotFound", "IngestReport",
    "InputError", "JudgedCounts", "Judgement", "Judgements", "KeepRule", "LargeGroup", "Layout",
    "Limits", "LogReader", "MarkedText", "Match", "Meeting", "Member", "MinHash",
    "MissingExtra", "Normalisation", "OpenIndex", "Pair", "PermissionDenied", "Piece", "Place",
    "Query", "RecordError", "Report", "Result", "Scheme", "SchemeMismatch", "Share",
    "Shingling", "SimHash", "SimilarPairs", "SizeRange", "Statistics", "Store", "StoreError",
    "StoreUnavailable", "Template", "UndoReport", "UsageError", "Verdict", "Word", "Words",
    "enrich", "open",
]  # fmt: skip

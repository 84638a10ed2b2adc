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
from esdedup.dedup.constraints import JudgedCounts
from esdedup.dedup.edges import EdgeCounts, Edges
from esdedup.dedup.groups import Group, Grouping, Groups, Member
from esdedup.dedup.log import LogReader
from esdedup.dedup.pairs import SimilarPairs
from esdedup.dedup.reading import Basis
from esdedup.dedup.remove import DedupReport
from esdedup.dedup.representative import KeepRule
from esdedup.dedup.undo import UndoReport
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
from esdedup.index import Dedup, GroupOptions, GroupReport, Index, Place, open
from esdedup.ingest.enrich import OpenIndex, enrich
from esdedup.ingest.ingest import IngestReport
from esdedup.ingest.near_duplicates import DuplicatePolicy
from esdedup.ingest.recent import Verdict
from esdedup.models import Document, Failure, Match, Pair, Query, Result, Share, Statistics
from esdedup.search.buckets import Capped
from esdedup.search.hot_buckets import HotBucket, HotBuckets
from esdedup.search.limits import Limits
from esdedup.sketch.minhash import MinHash
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.segments import Layout
from esdedup.sketch.simhash import SimHash
from esdedup.sketch.weights import FeatureWeights
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
    "Failure", "FeatureWeights", "Group", "GroupOptions", "GroupReport", "Grouping", "Groups",
    "HotBucket", "HotBuckets", "Index", "IndexMeta", "IndexNotFound", "IngestReport",
    "InputError", "JudgedCounts", "Judgement", "Judgements", "KeepRule", "LargeGroup", "Layout",
    "Limits", "LogReader", "MarkedText", "Match", "Meeting", "Member", "MinHash",
    "MissingExtra", "Normalisation", "OpenIndex", "Pair", "PermissionDenied", "Piece", "Place",
    "Query", "RecordError", "Report", "Result", "Scheme", "SchemeMismatch", "Share",
    "Shingling", "SimHash", "SimilarPairs", "SizeRange", "Statistics", "Store", "StoreError",
    "StoreUnavailable", "Template", "UndoReport", "UsageError", "Verdict", "Word", "Words",
    "enrich", "open",
]  # fmt: skip

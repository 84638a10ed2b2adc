"""Express the scope of a query in filters, as far as the mappings of its indices allow.

A filter matches all documents of the scope, and may match others, which `QueryScope.includes`
leaves out of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from esdedup.models import QueryScope
from esdedup.stores.elastic.bodies import Query
from esdedup.stores.mapping import IndexMapping, fields_of

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_FRACTION = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WHOLE_TYPES = {"long": 63, "integer": 31, "short": 15, "byte": 7}
"""Types of whole numbers, with the bits of their values."""
_LONGEST = 8_191
"""Characters of a term: Lucene refuses more bytes than 32,766."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS = range(1, 9999)
"""Years that times can be written in."""


def scope_filters(scope: QueryScope, mappings: Collection[IndexMapping]) -> list[Query]:
    """Return filters for the documents of a scope. mappings: of all indices of the search."""
    mapped = [_searchable(mapping) for mapping in mappings]
    clauses: list[Query | None] = []
    for field, texts in scope.texts.items():
        clauses += [
            _in_all([_text_clause(field, text, fields) for fields in mapped]) for text in texts
        ]
    for field, (first, last) in scope.times.items():
        clauses.append(_in_all([_time_clause(field, first, last, fields) for fields in mapped]))
    return [clause for clause in clauses if clause is not None]


def times_among(names: Sequence[str], mappings: Collection[IndexMapping]) -> list[str]:
    """Return those of some fields that are dates in all indices that have them."""
    mapped = [{**mapping.get("runtime", {}), **dict(fields_of(mapping))} for mapping in mappings]
    types = {name: {fields.get(name, {}).get("type") for fields in mapped} for name in names}
    return [name for name in names if types[name] and types[name] <= {"date", "date_nanos"}]


def _searchable(mapping: IndexMapping) -> dict[str, IndexMapping]:
    """Return the fields of an index whose values in `_source` are those that it has indexed."""
    runtime = mapping.get("runtime", {})
    fields = fields_of(mapping, nested=False)
    return {
        name: field for name, field in fields if field.get("index", True) and name not in runtime
    }


def _in_all(clauses: Collection[Query | None]) -> Query | None:
    """Return the clause of all indices; None if an index has none."""
    distinct: list[Query] = []
    for clause in clauses:
        if clause is None:
            return None
        if clause not in distinct:
            distinct.append(clause)
    if len(distinct) == 1:
        return distinct[0]
    return {"bool": {"should": distinct}} if distinct else None


def _text_clause(field: str, text: str, fields: Mapping[str, IndexMapping]) -> Query | None:
    """Return a clause that matches all documents with a value, or None if there is none."""
    mapped = fields.get(field, {})
    if _is_keyword(mapped, text):
        return _terms(field, text)
    for name, part in mapped.get("fields", {}).items():
        if _is_keyword(part, text) and part.get("index", True):
            return _terms(f"{field}.{name}", text)
    kind = mapped.get("type")
    if kind == "boolean" and text in ("true", "false"):
        return {"term": {field: text}}
    if kind in _WHOLE_TYPES and _WHOLE.fullmatch(text):
        is_in_range = -(1 << _WHOLE_TYPES[kind]) <= int(text) < 1 << _WHOLE_TYPES[kind]
        return {"term": {field: int(text)}} if is_in_range else None
    return None


def _is_keyword(mapped: Mapping[str, Any], text: str) -> bool:
    """Return whether a field indexes a value as a whole."""
    if mapped.get("type") != "keyword":
        return False
    longest: int = min(mapped.get("ignore_above", _LONGEST), _LONGEST)
    return len(text) <= longest


def _terms(field: str, text: str) -> Query | None:
    if _WHOLE.fullmatch(text):
        # JSON may have written the number with a fraction.
        return {"terms": {field: [text, f"{text}.0"]}}
    # A number may be written in many forms.
    return None if _FRACTION.fullmatch(text) else {"term": {field: text}}


def _time_clause(
    field: str, first: int, last: int, fields: Mapping[str, IndexMapping]
) -> Query | None:
    """Return a clause that matches all documents with a time of a range, or None."""
    if fields.get(field, {}).get("type") not in ("date", "date_nanos"):
        return None
    # Dates are in milliseconds.
    bounds = {"gte": first // 1_000 * 1_000, "lte": -(-last // 1_000) * 1_000}
    written = {name: _written(instant) for name, instant in bounds.items()}
    conditions = {name: time for name, time in written.items() if time is not None}
    if not conditions:
        return None
    return {"range": {field: {**conditions, "format": "strict_date_optional_time"}}}


def _written(microseconds: int) -> str | None:
    """Return a time as ISO 8601, or None for one of a year that has no such form."""
    try:
        time = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None
    if time.year not in _YEARS:
        return None
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")

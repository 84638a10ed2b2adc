"""Tokens in Arrow columns are those that documents get, and nothing is copied that need not be."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup import MinHash, Scheme, UsageError
from esdedup.arrow import token_fields, tokens
from esdedup.sketch.kinds.signature import Signature
from esdedup.sketch.kinds.simhash import SimHash
from esdedup.sketch.sketch import sketch
from esdedup.sketch.sketch import token_fields as fields_of_documents

TEXTS = [
    "The council met on Monday to discuss the budget.",
    None,
    "",
    "!!! ???",
    "议会星期一开会讨论明年的预算",
    "one",
    "انعقد المجلس يوم الاثنين لمناقشة الميزانية",
]
SCHEMES = [Scheme(), Scheme([MinHash(), Signature(8)]), Scheme([SimHash(128, 8)])]


def expected(texts: list[str | None], scheme: Scheme) -> list[dict[str, Any]]:
    """The token fields of documents, without what the columns do not hold."""
    written = [text for text in texts if text is not None]
    made = iter(fields_of_documents(sketch(written, scheme), scheme))
    names = ["digest", *scheme.keys]
    fields = [next(made) if text is not None else {} for text in texts]
    return [{name: field.get(name) for name in names} for field in fields]


@pytest.mark.parametrize("scheme", SCHEMES)
@given(more=st.lists(st.none() | st.text(max_size=30), max_size=6))
def test_columns_hold_the_token_fields(scheme: Scheme, more: list[str | None]) -> None:
    texts = [*TEXTS, *(text and text.encode("utf-8", "replace").decode() for text in more)]
    batch = pa.record_batch({"text": pa.array(texts, pa.string())})
    rows = tokens(batch, scheme).to_pylist()
    for row in rows:
        row.pop("simhash_values", None)
    assert [{k: v for k, v in row.items() if k != "text"} for row in rows] == expected(
        texts, scheme
    )


def test_the_fingerprint_is_that_of_the_segments() -> None:
    scheme = Scheme([MinHash(), SimHash(128, 8)])
    found = tokens(pa.record_batch({"text": pa.array(TEXTS, pa.string())}), scheme)
    given_texts = [text for text in TEXTS if text is not None]
    sketches = sketch(given_texts, scheme)
    wanted = [
        print_.view("int64").tolist() if filled else None
        for print_, filled in zip(sketches.values["simhash"], sketches.filled, strict=True)
    ]
    wanted.insert(1, None)
    assert found.column("simhash_values").to_pylist() == wanted


def test_a_table_of_many_chunks_gives_what_its_batches_give() -> None:
    texts = pa.chunked_array([[*TEXTS, "a b c"], [], ["d e f"]], pa.string())
    table = pa.table({"id": pa.chunked_array([list(range(9))]), "text": texts})
    whole = tokens(table)
    parts = [tokens(batch) for batch in table.to_batches()]
    assert whole.to_pylist() == pa.Table.from_batches(parts).to_pylist()
    assert whole.schema.names == ["id", "text", "digest", "minhash", "simhash", "simhash_values"]
    assert tokens(table.slice(0, 0)).schema == whole.schema


def test_the_schema_of_the_input_stays() -> None:
    field = pa.field("text", pa.string(), nullable=False, metadata={"of": "news"})
    schema = pa.schema([field], metadata={"made": "today"})
    batch = pa.RecordBatch.from_arrays([pa.array(["a b c"] * 12_000)], schema=schema)
    for data in (batch, pa.Table.from_batches([batch])):
        found = tokens(data)
        assert (found.schema.field("text"), found.schema.metadata) == (field, schema.metadata)
        assert found.schema.field("text").metadata == field.metadata
        assert found.column("minhash")[11_999] == found.column("minhash")[0]


def test_columns_of_the_input_are_not_copied() -> None:
    batch = pa.record_batch({"id": [1, 2], "text": ["a b c", "d e f"]})
    found = tokens(batch)
    for name in ("id", "text"):
        before = [each and each.address for each in batch.column(name).buffers()]
        assert [each and each.address for each in found.column(name).buffers()] == before


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_any_column_of_strings_is_taken(kind: pa.DataType) -> None:
    column = pa.array(["a b c", None, "a b c"])
    plain = tokens(pa.record_batch({"text": column})).select(["digest", "minhash"])
    other = tokens(pa.record_batch({"text": column.cast(kind)})).select(["digest", "minhash"])
    assert other.to_pylist() == plain.to_pylist()


def test_columns_that_do_not_fit_are_named() -> None:
    batch = pa.record_batch({"body": ["a"], "digest": ["b"], "number": [1]})
    with pytest.raises(UsageError, match="'digest' is there already"):
        tokens(batch, text_field="body")
    batch = batch.select(["body", "number"])
    with pytest.raises(UsageError, match="no column 'text'; there are: body, number"):
        tokens(batch)
    with pytest.raises(UsageError, match="'number' is of type int64"):
        tokens(batch, text_field="number")
    with pytest.raises(UsageError, match="no column 'text'"):
        tokens(pa.Table.from_batches([batch]))
    assert [field.name for field in token_fields(Scheme([MinHash()]))] == ["digest", "minhash"]

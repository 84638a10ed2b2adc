"""Lines of bulk requests that change documents, by what the server would do to their numbers."""

import pytest

from esdedup.models import Change, Document, Failure, StoredDocument
from esdedup.stores.elastic.bulk_changes import Rules, lines_to_change
from esdedup.stores.json_text import EXACT


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [("1.5", True), ('["a",1]', True), ("1.50", False), ('[{"n":1e3}]', False)],
)
def test_a_value_whose_digits_a_server_would_change_is_not_left_to_it(
    value: str, is_kept: bool
) -> None:
    stored = StoredDocument(Document("1", {}, '{"text":"a","n":2.5}'), "3/1", "i")
    change = Change(stored, EXACT.decode(f'{{"taken":{value}}}'))
    written = lines_to_change(change, Rules(inferred=True))
    passed = lines_to_change(change, Rules(final_pipeline="p"))
    update, whole = f'{{"doc":{{"taken":{value}}}}}', f'{{"text":"a","n":2.5,"taken":{value}}}'
    assert isinstance(written, bytes)
    assert written.decode().splitlines()[1] == (update if is_kept else whole)
    if is_kept:
        assert passed == written
    else:
        assert isinstance(passed, Failure)
        assert "an update by the server would change the number 1" in passed.reason

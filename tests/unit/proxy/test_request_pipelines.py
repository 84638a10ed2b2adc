"""The documents that pass the ingest pipeline that a request names."""

import json
from codecs import BOM_UTF8
from typing import Any

import pytest

from esdedup.proxy.pipelines import Pipelines
from esdedup.proxy.splice import SentSource

DOC, UPSERT = {"doc": {"text": "a"}}, {"upsert": {"text": "a"}}


@pytest.mark.parametrize(
    ("update", "passes"),
    [
        ({"text": "a"}, True),
        (DOC, False),
        ({**DOC, "doc_as_upsert": False}, False),
        ({**DOC, "doc_as_upsert": True}, True),
        ({**DOC, "doc_as_upsert": "true"}, True),
        ({**DOC, **UPSERT}, True),
        ({"script": "x", **UPSERT}, True),
    ],
)
def test_what_is_written_whole_passes_a_pipeline(update: dict[str, Any], passes: bool) -> None:
    body = json.dumps(update).encode() + b"\n"
    for written in (body, BOM_UTF8 + body):
        source = SentSource(written, "i", "text" not in update)
        assert Pipelines().changes(source, "lowercase") is passes
        assert not Pipelines().changes(source, None)
        assert not Pipelines().changes(source._replace(pipeline="_none"), "lowercase")
        assert Pipelines().changes(source._replace(pipeline="lowercase"), None) is passes

"""Documents that bring values of esdedup's fields: none of these is stored through the proxy.

Lines are drawn from a grammar of what servers accept, and clients can write: JSON with comments,
in UTF-16, with two actions or text after them. Elasticsearch and OpenSearch accept different ones.
"""

import functools
import gzip
import itertools
import json
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup.models import FIELD
from esdedup.proxy.clearing import LongSource
from tests.conftest import delete_index
from tests.helpers.fuzz import fuzz
from tests.helpers.http import HTTP
from tests.helpers.processes import await_true
from tests.proxy.conftest import GZIP, JSON, MB, NDJSON, Setup, items, metric, post, source
from tests.servers.enriching import Enriching

TEXT = "the council agreed on monday to build a bridge"
FORGED = {"scheme": esdedup.Scheme().id, "digest": "AAAA", "group": "stolen", "minhash": ["zz"]}
IDS = map("d{}".format, itertools.count())

pytestmark = pytest.mark.xdist_group("proxy")


@dataclass(frozen=True)
class Line:
    """An action line, or a source line. clean: it is one that clients write."""

    raw: bytes
    clean: bool


CLEAN_ACTIONS = (
    b'{"index":{"_id":"%s"}}',
    b'{"create":{"_id":"%s"}}',
    b' \t{ "index" : {"_id":"%s", "routing":"a"} } \r',
    b'{"\\u0069ndex":{"_id":"%s"}}',
    BOM_UTF8 + b'{"index":{"_id":"%s"}}',
)
OTHER_ACTIONS = (
    b'/**/{"index":{"_id":"%s"}}',
    b'{"index":{"_id":"%s"}}//',
    b'//c\r{"index":{"_id":"%s"}}',
    b'{"index":{"_id":"%s"},"a":1}',
    b'{"index":{"_id":"%s"},"delete":{"_id":"x"}}',
    b'{"index":{"_id":"%s"},"index":{"_index":"other"}}',
    b'{"index":{"_id":"%s"}',
    b'{"index":{"_id":"%s"}}}',
    b'{"index":{"_id":"%s"}} x',
    b'{"index":{"_id":"%s"},}',
    b'{"index":{"_id":"%s","version":NaN}}',
    b'{"index":{"_id":["%s"]}}',
    b'{"index":{"_id":"%s","a":{}}}',
    b'{"INDEX":{"_id":"%s"}}',
    b'[{"index":{"_id":"%s"}}]',
    b'{"index":{"_id":"\xc0\xaf%s"}}',
    b'{"delete":{"_id":"%s"}}',
    b'{"index":{"_id":"%s","op_type":"delete"}}',
    b"",
    b" ",
    b"/**/",
)


@st.composite
def actions(draw: st.DrawFn) -> Line:
    clean = draw(st.integers(0, 3)) > 0
    raw = draw(st.sampled_from(CLEAN_ACTIONS if clean else OTHER_ACTIONS))
    raw = raw % next(IDS).encode() if b"%s" in raw else raw
    if not clean and draw(st.integers(0, 5)) == 0:
        raw = raw.decode("latin-1").encode(draw(st.sampled_from(["utf-16-le", "utf-32-be"])))
    return Line(raw, clean)


DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "text": st.sampled_from([TEXT, "", "\ud83d", f"{TEXT} esdedup", 7, None, [TEXT, "b"]]),
        FIELD: st.sampled_from([FORGED, [FORGED], {"group": "stolen"}, {}, None]),
        f"{FIELD}.group": st.sampled_from(["stolen", ["stolen"], 7]),
        "n": st.sampled_from([1.5, 10**30, {"a": [{FIELD: 1}]}]),
    },
)


def damaged(raw: bytes, how: str) -> bytes:
    """Return a source in a form that is not strict JSON."""
    key = f'"{FIELD}'.encode()
    return {
        "comment": b"/**/" + raw,
        "comment within": raw.replace(b",", b'/*"*/,', 1),
        "comment after": raw + b"//",
        "overlong": raw.replace(key, b'"\xc1\xa5' + key[2:]),
        "more": raw + b" x",
        "brace": raw + b"}",
        "no brace": raw[:-1],
        "nan": raw.replace(b"1.5", b"NaN"),
        "utf-16": raw.decode("utf-8", "replace").encode("utf-16-le"),
        "utf-32": raw.decode("utf-8", "replace").encode("utf-32-be"),
        "deep": raw[:-1] + b',"x":' + b"[" * 995 + b"]" * 995 + b"}",
        "twice": raw[:-1] + b"," + raw[1:],
    }[how]


DAMAGE = ["comment", "comment within", "comment after", "overlong", "more", "brace", "no brace"]
DAMAGE += ["nan", "utf-16", "utf-32", "deep", "twice"]


@st.composite
def sources(draw: st.DrawFn, update: bool) -> Line:
    value: Any = draw(DOCUMENTS)
    if update:
        value = {"doc": value, "upsert": draw(DOCUMENTS), "doc_as_upsert": draw(st.booleans())}
    text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    raw = text.encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        raw = raw.replace(b'"esd', b'"\\u0065sd')
    if draw(st.integers(0, 3)) == 0:
        return Line(damaged(raw, draw(st.sampled_from(DAMAGE))), clean=False)
    return Line(draw(st.sampled_from([b"", b" ", BOM_UTF8])) + raw, clean=True)


@st.composite
def bodies(draw: st.DrawFn) -> list[Line]:
    """Draw the lines of a bulk body, some of them left out."""
    lines = list[Line]()
    for _ in range(draw(st.integers(1, 5))):
        update = draw(st.integers(0, 3)) == 0
        action = draw(actions())
        if update:
            action = Line(b'{"update":{"_id":"%s"}}' % next(IDS).encode(), clean=True)
        lines.append(action)
        if draw(st.integers(0, 9)):
            lines.append(draw(sources(update)))
        else:
            lines[-1] = Line(action.raw, clean=False)
    return lines


@dataclass(frozen=True)
class Indices:
    """Two indices with tokens: one is written to through the proxy, the other one directly."""

    setup: Setup
    proxied: str
    direct: str


@pytest.fixture(scope="module")
def indices(setup: Setup) -> Iterator[Indices]:
    names = [f"esdedup-forged-{way}-{setup.product}" for way in ("proxied", "direct")]
    for name in names:
        delete_index(setup.direct, name)
        with esdedup.open(setup.direct, name) as index:
            index.create()
        mapping = {"properties": {"n": {"type": "object", "enabled": False}}, "dynamic": False}
        HTTP.put(f"{setup.direct}/{name}/_mapping", json=mapping).raise_for_status()
    yield Indices(setup, *names)
    for name in names:
        delete_index(setup.direct, name)


def assert_not_forged(stored: dict[str, Any]) -> None:
    """Assert that a document has the tokens of its text, and no other value of our fields."""
    assert "stolen" not in json.dumps(stored), stored
    (action,) = esdedup.enrich([{"_source": {**stored, FIELD: {}}}])
    expected = action["_source"][FIELD] or {}
    ours = {key: value for key, value in (stored.get(FIELD) or {}).items() if value is not None}
    assert ours == expected, stored


def written(answer: Any) -> list[dict[str, Any]]:
    """Return the places of the documents that a bulk request wrote."""
    if "items" not in answer.json():
        return []
    return [
        {"_index": item["_index"], "_id": item["_id"], "routing": "a"}
        for item in items(answer)
        if item["status"] < 300 and item["result"] in ("created", "updated")
    ]


@functools.partial(fuzz, most=3_000)
@given(bodies())
def test_no_forged_value_is_stored(indices: Indices, lines: list[Line]) -> None:
    body = b"".join(line.raw + b"\n" for line in lines)
    passed = post(f"{indices.setup.proxy.url}/{indices.proxied}/_bulk", body)
    directly = post(f"{indices.setup.direct}/{indices.direct}/_bulk", body)
    assert passed.status_code in (200, 400), passed.text
    # The servers refuse all actions if an update is not JSON, and the proxy this one alone.
    is_refused_alone = "items" in passed.json() and any(
        item["status"] >= 400 for item in items(passed)
    )
    assert passed.status_code == 400 or directly.status_code == 200 or is_refused_alone, (
        directly.text
    )
    if all(line.clean for line in lines):
        assert passed.status_code == directly.status_code, passed.text
        if "items" in directly.json():
            statuses = [[item["status"] for item in items(one)] for one in (passed, directly)]
            assert statuses[0] == statuses[1], passed.text
    for place in written(passed):
        url = f"{indices.setup.direct}/{place['_index']}/_doc/{place['_id']}"
        found = [HTTP.get(url, params=params).json() for params in ({}, {"routing": "a"})]
        (stored,) = [one["_source"] for one in found if one.get("found")][:1]
        assert_not_forged(stored)


@pytest.mark.on_every_server
def test_an_action_that_is_not_strict_json_is_refused(indices: Indices) -> None:
    proxy = indices.setup.proxy
    url = f"{proxy.url}/{indices.proxied}/_bulk"
    document = json.dumps({"text": TEXT, FIELD: FORGED}).encode()
    refused = 'refused_requests_total{kind="bulk",status="400"}'
    for number, action in enumerate(OTHER_ACTIONS[:5]):
        before = metric(proxy, refused)
        answer = post(url, action % b"f%d" % number + b"\n" + document + b"\n")
        assert answer.status_code == answer.json()["status"] == 400, action
        assert answer.json()["error"]["reason"].startswith("Malformed action/metadata line [1]")
        assert metric(proxy, refused) == before + 1
    assert "refused a request: Malformed action/metadata line" in proxy.log


@pytest.mark.on_every_server
@pytest.mark.parametrize("query", ["index={}", "index=other;%69ndex={}", "refresh&index={}"])
def test_an_index_in_the_query_string_is_that_of_actions_without_one(
    indices: Indices, query: str
) -> None:
    url = f"{indices.setup.proxy.url}/_bulk?{query.format(indices.proxied)}"
    document = json.dumps({"text": TEXT, FIELD: FORGED}).encode()
    answer = post(url, b'{"index":{"_id":"query"}}\n' + document + b"\n")
    assert [(item["_index"], item["status"] // 100) for item in items(answer)] == [
        (indices.proxied, 2)
    ]
    assert_not_forged(source(indices.setup.direct, indices.proxied, "query"))


@pytest.mark.on_every_server
def test_an_update_without_the_text_keeps_tokens_and_marks(indices: Indices) -> None:
    setup, name = indices.setup, indices.proxied
    HTTP.put(f"{setup.proxy.url}/{name}/_doc/kept", json={"text": TEXT}).raise_for_status()
    mark = {"doc": {FIELD: {"group": "own"}}}
    HTTP.post(f"{setup.direct}/{name}/_update/kept", json=mark).raise_for_status()
    before = source(setup.direct, name, "kept")
    values: list[Any] = [FORGED, {"group": "stolen"}, None, []]
    for value in values:
        update = {"doc": {FIELD: value, "m": 1}}
        answer = HTTP.post(f"{setup.proxy.url}/{name}/_update/kept", json=update)
        assert answer.status_code == 200, answer.text
        assert source(setup.direct, name, "kept") == {**before, "m": 1}


def post_in_time(url: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
    """Send a body until the server, whose memory other tests use too, has room for it."""
    answers: list[httpx.Response] = []

    def has_room() -> bool:
        answers.append(post(url, body, **headers))
        return b'"status":429' not in answers[-1].content

    await_true("the server has room", has_room, 120)
    return answers[-1]


def test_long_documents_lose_forged_values(indices: Indices, tmp_path: Path) -> None:
    setup, name = indices.setup, indices.proxied
    long = "word " * (MB // 4)
    # Longer than the sources that a proxy with this memory reads whole.
    huge = "word " * (6 * MB // 5)
    with Enriching(setup.direct, tmp_path, "--max-memory", "128MB") as proxy:
        assert_cleared(setup.direct, proxy.url, name, long, huge)


def assert_cleared(direct: str, url: str, name: str, long: str, huge: str) -> None:
    """Write long documents with forged values through a proxy, and read them."""
    documents: dict[str, dict[str, Any]] = {
        "long": {"text": long, FIELD: FORGED, f"{FIELD}.group": "stolen"},
        "huge": {FIELD: FORGED, "x": {FIELD: [1, "}"]}, "text": huge, f"{FIELD}.group": "stolen"},
        "next": {"text": TEXT, FIELD: FORGED},
    }
    lines = [part for id, each in documents.items() for part in ({"index": {"_id": id}}, each)]
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    for sent, headers in ((body, {}), (gzip.compress(body, 1), GZIP)):
        answer = post_in_time(f"{url}/{name}/_bulk", sent, headers)
        assert [item["status"] // 100 for item in items(answer)] == [2] * 3
        for id, document in documents.items():
            stored = source(direct, name, id)
            assert stored.get("x") == document.get("x")
            assert "stolen" not in json.dumps(stored)
            assert (stored[FIELD] is None) is (id != "next")
    update = json.dumps({"doc": {"text": huge, FIELD: {"group": "stolen"}}}).encode()
    answer = post_in_time(f"{url}/{name}/_update/next", update, JSON)
    assert answer.status_code == 200, answer.text
    assert source(direct, name, "next")[FIELD] is None
    broken = b'{"index":{"_id":"y"}}\n/**/' + body.splitlines()[3] + b"\n"
    assert post(f"{url}/{name}/_bulk", broken).status_code == 400


@pytest.mark.on_every_server
def test_bodies_that_cannot_be_read_are_refused(indices: Indices, tmp_path: Path) -> None:
    setup, name = indices.setup, indices.proxied
    body = b'{"index":{"_id":"u"}}\n' + json.dumps({"text": TEXT, FIELD: FORGED}).encode() + b"\n"
    yaml = {"content-type": "application/yaml"}
    deflated = {"content-encoding": "deflate"}
    other = f"{name}-other"
    delete_index(setup.direct, other)
    try:
        for path, sent, headers, status in (
            (f"{name}/_bulk", zlib.compress(body), {**NDJSON, **deflated}, 415),
            (f"{other}/_bulk", zlib.compress(body), {**NDJSON, **deflated}, 415),
            (f"{name}/_doc/u", b"---\ntext: a b c\nesdedup.group: stolen\n", yaml, 415),
            (f"{name}/_update/u", b"---\ndoc: {esdedup.group: stolen}\n", yaml, 415),
            (f"{other}/_doc/u", b"---\ntext: a b c\n", yaml, 201),
        ):
            answer = post(f"{setup.proxy.url}/{path}", sent, **headers)
            assert answer.status_code == status, answer.text
            if status == 415:
                assert "--pass-unread" in answer.json()["error"]["reason"]
        assert HTTP.get(f"{setup.direct}/{name}/_doc/u").status_code == 404
        with Enriching(setup.direct, tmp_path, "--pass-unread") as proxy:
            sent = zlib.compress(body)
            answer = post(f"{proxy.url}/{other}/_bulk", sent, **NDJSON, **deflated)
            assert answer.status_code == 200, answer.text
            assert metric(proxy, 'documents_total{tokens="not_json"}') == 1
    finally:
        delete_index(setup.direct, other)


KEYS = [FIELD, f"{FIELD}.group", f"{FIELD}x", "text", "doc", "upsert", 'a"b', "\\", "{", "\u2028"]
VALUES = st.recursive(
    st.none()
    | st.integers()
    | st.sampled_from(["", "},{", f'"{FIELD}":', "\\", "\u00e9\U00010000"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=12,
)


def cleared(document: dict[str, Any]) -> dict[str, Any]:
    return {
        key: None if key.partition(".")[0] == FIELD else value for key, value in document.items()
    }


@fuzz
@given(st.dictionaries(st.sampled_from(KEYS), VALUES), st.booleans(), st.booleans(), st.data())
def test_pieces_of_a_long_source_are_cleared_as_the_whole(
    document: dict[str, Any], update: bool, escaped: bool, data: st.DataObject
) -> None:
    expected = cleared(document)
    if update:
        expected = {
            key: cleared(value) if key in ("doc", "upsert") and isinstance(value, dict) else value
            for key, value in document.items()
        }
    text = json.dumps(document, ensure_ascii=escaped, indent=data.draw(st.sampled_from([None, 1])))
    body = text.replace('"esd', '"\\u0065sd').encode() if escaped else text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=4)))
    long_source = LongSource([FIELD], update)
    pieces = [body[start:end] for start, end in itertools.pairwise([0, *cuts, len(body)])]
    done = b"".join(map(long_source.cleared, pieces))
    long_source.end()
    assert json.loads(done) == expected

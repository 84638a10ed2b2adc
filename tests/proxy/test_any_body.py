"""Bodies of `_bulk` of any form: nothing is lost or changed, and nothing breaks."""

import asyncio
import contextlib
import functools
import io
import json
import socket
from codecs import BOM_UTF8
from unittest import mock

import httpx
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup.proxy import rewriting
from esdedup.proxy.app import Service
from esdedup.proxy.http import Refused, Request
from esdedup.proxy.metadata import LOOK_UP_SECONDS, Schemes
from esdedup.proxy.rewriting import Batches
from esdedup.proxy.settings import ProxySettings
from esdedup.proxy.splice import SentSource, Splicer
from esdedup.proxy.upstream import Upstream
from esdedup.stores.mapping import IndexMeta
from tests.helpers.fuzz import fuzz
from tests.proxy.conftest import MB, NDJSON

SPLICER = Splicer(1 << 20)
META = IndexMeta(esdedup.Scheme())
TEXTS = st.text(max_size=8) | st.sampled_from(["one two three four", "\u202e", "\ud83d"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "doc", "upsert", "esdedup", "n"]), inner)
    ),
    max_leaves=6,
)
SOURCES = st.dictionaries(st.sampled_from(["text", "n", "doc", "upsert", "esdedup"]), VALUES)
NAMES = st.sampled_from(["", "a b", "../x", "*", "\u202e", 3, None])
VERBS = st.sampled_from(["index", "create", "update", "delete"])
JSON_LINES = st.builds(json.dumps, SOURCES | VALUES, ensure_ascii=st.booleans()).map(
    lambda line: line.encode("utf-8", "surrogatepass")
)
LINES = (
    JSON_LINES
    | st.builds(lambda verb, id: json.dumps({verb: {"_id": id}}).encode(), VERBS, TEXTS)
    | st.builds(lambda verb, name: json.dumps({verb: {"_index": name}}).encode(), VERBS, NAMES)
    | st.sampled_from([b"", b" ", b"{", b"[1]", b'{"index":3}', b"\xff", b'{"index":{}} x', b"\0"])
    | st.binary(max_size=10)
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Lines of a bulk body in any order, some of them cut, with any ends of lines."""
    lines = draw(st.lists(LINES, max_size=12))
    ends = draw(st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
    whole = ends.join(lines) + draw(st.sampled_from([b"", ends]))
    return whole[: draw(st.integers(0, len(whole)))] if draw(st.booleans()) else whole


@fuzz
@given(bodies(), st.integers(1, 1 << 20))
def test_every_byte_of_a_body_is_in_an_action(body: bytes, longest: int) -> None:
    actions, refused = list[SentSource](), False
    try:
        actions += rewriting.bulk(io.BytesIO(body), "i", longest)
    except Refused:
        refused = True
    whole = b"".join(action.line + action.body for action in actions).replace(b"\n", b"")
    assert refused or whole == body.replace(b"\n", b"")
    sources = [
        SentSource(one.body, None, bool(n % 2), b"{}\n" if n % 3 else b"")
        for n, one in enumerate(actions)
    ]
    for source, done in zip(sources, SPLICER.with_tokens(sources, {None: META})[0], strict=True):
        if (expected := without_tokens(source.body, source.update)) is None:
            # The servers read the JSON of updates of a bulk before that of any document.
            place = (
                b'{"doc":{"esdedup":{"group":{"'
                if source.update and source.line
                else b'{"esdedup":'
            )
            assert done.startswith(place + b"rejected_by_esdedup_proxy") or not source.body
            assert place.startswith(b'{"esdedup') or not done or json.loads(done)
            continue
        assert without_tokens(done, source.update) == expected
        # A document without a text loses the tokens that it brings.
        if b"text" not in source.body and b"esdedup" not in source.body:
            assert done == source.body


def without_tokens(body: bytes, update: bool) -> str | None:
    """The value of a source without our field, as JSON; None if it is not JSON."""
    try:
        found = json.loads(body.removeprefix(BOM_UTF8).decode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    for part in (
        (found.get("doc"), found.get("upsert")) if update and isinstance(found, dict) else [found]
    ):
        if isinstance(part, dict):
            part.pop("esdedup", None)
    # Not by ==, because NaN is not equal to itself.
    return json.dumps(found)


def send(
    url: str, name: str, body: bytes, look_up_seconds: float = LOOK_UP_SECONDS
) -> httpx.Response:
    """Send a body through the proxy, which reads two actions at a time."""

    async def exchange() -> httpx.Response:
        service = Service(
            ProxySettings(upstream=url), batches=Batches(actions=2), look_up_seconds=look_up_seconds
        )
        transport = httpx.ASGITransport(service)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://proxy") as client:
            answer = await client.post(f"/{name}/_bulk", content=body, headers=NDJSON)
        await service.upstream.close()
        return answer

    return asyncio.run(asyncio.wait_for(exchange(), 30))


def test_a_look_up_without_an_answer_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        answer = send(url, "i", b'{"index":{}}\n{"text":"a b c"}\n', look_up_seconds=0.1)
        assert answer.status_code == 504


@functools.partial(fuzz, most=2_000)
@given(bodies())
def test_any_body_is_answered(elasticsearch_url: str, name: str, body: bytes) -> None:
    answer = send(elasticsearch_url, name, body)
    assert answer.status_code < 500, (answer.status_code, answer.text)
    assert isinstance(answer.json(), dict)


def test_a_long_body_does_not_delay_a_shorter_one() -> None:
    """Its turn ends with each batch."""
    schemes = Schemes(Upstream(ProxySettings(upstream="http://127.0.0.1:9")))
    batches = Batches(actions=2, threads=1, small_body=0)
    rewriter = rewriting.Rewriter(schemes, 256 * MB, batches)
    ended: list[int] = []

    async def rewrite(count: int) -> None:
        body = b'{"index":{}}\n{"text":"a b c"}\n' * count
        receive = mock.AsyncMock(return_value={"type": "http.request", "body": body})
        scope = {"method": "POST", "raw_path": b"/_bulk", "query_string": b"", "headers": []}
        with contextlib.ExitStack() as held:
            request = Request(scope, receive, mock.AsyncMock(), 60.0)
            file, outcomes = await rewriter.rewrite(request, None, "bulk", held)
            assert (file.tell(), outcomes) == (len(body), {"no_scheme": count})
        ended.append(count)

    async def rewrite_both() -> None:
        await asyncio.gather(rewrite(500), rewrite(5))

    asyncio.run(rewrite_both())
    assert ended == [5, 500]

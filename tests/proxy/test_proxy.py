"""`esdedup proxy` between real clients and real servers."""

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import elasticsearch
import elasticsearch.helpers
import opensearchpy
import opensearchpy.helpers
import pytest

import esdedup
from esdedup.models import FIELD
from esdedup.proxy.splice import SentSource, Splicer
from esdedup.stores.mapping import IndexMeta
from tests.conftest import delete_index
from tests.helpers.http import HTTP
from tests.helpers.indices import open_index
from tests.helpers.places import Place
from tests.proxy.conftest import JSON, NDJSON, Setup, source

TEXT = "one two three four five six seven"
PER_CALL = {"took", "pit_id", "id", "creation_time", "_shards", "_seq_no", "result", "_version"}


# One process starts the proxies.
pytestmark = pytest.mark.xdist_group("proxy")


@pytest.fixture
def names(setup: Setup) -> Iterator[list[str]]:
    """Name for indices, deleted afterwards. Dots are common in names."""
    found = [f"esdedup.test-{uuid.uuid4().hex[:12]}" for _ in range(2)]
    yield found
    for name in found:
        delete_index(setup.direct, name)


def attach(url: str, name: str, **options: Any) -> esdedup.Scheme:
    with open_index(Place(url, name), **options) as index:
        return index.scheme


def tokens(text: str, scheme: esdedup.Scheme | None = None) -> dict[str, Any]:
    (action,) = esdedup.enrich([{"_source": {"text": text}}], scheme=scheme)
    found: dict[str, Any] = action["_source"][FIELD]
    return found


def bulk(url: str, lines: list[Any]) -> None:
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    HTTP.post(f"{url}/_bulk", content=body, headers=NDJSON).raise_for_status()


def scrubbed(value: Any, name: str) -> Any:
    """A result without what differs from call to call."""
    if isinstance(value, dict):
        return {
            key.replace(name, "NAME"): scrubbed(item, name)
            for key, item in value.items()
            if key not in PER_CALL
        }
    if isinstance(value, (list, tuple)):
        return [scrubbed(item, name) for item in value]
    return value.replace(name, "NAME") if isinstance(value, str) else value


def ordinary_calls(setup: Setup, client: Any, name: str) -> list[Any]:
    """What the clients' methods return."""
    mapping = {"mappings": {"properties": {"text": {"type": "text"}, "n": {"type": "long"}}}}
    query = {"query": {"match": {"text": "two"}}, "sort": ["n"]}
    other = {"query": {"term": {"n": 7}}}
    results = [
        # Servers from jars have no module for it.
        client.info() if HTTP.get(setup.direct).status_code == 200 else None,
        bool(client.indices.exists(index=name)),
        client.indices.create(index=name, body=mapping),
        client.index(index=name, id="1/ü?", body={"text": TEXT, "n": 1}),
        client.index(index=name, body={"text": "x", "n": 2})["result"],
        client.create(index=name, id="3", body={"text": TEXT, "n": 3}, refresh=True),
        client.get(index=name, id="1/ü?"),
        client.update(index=name, id="3", body={"doc": {"n": 7}}, refresh=True),
        client.search(index=name, body=query),
        client.msearch(body=[{"index": name}, query, {"index": name}, other]),
        client.delete(index=name, id="3", refresh=True),
    ]
    actions = [{"_index": name, "_id": f"b{n}", "text": f"{TEXT} {n}", "n": n} for n in range(50)]
    results.append(setup.helpers.bulk(client, actions, refresh=True))
    hits = list(setup.helpers.scan(client, index=name))
    results.append(sorted(hit["_source"]["n"] for hit in hits))
    with pytest.raises((elasticsearch.NotFoundError, opensearchpy.NotFoundError)) as caught:
        client.get(index=name, id="none")
    results.append(str(caught.value))
    return results


@pytest.mark.on_every_server
@pytest.mark.parametrize("compress", [False, True])
def test_ordinary_calls_of_the_clients_give_what_they_give_directly(
    setup: Setup, names: list[str], compress: bool
) -> None:
    got = []
    for url, name in zip((setup.direct, setup.proxy.url), names, strict=True):
        client = setup.client(url, http_compress=compress)
        results = ordinary_calls(setup, client, name)
        client.close()
        got.append(scrubbed([getattr(result, "body", result) for result in results], name))
    assert got[0] == got[1]


@pytest.mark.on_every_server
@pytest.mark.parametrize("compress", [False, True])
def test_documents_of_an_attached_index_get_the_tokens_of_enrich(
    setup: Setup, names: list[str], compress: bool
) -> None:
    attached, other = names
    scheme = attach(setup.direct, attached)
    client = setup.client(setup.proxy.url, http_compress=compress)
    documents = {f"d{n}": {"text": f"{TEXT} {n}", "n": n} for n in range(30)}
    documents |= {"none": {"title": TEXT}, "number": {"text": 7}, "empty": {"text": ""}}
    for name in names:
        given = [{"_index": name, "_id": id, **document} for id, document in documents.items()]
        setup.helpers.bulk(client, given)
        client.index(index=name, id="single", body={"text": TEXT})
        client.create(index=name, id="create", body={"text": TEXT})
    client.close()
    for id, document in documents.items():
        assert source(setup.direct, other, id) == document
        extra = {} if id in ("none", "number") else {FIELD: tokens(str(document["text"]), scheme)}
        assert source(setup.direct, attached, id) == {**document, **extra}
    for id in ("single", "create"):
        assert source(setup.direct, attached, id) == {"text": TEXT, FIELD: tokens(TEXT, scheme)}
        assert source(setup.direct, other, id) == {"text": TEXT}


def test_updates(setup: Setup, names: list[str]) -> None:
    url, (name, _) = setup.proxy.url, names
    attach(setup.direct, name)
    HTTP.put(f"{url}/{name}/_doc/1", json={"text": TEXT, "n": 1})
    update = f"{url}/{name}/_update"
    assert HTTP.post(f"{update}/1", json={"doc": {"n": 2}}).status_code == 200
    assert source(url, name, "1") == {"text": TEXT, "n": 2, FIELD: tokens(TEXT)}
    changed = {"doc": {"n": 3, "text": f"{TEXT} x"}, "upsert": {"text": "new"}}
    HTTP.post(f"{update}/1", json=changed)
    HTTP.post(f"{update}/2", json=changed)
    # An update merges objects, and a former text may have had no words.
    assert source(url, name, "1")[FIELD] == {**tokens(f"{TEXT} x"), "wordless": None}
    assert source(url, name, "2") == {"text": "new", FIELD: tokens("new")}
    bulk(url, [{"update": {"_id": "1", "_index": name}}, {"doc": {"text": ""}}])
    cleared = source(url, name, "1")[FIELD]
    assert cleared["digest"] == tokens("")["digest"]
    assert {key for key, value in cleared.items() if value is None} >= {"minhash"}
    HTTP.post(f"{update}/2", json={"doc": {"text": ""}})
    assert source(url, name, "2")[FIELD] == cleared
    without: list[Any] = [None, [], 7]
    for text in without:
        HTTP.put(f"{url}/{name}/_doc/1", json={"text": TEXT})
        HTTP.post(f"{update}/1", json={"doc": {"text": text}})
        assert source(url, name, "1") == {"text": text, FIELD: None}


RAW = (
    b'{ "f": 1.0, "big": 123456789012345678901234567890, "e": 1e400, "long": '
    + b"9" * 900 + b', "t": [0.10, -0, 1E+2], "u": "\\u00fc\xc3\xbc", "text" : "' + TEXT.encode() + b'"  }  '  # noqa: E501
)  # fmt: skip


def test_only_our_field_is_added_and_numbers_keep_their_digits(
    setup: Setup, names: list[str]
) -> None:
    """The servers keep a document's own bytes, which show."""
    name = names[0]
    attach(setup.direct, name)
    put = {"properties": {"esdedup_raw": {"type": "object"}}, "dynamic": False}
    HTTP.put(f"{setup.direct}/{name}/_mapping", json=put).raise_for_status()
    added = json.dumps(tokens(TEXT), separators=(",", ":")).encode()
    expected = RAW.rstrip()[:-1] + b',"esdedup":' + added + b"}"
    own = b'{"a": 1.50, "esdedup" : {"x": [1, {"y": 2}]}, "text": "' + TEXT.encode() + b'"}'
    replaced = own.replace(b'{"x": [1, {"y": 2}]}', added)
    url = f"{setup.proxy.url}/{name}/_doc"
    for id, body in (("1", RAW), ("2", own)):
        answer = HTTP.put(f"{url}/{id}", content=body, headers=JSON)
        assert answer.status_code == 201, answer.text
    line = b'{"index":{"_index":"%s","_id":"3"}}\r\n' % name.encode() + RAW + b"\r\n"
    answer = HTTP.post(f"{setup.proxy.url}/_bulk", content=line, headers=NDJSON)
    assert not answer.json()["errors"]
    for id, body in (("1", expected), ("2", replaced), ("3", expected)):
        got = HTTP.get(f"{setup.direct}/{name}/_source/{id}").content
        assert got.strip() == body


def test_malformed_lines_get_errors_in_the_servers_form(setup: Setup, names: list[str]) -> None:
    for name in names:
        attach(setup.direct, name)
    places = list(zip((setup.direct, setup.proxy.url), names, strict=True))
    good = b'{"index":{"_id":"1"}}\n{"text":"a b c"}\n'
    for body in (b'{"index":{"_id":"2"}}\n{"text":"a b"}', b"", b"\n", good + b"\n \r\n" + good):
        answers = [
            HTTP.post(f"{url}/{name}/_bulk", content=body, headers=NDJSON) for url, name in places
        ]
        direct, passed = (
            (answer.status_code, scrubbed(answer.json(), name))
            for answer, (_, name) in zip(answers, places, strict=True)
        )
        assert direct == passed, body
    for body in (good + b'{"nonsense":{}}\n{"text":"a"}\n', good + b"no json\n"):
        passed_on = HTTP.post(f"{setup.proxy.url}/{names[1]}/_bulk", content=body, headers=NDJSON)
        error = passed_on.json()["error"]
        assert (passed_on.status_code, error["type"]) == (400, "illegal_argument_exception")
        assert error["reason"].startswith("Malformed action/metadata line [3]"), error
    body = good + b'{"index":{"_id":"2"}}\n{"text":\n' + good
    answer = HTTP.post(f"{setup.proxy.url}/{names[1]}/_bulk", content=body, headers=NDJSON)
    assert [item["index"]["status"] for item in answer.json()["items"]] == [200, 400, 200]
    assert "rejected_by_esdedup_proxy_not_valid_JSON_Expecting_value" in answer.text
    # An update alone, too.
    for id, status in (("1", 400), ("none", 404)):
        body = good + b'{"update":{"_id":"%s"}}\n{"doc":{"text":"x"}/**/}\n' % id.encode() + good
        answer = HTTP.post(f"{setup.proxy.url}/{names[1]}/_bulk", content=body, headers=NDJSON)
        statuses = [next(iter(item.values()))["status"] for item in answer.json()["items"]]
        assert statuses == [200, status, 200], answer.text
        named = "rejected_by_esdedup_proxy_not_valid_JSON_Expecting" in answer.text
        assert named is (id == "1"), answer.text
        assert source(setup.direct, names[1], "1")["text"] == "a b c"
    for content in (b'{"text": "a b c"', b"[1]", b""):
        first, second = (
            HTTP.put(f"{url}/{name}/_doc/9", content=content, headers=JSON) for url, name in places
        )
        assert first.status_code == second.status_code == 400
        assert first.json()["error"]["type"] == second.json()["error"]["type"]
        if not content.startswith(b"{"):
            assert first.json() == second.json()


def test_documents_that_are_hard_to_read_keep_their_bytes() -> None:
    meta = IndexMeta(esdedup.Scheme())
    digits = b'{"n":' + b"9" * 5000 + b',"text":"a b c"}'
    bodies = [b'{"text":1}', b'["text"]', b"{}", digits]
    done, _ = Splicer(1 << 20).with_tokens([*map(SentSource, bodies)], {None: meta})
    assert done[:-1] == bodies[:-1]
    assert done[-1].startswith(digits[:-1] + b',"esdedup":{')
    other = IndexMeta(esdedup.Scheme(), field="esdedup_2", marks_in="esdedup_tokens")
    update = SentSource(b'{"doc":{}}//\n', update=True, line=b'{"update":{}}\n')
    (refused,), outcomes = Splicer(1 << 20).with_tokens([update], {None: other})
    (reason,) = json.loads(refused)["doc"].pop("esdedup_tokens")["group"]
    assert reason.startswith("rejected_by_esdedup_proxy_something_follows")
    assert (outcomes, refused.endswith(b"}\n")) == (["refused"], True)
    dotted = b'{"\\u0065sdedup.group": ["a", "b"], "text": "a b c"}'
    (spliced,), _ = Splicer(1 << 20).with_tokens([SentSource(dotted)], {None: meta})
    assert spliced.startswith(b'{"\\u0065sdedup.group": null, "text": "a b c","esdedup":{')


@pytest.mark.parametrize("value", [[], [{"lang": "en"}], None, "plain"])
def test_an_update_that_replaces_the_object_of_the_text_removes_the_tokens(value: Any) -> None:
    """The servers merge objects, and nothing else."""
    meta = IndexMeta(esdedup.Scheme(), ("content.body",))
    update = {"doc": {"content": value}}
    source = SentSource(json.dumps(update).encode(), update=True)
    (spliced,), outcomes = Splicer(1 << 20).with_tokens([source], {None: meta})
    assert (json.loads(spliced)["doc"], outcomes) == ({**update["doc"], FIELD: None}, ["removed"])
    action = {"_op_type": "update", "_id": "1", **update}
    (enriched,) = esdedup.enrich([action], text_field="content.body")
    assert enriched["doc"] == {**update["doc"], FIELD: None}


def test_aliases_other_fields_and_schemes(setup: Setup, names: list[str]) -> None:
    first, second = names
    url = setup.proxy.url
    scheme = esdedup.Scheme.from_json({**esdedup.Scheme().to_json(), "seed": 7})
    attach(setup.direct, first, scheme=scheme, text_field=["title", "body.text"])
    alias = f"alias-{first}"
    add = [
        {"add": {"index": name, "alias": alias, "is_write_index": name == first}} for name in names
    ]
    HTTP.put(f"{setup.direct}/{second}").raise_for_status()
    HTTP.post(f"{setup.direct}/_aliases", json={"actions": add}).raise_for_status()
    bulk(url, [{"create": {"_index": alias, "_id": "1"}}, {"body": {"text": TEXT}}])
    found = source(url, first, "1")
    assert found == {"body": {"text": TEXT}, FIELD: tokens(TEXT, scheme)}
    assert found[FIELD] != tokens(TEXT)
    both = {"body": [{"text": TEXT}, {"text": ["x"]}], "title": "t"}
    bulk(url, [{"create": {"_index": alias, "_id": "0"}}, both])
    assert source(url, first, "0") == {**both, FIELD: tokens(f"t\n{TEXT}\nx", scheme)}
    attach(url, second)  # Through the proxy, which asks again then.
    bulk(url, [{"create": {"_index": alias, "_id": "2"}}, {"body": {"text": TEXT}}])
    assert source(url, first, "2") == found
    # What counts is the index that the documents go to.
    moved = [
        {"add": {"index": name, "alias": alias, "is_write_index": name == second}} for name in names
    ]
    HTTP.post(f"{url}/_aliases", json={"actions": moved}).raise_for_status()
    bulk(url, [{"create": {"_index": alias, "_id": "3"}}, {"body": {"text": TEXT}}])
    assert source(url, second, "3") == {"body": {"text": TEXT}}
    bulk(url, [{"create": {"_index": alias, "_id": "4"}}, {"text": TEXT}])
    assert source(url, second, "4") == {"text": TEXT, FIELD: tokens(TEXT)}


@pytest.mark.parametrize("missing", ["uvicorn", "httpx"])
def test_without_its_packages_the_command_says_how_to_install_them(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from esdedup.cli import main; main()"
    command = [sys.executable, "-c", code, "proxy", "--upstream", "http://127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'esdedup[proxy]'" in done.stderr

"""What the token fields add to an index, in bytes a document, and which layout adds least.

    python benchmarks/index_size.py --url http://localhost:9200 [--documents 100000]
        [--language english|chinese] [--chance] [--only NAME ...] [--json FILE]

Made-up texts of about 400 characters, a tenth of them lightly edited copies, are indexed without
our fields and then with each layout of them: 20 MinHash bands and 4 SimHash segments. Each index
has one shard, no replica, and is merged to one segment. Growth is the store's size less that of
the plain documents under the same codec. Where the server has `_disk_usage` (Elasticsearch), it is
split: what is stored (`_source`), the terms of our fields, and the rest.

The first and the last document are looked up by each of their tokens, in every layout. The last
two columns are what a layout costs a reader, by the client's clock, the best of five rounds: a
recall query for one document's bands, of 50 in an `_msearch` that fetches nothing, and a document
fetched, of 500 in an `_mget`.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import texts as made_up

import esdedup
from esdedup.models import FIELD
from esdedup.sketch.minhash import MinHash
from esdedup.sketch.sketch import Sketches, sketch, token_fields
from esdedup.sketch.tokens import encode
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.mapping import field_mapping
from esdedup.stores.to_json import to_json
from esdedup.text.arrays import U64

INDEX = "esdedup-benchmark-index-size"
BANDS = 20
ROWS = 3
WIDEST = 60
CHARACTERS = 400
A_REQUEST = 2_000

Fields = dict[str, Any]
Edit = Callable[[Fields], None]
"""Changes one document's fields from today's form to a layout's."""

# All of ASCII that JSON does not escape, but for the space.
_BASE_85 = [chr(code) for code in range(33, 127) if chr(code) not in "\"\\'`,;:|~"]


def scheme_of(bits: int) -> esdedup.Scheme:
    return esdedup.Scheme(
        minhash=MinHash(permutations=128, bands=BANDS, rows=ROWS, token_bits=bits)
    )


@dataclass(frozen=True)
class Layout:
    """A way to keep the fields.

    edits: what to do to each document's fields, in turn. mapping: of fields, put in place of
    today's; None takes one away. bits: of a band's token.
    """

    name: str
    edits: Sequence[Edit] = ()
    mapping: dict[str, Any] = field(default_factory=dict)
    bits: int = 36
    codec: str = "default"
    plain: bool = False

    def properties(self) -> dict[str, Any]:
        ours: dict[str, Any] = field_mapping(scheme_of(36))
        for name, value in self.mapping.items():
            if value is None:
                del ours["properties"][name]
            else:
                ours["properties"][name] = value
        return ours


STRING = {"type": "text", "analyzer": "whitespace", "index_options": "docs", "norms": False}
STORED = {"type": "keyword", "index": False, "doc_values": False, "norms": False}

INDEXED = {**STORED, "index": True}


def without(name: str) -> Edit:
    def edit(fields: Fields) -> None:
        fields.pop(name, None)

    return edit


def unprefixed(fields: Fields) -> None:
    if "minhash" in fields:
        fields["minhash"] = [token[1:] for token in fields["minhash"]]


def joined(name: str, separator: str = " ") -> Edit:
    def edit(fields: Fields) -> None:
        if name in fields:
            fields[name] = separator.join(fields[name])

    return edit


def one_field(fields: Fields) -> None:
    """All tokens in one string; the SimHash ones begin with another character."""
    if "minhash" in fields:
        segments = ["-" + token for token in fields.pop("simhash")]
        fields["minhash"] = " ".join(fields["minhash"] + segments)


def short_digest(fields: Fields) -> None:
    """64 bits in 11 digits of base 64, where today's are 16 hexadecimal ones."""
    values = np.array([[int(fields["digest"], 16)]], np.uint64)
    fields["digest"] = encode(values, 64)[0][0][1:]


def base_85(fields: Fields) -> None:
    """The upper 32 bits of each band's 36, in 5 digits of base 85 (unprefixed)."""
    if "minhash" not in fields:
        return
    fields["minhash"] = [_in_base_85(_number(token[1:]) >> 4) for token in fields["minhash"]]


def integers(fields: Fields) -> None:
    """The upper 32 bits of each band's 36, as signed numbers."""
    if "minhash" in fields:
        fields["minhash"] = [(_number(token[1:]) >> 4) - 2**31 for token in fields["minhash"]]


_DIGIT_OF = {
    digit: value
    for value, digit in enumerate(
        ".0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
    )
}


def _number(digits: str) -> int:
    value = 0
    for digit in digits:
        value = value << 6 | _DIGIT_OF[digit]
    return value


def _in_base_85(value: int) -> str:
    digits = []
    for _ in range(5):
        value, digit = divmod(value, 85)
        digits.append(_BASE_85[digit])
    return "".join(reversed(digits))


SPACED = (joined("minhash"), joined("simhash"))
LEAN = (unprefixed, *SPACED, without("fingerprint"), short_digest)
LEAN_MAPPING = {"minhash": STRING, "simhash": STRING, "digest": STORED, "fingerprint": None}
PLAIN = Layout("no fields", plain=True)
NOW = Layout("36 bits")

LAYOUTS = [
    NOW,
    # One change each.
    Layout("bands alone", [without("simhash"), without("fingerprint")]),
    Layout("segments alone", [without("minhash")]),
    Layout("no scheme", [without("scheme")]),
    Layout("no digest", [without("digest")]),
    Layout("no fingerprint", [without("fingerprint")]),
    Layout("digest not indexed", mapping={"digest": STORED}),
    Layout("digest of 11 characters", [short_digest]),
    Layout("unprefixed", [unprefixed]),
    Layout("strings", SPACED, {"minhash": STRING, "simhash": STRING}),
    Layout("one string for both", [one_field], {"minhash": STRING, "simhash": None}),
    # An analyzer that cuts such a string takes settings of the index, and a module that not every
    # server has; the terms are those of "strings" and of "unprefixed".
    Layout("spaceless, not indexed", [joined("minhash", "")], {"minhash": STORED}),
    Layout(
        "spaceless, unprefixed, not indexed",
        [unprefixed, joined("minhash", "")],
        {"minhash": STORED},
    ),
    Layout(
        "bands as integers, 32 bits",
        [integers],
        {"minhash": {"type": "integer", "doc_values": False}},
    ),
    # Bits of a band's token; 30 and 36 fill 5 and 6 characters.
    Layout("24 bits", bits=24),
    Layout("now, 30 bits", bits=30),
    Layout("32 bits", bits=32),
    Layout("40 bits", bits=40),
    # Changes together.
    Layout(
        "strings, digest not indexed",
        SPACED,
        {"minhash": STRING, "simhash": STRING, "digest": STORED},
    ),
    Layout(
        "strings, no fingerprint, digest short, not indexed",
        [*SPACED, without("fingerprint"), short_digest],
        LEAN_MAPPING,
    ),
    Layout("lean: that, unprefixed", LEAN, LEAN_MAPPING),
    Layout("lean, 30 bits", LEAN, LEAN_MAPPING, bits=30),
    Layout("lean, 30 bits, prefixed", LEAN[1:], LEAN_MAPPING, bits=30),
    Layout("lean, digest indexed", LEAN, {**LEAN_MAPPING, "digest": INDEXED}),
    Layout("lean, no digest", [*LEAN, without("digest")], LEAN_MAPPING),
    Layout(
        "lean, fingerprint kept", [*LEAN[:3], short_digest], {**LEAN_MAPPING, "fingerprint": STORED}
    ),
    Layout("lean, 32 bits in base 85", [base_85, *LEAN[1:]], LEAN_MAPPING),
    Layout(
        "lean, bands as integers, 32 bits",
        [integers, joined("simhash"), without("fingerprint"), short_digest],
        {**LEAN_MAPPING, "minhash": {"type": "integer", "doc_values": False}},
    ),
]
# Elasticsearch compresses so with a native library of zstd; a server without it fails here.
LAYOUTS += [
    replace(layout, name=f"{layout.name}; best_compression", codec="best_compression")
    for layout in LAYOUTS
    if layout.name
    in (
        "36 bits",
        "strings",
        "strings, no fingerprint, digest short, not indexed",
        "lean: that, unprefixed",
        "lean, 30 bits",
        "lean, 32 bits in base 85",
        "bands as integers, 32 bits",
        "lean, bands as integers, 32 bits",
    )
]


@dataclass(frozen=True)
class Corpus:
    """Texts with their sketches, the bands' hashes of WIDEST bits."""

    texts: list[str]
    sketches: Sketches
    bands: U64


def corpus(language: str, documents: int) -> Corpus:
    """Every tenth text is an edited copy of the one before it."""
    texts: list[str] = getattr(made_up, language)(documents, CHARACTERS)
    rng = np.random.default_rng(5)
    separator = " " if language == "english" else ""
    for row in range(10, len(texts), 10):
        words: list[str] = texts[row - 1].split() if separator else list(texts[row - 1])
        for at in rng.integers(0, len(words), 4).tolist():
            words[at] = "edited" if separator else "改"
        texts[row] = separator.join(words)
    sketches = sketch(texts, scheme_of(WIDEST))
    assert sketches.bands is not None
    return Corpus(texts, sketches, sketches.bands)


def fields_of(made: Corpus, rows: slice, layout: Layout) -> list[Fields]:
    """The `esdedup` objects of some documents."""
    whole = made.sketches
    assert whole.fingerprints is not None
    some = Sketches(
        whole.digests[rows],
        whole.filled[rows],
        made.bands[rows] >> np.uint64(WIDEST - layout.bits),
        whole.fingerprints[rows],
    )
    fields = _token_fields(some, layout.bits)
    for edit in layout.edits:
        for each in fields:
            edit(each)
    return fields


def _token_fields(some: Sketches, bits: int) -> list[Fields]:
    """As the package makes them, also for bits that it does not take."""
    if bits % 6 == 0:
        return token_fields(some, scheme_of(bits))
    fields = token_fields(some, scheme_of(36))
    assert some.bands is not None
    assert some.filled.all()
    for each, tokens in zip(fields, encode(some.bands, bits), strict=True):
        each["minhash"] = tokens
    return fields


@dataclass(frozen=True)
class Measured:
    """What one index takes.

    source_json: bytes of the `esdedup` object in a document. seconds: of bulk requests alone.
    recall_ms, fetch_us: of one query, and of one document. usage: bytes of the parts of each field,
    where the server tells.
    """

    layout: str
    codec: str
    documents: int
    store: int
    source_json: float
    seconds: float
    recall_ms: float
    fetch_us: float
    usage: dict[str, dict[str, int]]


class Cluster:
    """The calls that this benchmark makes."""

    def __init__(self, store: ClusterStore) -> None:
        self._client = store.cluster.client

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return self._client.request(method, path, body)[1]

    def build(self, made: Corpus, layout: Layout) -> Measured:
        """Makes the index anew and measures it."""
        self._client.request("DELETE", f"/{INDEX}", allowed=frozenset({404}))
        properties: dict[str, Any] = {"id": {"type": "keyword"}, "text": {"type": "text"}}
        if not layout.plain:
            properties[FIELD] = layout.properties()
        settings = {
            "number_of_shards": 1,
            "number_of_replicas": 0,
            "refresh_interval": -1,
            "codec": layout.codec,
            "store.stats_refresh_interval": "0ms",
        }
        body = {"settings": {"index": settings}, "mappings": {"properties": properties}}
        self.ask("PUT", f"/{INDEX}", body)
        seconds, size = self._fill(made, layout)
        self.ask("POST", f"/{INDEX}/_forcemerge?max_num_segments=1")
        self.ask("POST", f"/{INDEX}/_flush?force=true&wait_if_ongoing=true")
        self.ask("POST", f"/{INDEX}/_refresh")
        store = self._settled()
        recall = 0.0
        if not layout.plain:
            for row in (0, len(made.texts) - 1):
                self._look_up(made, layout, row)
            recall = 1e3 * self._recall(made, layout)
        return Measured(
            layout.name,
            layout.codec,
            len(made.texts),
            store,
            size,
            seconds,
            recall,
            1e6 * self._fetch(len(made.texts)),
            self._usage(),
        )

    def _fill(self, made: Corpus, layout: Layout) -> tuple[float, float]:
        seconds, size, total = 0.0, 0, len(made.texts)
        for first in range(0, total, A_REQUEST):
            rows = slice(first, min(total, first + A_REQUEST))
            fields = [] if layout.plain else fields_of(made, rows, layout)
            lines = []
            for offset, text in enumerate(made.texts[rows]):
                id = f"d{first + offset}"
                document: Fields = {"id": id, "text": text}
                if fields:
                    document[FIELD] = fields[offset]
                    size += len(to_json(fields[offset], id)) + len(f',"{FIELD}":')
                lines += [f'{{"index":{{"_id":"{id}"}}}}\n', to_json(document, id) + "\n"]
            body = "".join(lines).encode()
            began = time.perf_counter()
            answer = self.ask("POST", f"/{INDEX}/_bulk?filter_path=errors,items.*.error", body)
            seconds += time.perf_counter() - began
            if answer["errors"]:
                raise SystemExit(f"{layout.name}, codec {layout.codec}: {answer['items'][0]}")
        return seconds, size / total

    def _settled(self) -> int:
        """The store's size, once merged segments are gone."""
        last = None
        while True:
            stats = self.ask("GET", f"/{INDEX}/_stats/store,segments")["_all"]["primaries"]
            now = (stats["segments"]["count"], stats["store"]["size_in_bytes"])
            if now == last and now[0] == 1:
                return int(now[1])
            last = now
            time.sleep(1.0)

    def _look_up(self, made: Corpus, layout: Layout, row: int) -> None:
        """Finds a document by each of its tokens."""
        fields = fields_of(made, slice(row, row + 1), layout)[0]
        for kind in ("minhash", "simhash"):
            value = fields.get(kind, []) if layout.mapping.get(kind) != STORED else []
            for token in value.split(" ") if isinstance(value, str) else value:
                condition = [{"term": {f"{FIELD}.{kind}": token}}, {"ids": {"values": [f"d{row}"]}}]
                found = self.ask(
                    "POST", f"/{INDEX}/_count", {"query": {"bool": {"filter": condition}}}
                )
                assert found["count"] == 1, (layout.name, kind, token)

    def _recall(self, made: Corpus, layout: Layout) -> float:
        """Seconds of a query for the documents that share a band."""
        if layout.mapping.get("minhash") == STORED:
            return 0.0
        lines = b""
        for row in np.random.default_rng(7).integers(0, len(made.texts), 50).tolist():
            value = fields_of(made, slice(row, row + 1), layout)[0].get("minhash", [])
            terms = value.split(" ") if isinstance(value, str) else value
            should = [
                {"constant_score": {"filter": {"term": {f"{FIELD}.minhash": term}}}}
                for term in terms
            ]
            body = {"query": {"bool": {"should": should}}, "size": 100, "_source": False}
            lines += b"{}\n" + to_json(body, "query").encode() + b"\n"
        return best(lambda: self.ask("POST", f"/{INDEX}/_msearch", lines)) / 50

    def _fetch(self, documents: int) -> float:
        """Seconds of fetching one document."""
        rows = np.random.default_rng(8).integers(0, documents, 500).tolist()
        body = {"ids": [f"d{row}" for row in rows]}
        return best(lambda: self.ask("POST", f"/{INDEX}/_mget", body)) / 500

    def _usage(self) -> dict[str, dict[str, int]]:
        """Bytes of each of our fields, and of what is stored, where the server tells."""
        path = f"/{INDEX}/_disk_usage?run_expensive_tasks=true"
        status, answer = self._client.request("POST", path, allowed=frozenset({400, 404, 405}))
        if status != 200:
            return {}
        usage = {}
        for name, parts in answer[INDEX]["fields"].items():
            if not name.startswith("text"):
                usage[name] = {
                    "terms": parts["inverted_index"]["total_in_bytes"],
                    "stored": parts["stored_fields_in_bytes"],
                    "values": parts["doc_values_in_bytes"] + parts["points_in_bytes"],
                }
        return usage


def best(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(5):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def print_chance(made: Corpus) -> None:
    """How many documents a query meets by chance alone, by the bits of a token.

    Counted in the corpus: equal values of so many bits that are not equal in WIDEST bits. Expected
    of n documents: n * bands / 2**bits where a token begins with its band's position, and bands
    times as many without, because any band may then meet any other.
    """
    n = len(made.texts)
    numbered = np.arange(BANDS, dtype=np.uint64)[None, :]
    print(f"{'chance documents a query':30}{'prefixed':>20}{'unprefixed':>20}  counted, expected")
    within = sum(_pairs(made.bands[:, band]) for band in range(BANDS))
    across = _pairs(made.bands)
    for bits in (24, 30, 32, 36, 40):
        values = made.bands >> np.uint64(WIDEST - bits)
        prefixed = _pairs((numbered << np.uint64(bits)) | values)
        unprefixed = _pairs(values)
        expected = n * BANDS / 2.0**bits
        line = f"{bits:>4} bits"
        for counted, real, factor in ((prefixed, within, 1), (unprefixed, across, BANDS)):
            line += f"{2 * (counted - real) / n:18.5f}{expected * factor:10.5f}"
        print(line)


def _pairs(values: U64) -> int:
    """Pairs of equal values."""
    counts = np.unique(values, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


HEAD = (
    f"{'bytes a document':58}{'growth':>8}{'JSON':>7}"
    f"{'stored':>8}{'bands':>7}{'segm.':>7}{'digest':>7}{'rest':>6}{'bulk s':>8}"
    f"{'recall ms':>11}{'fetch us':>10}"
)


def row_of(measured: Measured, plain: Measured) -> str:
    n = measured.documents
    line = (
        f"{measured.layout:58}{(measured.store - plain.store) / n:8.1f}{measured.source_json:7.1f}"
    )
    if measured.usage:
        stored = total(measured, "stored") - total(plain, "stored")
        parts = [all_of(measured, f"{FIELD}.{name}") for name in ("minhash", "simhash", "digest")]
        rest = measured.store - plain.store - stored - sum(parts)
        line += f"{stored / n:8.1f}{parts[0] / n:7.1f}{parts[1] / n:7.1f}{parts[2] / n:7.1f}"
        line += f"{rest / n:6.1f}"
    else:
        line += " " * 35
    return f"{line}{measured.seconds:8.1f}{measured.recall_ms:11.2f}{measured.fetch_us:10.1f}"


def total(measured: Measured, part: str) -> int:
    return sum(parts[part] for parts in measured.usage.values())


def all_of(measured: Measured, name: str) -> int:
    parts = measured.usage.get(name, {})
    return parts.get("terms", 0) + parts.get("values", 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--language", choices=("english", "chinese"), default="english")
    parser.add_argument("--chance", action="store_true", help="count chance meetings, too")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="layouts by their whole names")
    parser.add_argument("--json", type=Path, help="a file to write the raw figures to")
    options = parser.parse_args()
    known = {layout.name: layout for layout in LAYOUTS}
    chosen = [known[name] for name in options.only or known]
    made = corpus(options.language, options.documents)
    if options.chance:
        print_chance(made)
    raw: list[dict[str, Any]] = []
    with esdedup.open(options.url, INDEX, timeout=900.0) as index:
        assert isinstance(index.store, ClusterStore)
        cluster = Cluster(index.store)

        @functools.cache
        def plain(codec: str) -> Measured:
            measured = cluster.build(made, replace(PLAIN, codec=codec))
            raw.append(vars(measured))
            each = measured.store / measured.documents
            print(
                f"# no fields, {codec}: {each:.1f} bytes, bulk {measured.seconds:.1f} s,"
                f" fetch {measured.fetch_us:.1f} us",
                flush=True,
            )
            return measured

        product = index.store.cluster.client.product
        print(f"{options.documents:,} {options.language} documents, {product}")
        print(HEAD)
        for layout in chosen:
            without_fields = plain(layout.codec)
            measured = cluster.build(made, layout)
            raw.append(vars(measured))
            print(row_of(measured, without_fields), flush=True)
            if options.json is not None:
                options.json.write_text(json.dumps(raw, indent=1), "utf-8")
        cluster.ask("DELETE", f"/{INDEX}")


if __name__ == "__main__":
    main()

"""Documents with vectors in a local file: less room, and the same bytes when they are read."""

import base64
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import esdedup
from esdedup import Scheme, Vectors
from esdedup.sketch.vectors import F32
from esdedup.stores.sqlite.sources import json_of, packed, short_json_of
from tests.helpers.vectors import directions

VECTOR = directions(1, 64, seed=3)[0]
TINY = VECTOR * np.float32(1e-4)


def rounded(vector: F32) -> list[float]:
    return [round(number, 6) for number in vector.tolist()]


def in_base64(vector: F32, form: str) -> str:
    return base64.b64encode(vector.astype(form).tobytes()).decode()


@pytest.mark.parametrize(
    "vector",
    [
        json.dumps(VECTOR.tolist()),
        json.dumps(VECTOR.tolist(), separators=(",", ":")),
        json.dumps(rounded(VECTOR)),
        json.dumps(rounded(VECTOR), separators=(",", ":")),
        json.dumps(TINY.tolist()),
        "[0.5,-0.0,1e-05,1.5e-07,3.0]",
        "[0.5,1e-7,2.25]",
        # As orjson writes float32.
        "[0.00001234,0.0000012,1.2e-12,0.25]",
        json.dumps(in_base64(VECTOR, "<f4")),
        json.dumps(in_base64(VECTOR, ">f4")),
    ],
)
def test_a_packed_vector_comes_back_in_the_same_bytes(vector: str) -> None:
    text = f'{{ "id": "ä",\t"embedding" : {vector},\n "text": "[0.5]", "n": 1.10 }}'
    source = packed(text, {"embedding"})
    assert isinstance(source, bytes)
    assert json_of(source) == text
    short = json.loads(short_json_of(source))
    full = json.loads(text)
    assert short.keys() == full.keys()
    if isinstance(full["embedding"], str):
        assert short == full
    else:
        as_float32 = np.array(full["embedding"], np.float32)
        assert np.array_equal(np.array(short["embedding"], np.float32), as_float32)


@pytest.mark.parametrize(
    "text",
    [
        '{"embedding":[0.1234567890123456,0.5]}',  # More digits than float32 has.
        '{"embedding":[1,2,3]}',
        '{"embedding":[0.50,0.25]}',
        '{"embedding":[0.5 ,0.25]}',
        '{"embedding":[5E-1,0.25]}',
        '{"embedding":[1e300,0.5]}',
        '{"embedding":[]}',
        '{"embedding":[null,0.5]}',
        '{"embedding":[[0.5],[0.25]]}',
        '{"embedding":""}',
        '{"embedding":"AAA="}',
        '{"embedding":"a text of words"}',
        '{"embedding":null,"other":[0.5,0.25]}',
        '{"x\\"embedding":[0.5,0.25]}',
        r'{"text":"\"embedding\":[0.5,0.25]"}',
    ],
)
def test_what_float32_does_not_write_again_stays_text(text: str) -> None:
    assert packed(text, {"embedding"}) == text


def test_the_packed_bytes_are_a_file_format() -> None:
    text = '{"a":[0.5,0.1],"b":"AACAPw==","a":[0.10000000149011612, 2.0]}'
    expected = (
        "040200000005000000" + b'{"a":'.hex() + "0000003fcdcccc3d"
        "010100000005000000" + b',"b":'.hex() + "0000803f"
        "030200000005000000" + b',"a":'.hex() + "cdcccc3d00000040"
        "000000000001000000" + b"}".hex()
    )  # fmt: skip
    source = packed(text, {"a", "b"})
    assert isinstance(source, bytes)
    assert source.hex() == expected
    assert json_of(source) == text


def test_damaged_bytes_are_refused() -> None:
    source = packed('{"a":[0.5,0.1]}', {"a"})
    assert isinstance(source, bytes)
    for damaged in (source[:-1], source[:20], source + b"x", b"\xff" + source[1:], b""):
        with pytest.raises(ValueError, match="packed document"):
            json_of(damaged)


def test_a_file_keeps_documents_as_they_came_and_reads_those_of_before(folder: Path) -> None:
    path = folder / "v.db"
    scheme = Scheme([Vectors(64, 0.9)])
    lines = {
        "wide": f'{{"embedding": {VECTOR.tolist()}, "n": 1.10}}',
        "round": f'{{"n":2,"embedding":{json.dumps(rounded(VECTOR))}}}',
        "exact": json.dumps({"embedding": [number / 3 for number in VECTOR.tolist()]}),
    }
    with esdedup.open(path, "v", scheme=scheme, text_field="embedding") as index:
        index.add({"id": id, **json.loads(line)} for id, line in lines.items())
        stored = {id: index.get(id) for id in lines}
        values = {id: document.source["embedding"] for id, document in stored.items() if document}
        assert values == {id: json.loads(line)["embedding"] for id, line in lines.items()}
        expected = [(match.id, match.similarity) for match in index.similar(id="wide")]
        assert len(expected) == 2
    with sqlite3.connect(path) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        assert version & 0xFF == 4
        rows = db.execute('SELECT id, source FROM "documents:v"').fetchall()
        assert {id for id, source in rows if isinstance(source, bytes)} == {"wide", "round"}
        # As the version before wrote the file.
        db.executemany(
            'UPDATE "documents:v" SET source = ? WHERE id = ?',
            [(json_of(source), id) for id, source in rows],
        )
        db.execute(f"PRAGMA user_version = {version & ~0xFF | 3}")
    db.close()
    with esdedup.open(path, "v") as index:
        assert [(match.id, match.similarity) for match in index.similar(id="wide")] == expected
        index.update([{"id": "round", "title": "A"}])
        assert [(match.id, match.similarity) for match in index.similar(id="wide")] == expected
        updated = index.get("round")
        assert updated is not None
        assert updated.source["embedding"] == rounded(VECTOR)
    with sqlite3.connect(path) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        assert version & 0xFF == 4
        rows = db.execute('SELECT id, source FROM "documents:v"').fetchall()
        assert {id for id, source in rows if isinstance(source, bytes)} == {"round"}
    db.close()

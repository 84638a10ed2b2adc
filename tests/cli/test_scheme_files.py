"""Scheme files of any form: the wrong field is named, and nothing is rounded or guessed."""

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup.exceptions import UsageError
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.sketch.kinds.simhash import SimHash
from esdedup.stores.mapping import IndexMeta
from tests.helpers.commands import run_command
from tests.helpers.fuzz import fuzz

WHOLE: dict[str, Any] = json.loads(
    json.dumps(esdedup.Scheme([MinHash(16, 4, 2), esdedup.Signature(4), SimHash()]).to_json())
)
PATHS: list[tuple[Any, ...]] = [
    *((name,) for name in WHOLE),
    *((name, inner) for name in WHOLE if isinstance(WHOLE[name], dict) for inner in WHOLE[name]),
    *(("sketches", at, inner) for at in range(3) for inner in WHOLE["sketches"][at]),
]
NAMES = st.text(max_size=9)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=4,
)


def with_value(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The scheme with another value at a path; without it for an ellipsis."""
    scheme = copy.deepcopy(WHOLE)
    inner = scheme
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    if value is ...:
        del inner[path[-1]]
    return scheme


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("seed",), 1.5),
        (("seed",), ...),
        (("version",), True),
        (("sketches", 0, "bands"), True),
        (("sketches",), {}),
        (("sketches", 1, "kind"), "manhattan"),
        (("sketches", 2, "weighting"), ["tf"]),
        (("shingling", "stop_words"), [5]),
        (("normalisation", "form"), None),
        (("shingling",), ...),
    ],
)
def test_a_wrong_value_is_named(path: tuple[Any, ...], value: Any) -> None:
    with pytest.raises(UsageError, match=path[-1]):
        esdedup.Scheme.from_json(with_value(path, value))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "it is empty"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"[" * 100_000, "not valid JSON: nested too deeply"),
        (b'{"seed":\n"1', "not valid JSON: Unterminated string at line 2, character 1"),
        (b"5", "a scheme's scheme is not an object"),
        (b"1" * 5_000, "a number has more than 4300 digits"),
    ],
)
def test_a_file_that_is_no_scheme_is_told_why(tmp_path: Path, raw: bytes, reason: str) -> None:
    file = tmp_path / "scheme.json"
    file.write_bytes(raw)
    ran = run_command("scheme", "--scheme", str(file))
    assert (ran.status, ran.out) == (2, "")
    assert f"scheme file {file}: {reason}" in ran.err


@fuzz
@given(path=st.sampled_from(PATHS), value=JSON | st.just(...))
def test_any_value_is_taken_or_refused(path: tuple[Any, ...], value: Any) -> None:
    scheme = with_value(path, value)
    with suppress(UsageError):
        taken: Any = esdedup.Scheme.from_json(scheme).to_json()
        if isinstance(value, int | float | str):
            # A value is accepted as it was given, neither rounded nor converted.
            for name in path:
                taken = taken[name]
            assert json.dumps(taken) == json.dumps(value)


@fuzz
@given(
    name=st.sampled_from(["scheme", "text_fields", "field", "next", "former", "spent", "stop"]),
    value=JSON | st.just(...),
)
def test_any_description_of_an_index_is_taken_or_refused(name: str, value: Any) -> None:
    meta = IndexMeta(esdedup.Scheme(), next=IndexMeta(esdedup.Scheme(seed=2), field="esdedup_2"))
    document = {**meta.to_json(), name: value}
    if value is ...:
        del document[name]
    with suppress(UsageError):
        IndexMeta.from_json(document)

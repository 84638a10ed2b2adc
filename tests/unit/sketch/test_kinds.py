"""A kind of sketch is one module and one entry in the scheme's list: nothing else names one."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import esdedup
from esdedup import MinHash, SimHash, UsageError, Vectors, Weights
from esdedup.models import Query
from esdedup.search.candidates import candidate_queries
from esdedup.sketch.kinds.base import Block
from esdedup.sketch.kinds.segments import Segmented
from esdedup.sketch.kinds.simhash import Weighting
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import KINDS, Scheme
from esdedup.sketch.sketch import sketch, stored_values, token_fields
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import U64
from esdedup.text.words import tokenise
from tests.helpers.indices import open_index

PACKAGE = Path(esdedup.__file__).parent
MAY_NAME = {"__init__.py", "sketch/scheme.py", "cli/commands/scheme.py", "cli/options.py"}
"""The public names, the list of kinds, the command that sets their parameters, and --bits."""


def test_no_other_module_names_a_kind() -> None:
    # These are also words: of functions, of other kinds, of matches.
    words = {"signature", "bits", "passages", "server", "vectors"}
    names, words_of = "|".join(KINDS.keys() - words), "|".join(words)
    kinds = re.compile(rf"(?i:{names})|kinds\.({words_of})|[\"']signature[\"']|\bBits\(")
    naming = set()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        code = re.sub(r'""".*?"""|#.*', "", path.read_text("utf-8"), flags=re.DOTALL)
        if not name.startswith("sketch/kinds/") and kinds.search(code):
            naming.add(name)
    assert naming == MAY_NAME


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_every_kind_keeps_the_protocol(kind: Any) -> None:
    required = {"dimensions": 2} if kind is Vectors else {}
    one = kind(name="other", **required)
    assert kind.from_json(one.to_json()) == one
    texts = ["one two three four five", "six", ""]
    several = not (kind.reads_values or kind.by_server)
    scheme = Scheme([one, kind(**required)] if several else [one])
    if kind.reads_values:
        texts[:2] = [one.text("c3d1a5b4978e6d2f"), one.text("0123456789abcdef")]
    made = sketch(texts, scheme)
    assert one.describe()
    assert one.token_bytes > 0
    if kind.by_server:
        assert made.values["other"].shape == (3, 0)
        return
    values, tokens = made.values["other"], one.token_values(made.values["other"])
    if not kind.varies:
        assert values.shape == (3, one.width)
        assert tokens.shape == (3, one.tokens)
    back = one.stored_values(tokens)
    assert [[*row] for row in back] == [[*row] for row in values]
    fields = token_fields(made, scheme)
    count = len(tokens[0])
    assert [len(each.get(one.key, [])) for each in fields] == [count, len(tokens[1]), 0]
    stored, whole = stored_values([each.get(one.key) for each in fields], one)
    assert whole.tolist() == [True, True, False]
    assert [[*row] for row in stored] == [[*values[0]], [*values[1]]]
    query = sketch(texts[:1], scheme.only(one), limits=Limits())
    (wanted,) = candidate_queries(IndexMeta(scheme), one, query, [Query(texts[0])])
    assert [group[0] for group in wanted.groups] == fields[0][one.key]


@pytest.mark.parametrize("weighting", ["tf", "binary"])
@pytest.mark.parametrize("size", [64, 128])
def test_weighted_features_give_the_values(size: int, weighting: Weighting) -> None:
    table = Weights({"one two": 0.5, "two three": 9, "three one": 2.5}, 1.5)
    simhash = SimHash(size, 8, weighting=weighting, weights=table)
    text, scheme = "one two three one two three four five", Scheme([simhash])
    rules = scheme.normalisation, scheme.shingling, scheme.seed
    block = Block([text], tokenise([text], *rules[1:]), *rules, [simhash])
    features = simhash.features(block)
    assert simhash.feature_size == scheme.feature_size == 2
    assert features.tenths.tolist() == [5, 90, 25, 5, 90, 15, 15]
    assert features.repeats == (weighting == "tf")
    pairs = list(zip(features.hashes[0].tolist(), features.tenths.tolist(), strict=True))
    pairs = pairs if features.repeats else [*dict(pairs).items()]
    for word, value in enumerate(simhash.values(block)[0].tolist()):
        weights = np.array([weight for _, weight in pairs])
        hashes = simhash.feature_hashes(np.array([hash for hash, _ in pairs], np.uint64), word)
        bits = [int(2 * weights[hashes >> bit & 1 == 1].sum() > weights.sum()) for bit in range(64)]
        assert value == sum(bit << place for place, bit in enumerate(bits))
    with pytest.raises(UsageError, match="the scheme has no SimHash"):
        _ = Scheme([MinHash()]).feature_size


@dataclass(frozen=True)
class Digits(Segmented):
    """A kind that a program adds: 64 bits that a field holds, in hexadecimal digits."""

    size: int = 64
    segments: int = 4

    kind = "digits"

    def values(self, block: Block) -> U64:
        return np.array([[int(text, 16)] for text in block.texts], np.uint64)


def test_a_kind_is_one_class_and_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, Digits.kind, Digits)
    scheme = Scheme([MinHash(), Digits(fields=["phash"])])
    assert Scheme.from_json(scheme.to_json()) == scheme
    prints = {"a": 7, "b": 6, "c": 7 << 40, "d": (7 << 40) + 3}
    with open_index(
        ":memory:",
        ({"id": id, "text": f"text {id}", "phash": f"{n:x}"} for id, n in prints.items()),
        scheme=scheme,
    ) as index:
        found = index.similar("f", sketch="digits", distance=2)
        assert [(match.id, match.distance) for match in found.matches] == [("a", 1), ("b", 2)]
        pairs = {(each.left, each.right, each.distance) for each in index.pairs(sketch="digits")}
        assert pairs == {("a", "b", 1), ("c", "d", 2)}
        assert index.groups(sketch="digits").duplicates == 2

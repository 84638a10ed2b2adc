"""esdedup explain: what is said of a pair holds by every other way to know it."""

import re
from pathlib import Path

import pytest

import esdedup
from esdedup.analysis.explain import Explanation
from esdedup.models import FIELD, Document
from esdedup.sketch.banding import MOST_SWAPS, expected_recall
from tests.helpers.commands import Ran, call, esdedup_command, run_command
from tests.helpers.indices import fill_index, open_index
from tests.helpers.places import Place

ROOT = Path(__file__).parents[2]
SECOND = "The council met on Monday and voted for the new bridge over the"
DOCUMENTS = [
    {"id": "a", "text": f"{SECOND} river."},
    {"id": "b", "text": f"{SECOND} canal."},
    {"id": "c", "text": f"{SECOND.upper()}  RIVER"},
    {"id": "d", "text": "今天下午三点，市图书馆举行读书会，欢迎大家参加。"},
    {"id": "e", "text": "今天下午四点，市图书馆举行读书会，欢迎大家参加！"},
    {"id": "<script>alert(1)</script>", "text": "<script>alert(2)</script> [bold]all[/bold]\x1b[7"},
    {"id": "[red]x[/red]", "text": "<script>alert(2)</script> [bold]all[/bold] else {{ 7 * 7 }}"},
    {"id": "empty", "text": "!!!"},
    {"id": "also empty", "text": "???"},
]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "documents.db"
    fill_index(path, DOCUMENTS)
    return path


def explained(path: Path, left: str, right: str) -> Explanation:
    with esdedup.open(path) as index:
        return index.explain(left, right)


def command(path: Path, *arguments: str, status: int = 0, **environment: str) -> Ran:
    options = ["--db", str(path)]
    return run_command("explain", *arguments, *options, status=status, environment=environment)


def test_the_numbers_of_a_pair(file: Path) -> None:
    pair = explained(file, "a", "b")
    assert (pair.left.shingles, pair.right.shingles, pair.shared, pair.union) == (12, 12, 11, 13)
    assert pair.similarity == 11 / 13
    assert not pair.duplicates
    bands, segments = pair.sketches
    assert (bands.name, bands.tokens, bands.distance, bands.always) == ("minhash", 12, None, None)
    assert bands.chance == expected_recall(11 / 13, 12, 3, 1, MOST_SWAPS)
    assert (segments.name, segments.tokens, segments.always) == ("simhash", 4, 3)
    assert segments.chance is None


def test_what_met_is_what_a_search_meets(file: Path) -> None:
    for left, right in (("a", "b"), ("d", "e")):
        pair = explained(file, left, right)
        with esdedup.open(file) as index:
            (match,) = [m for m in index.similar(id=left).matches if m.id == right]
            near = index.similar(id=left, sketch="simhash", distance=15)
        bands, segments = pair.sketches
        assert (match.similarity, match.matched) == (pair.similarity, bands.probed)
        assert {m.id: m.distance for m in near.matches}[right] == segments.distance


@pytest.mark.on_every_server
def test_tokens_that_met_are_stored_in_both(url: str, name: str) -> None:
    with open_index(Place(url, name), DOCUMENTS) as index:
        pair = index.explain("d", "e")
    assert pair.left.stored_tokens == pair.right.stored_tokens == "current"
    stored = [call(url, "GET", f"/{name}/_source/{id}")[FIELD] for id in ("d", "e")]
    for each in pair.sketches:
        met = {token.split(":")[1] for token in each.met}
        assert met == {*stored[0][each.name]} & {*stored[1][each.name]} != set()
    assert [each["digest"] for each in stored] == [pair.left.digest, pair.right.digest]

    call(url, "POST", f"/{name}/_update/d?refresh=true", {"doc": {"text": "all new text here"}})
    call(url, "PUT", f"/{name}/_doc/bare?refresh=true", {"text": "not by us"})
    foreign = {**stored[1], "scheme": "v1-000000000000"}
    call(url, "POST", f"/{name}/_update/e?refresh=true", {"doc": {FIELD: foreign}})
    for ids, states in (("d bare", ["stale", "none"]), ("a e", ["current", "other scheme"])):
        ran = esdedup_command(url, "explain", *ids.split(), "--index", name, status=0)
        (line,) = ran.json
        assert [line[side]["stored_tokens"] for side in ("left", "right")] == states
    assert line["warnings"][0].startswith("e: its stored tokens are of another scheme")
    ran = esdedup_command(url, "explain", "d", "nobody", "--index", name, status=1)
    assert "has no document 'nobody'" in ran.err


def test_exact_duplicates(file: Path) -> None:
    fill_index(file, [{"id": "c2", "text": f"{SECOND}  river"}])
    pair = explained(file, "c", "c2")
    assert (pair.duplicates, pair.similarity) == (True, 1.0)
    assert [(len(each.met), each.chance, each.distance) for each in pair.sketches] == [
        (12, 1.0, None),
        (4, None, 0),
    ]
    # Punctuation makes another digest, and the same shingles.
    other = explained(file, "a", "c")
    assert (other.duplicates, other.similarity) == (False, 1.0)


def test_texts_without_words_have_no_tokens_that_could_meet(file: Path) -> None:
    pair = explained(file, "empty", "also empty")
    assert (pair.similarity, pair.shared, pair.union) == (0.0, 0, 0)
    assert pair.sketches == explained(file, "a", "empty").sketches == ()
    shown = command(file, "a", "empty", "--table").out
    assert "empty: the text has no words, so it has no tokens" in shown
    fill_index(file, [{"id": "equal", "text": "!!!"}])
    pair = explained(file, "empty", "equal")
    assert (pair.similarity, pair.duplicates) == (1.0, True)


def test_every_sketch_of_a_scheme_is_explained(tmp_path: Path) -> None:
    kinds = [esdedup.SimHash(128, 8), esdedup.Signature(64), esdedup.MinHash(name="wide")]
    path = tmp_path / "x.db"
    fill_index(path, DOCUMENTS, scheme=esdedup.Scheme(kinds))
    (line,) = command(path, "a", "b").json
    found = [(each["name"], each["tokens"], each["always"]) for each in line["sketches"]]
    assert found == [("simhash", 8, 7), ("signature", 64, None), ("wide", 12, None)]
    shown = command(path, "a", "b", "--table").out
    assert all(f"{name}: equal tokens" in shown for name, *_ in found)


def test_the_terminal_shows_texts_as_they_are(file: Path) -> None:
    shown = command(file, DOCUMENTS[5]["id"], DOCUMENTS[6]["id"], "--table").out
    assert "⟦<script>alert⟧(⟦2⟧)⟦<⟧/⟦script>⟧ [⟦bold⟧]⟦all⟧[/⟦bold⟧]" in shown
    assert "[red]x[/red]" in shown
    assert "\x1b" not in shown
    assert "[/⟦bold⟧]\ufffd[7" in shown
    coloured = command(file, "d", "e", "--table", FORCE_COLOR="1", TERM="xterm-256color").out
    assert "⟦" not in coloured
    assert re.search("\x1b\\[30;42m今天下午\x1b\\[0m三", coloured)


def test_long_texts_are_cut_and_the_reader_is_told(tmp_path: Path) -> None:
    shared, other = (" ".join(f"{side}{n}" for n in range(60_000)) for side in "wo")
    left, right = (f"{shared} {side} {side * 10} {shared}" for side in ("left", "right"))
    texts = {"a": left, "b": right, "c": other}
    path = tmp_path / "documents.db"
    fill_index(path, texts)
    shown = command(path, "a", "b", "--table").out
    # The difference is in the midst of the texts.
    assert "left" * 10 in shown
    assert "right" * 10 in shown
    assert "shared words left out" in shown
    assert len(shown) < 60_000
    done = command(path, "a", "c", "--table")
    for text in (left, other):
        assert f"{len(text) - 20_000:,} characters left out" in " ".join(done.out.split())
        assert f"shows at most 20,000 of the text's {len(text):,} characters" in done.err


def test_a_document_without_a_text_is_named(file: Path) -> None:
    with esdedup.open(file) as index:
        index.store.write([Document("no text", {"title": "only"})])
    done = command(file, "no text", "a", status=1)
    assert "document 'no text': the field 'text' is missing" in done.err

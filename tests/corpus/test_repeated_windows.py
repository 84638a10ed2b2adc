"""The repeated windows of a corpus, beside a dictionary of all windows."""

import itertools
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.cleaning.spans.partitions import Partitions
from esdedup.cleaning.spans.repeated import RepeatedSpans, Repetition, WindowSearch
from esdedup.cleaning.spans.windows import anchors_of, window_hashes
from esdedup.compare.resources import Resources
from esdedup.text.arrays import Mask, Ragged

Texts = list[list[int]]
_HASHES = np.random.default_rng(0).integers(0, 1 << 64, 40, np.uint64)


def expected(texts: Texts, repetition: Repetition, dropped: Mask) -> dict[int, int]:
    """Return the first occurrence of each window that came before, by a dictionary."""
    first_later = sum(map(len, texts[: repetition.earlier]))
    originals: dict[int, int] = {}
    for places in occurrences(texts, repetition.size):
        first = next((start for start, document in places if not dropped[document]), None)
        if len(places) <= repetition.most or first is None:
            continue
        if first < first_later or not repetition.only_between:
            least = max(first + 1, first_later)
            originals |= {start: first for start, _ in places if start >= least}
    return originals


def occurrences(texts: Texts, size: int) -> list[list[tuple[int, int]]]:
    """Return where each window is: the first words and the documents."""
    places: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    position = 0
    for document, text in enumerate(texts):
        for start in range(len(text) - size + 1):
            window = tuple(text[start : start + size])
            places.setdefault(window, []).append((position + start, document))
        position += len(text)
    return [*places.values()]


def expected_shared(
    texts: Texts, repetition: Repetition, dropped: Mask, undecided: Mask
) -> set[tuple[int, ...]]:
    """Return where each window is that several undecided documents have, by a dictionary."""
    shared = set[tuple[int, ...]]()
    for places in occurrences(texts, repetition.size):
        first = next((start for start, document in places if not dropped[document]), np.inf)
        found = tuple(start for start, document in places if undecided[document] and start < first)
        if len(places) > repetition.most and len(found) > 1:
            shared.add(found)
    return shared


def windows_of(spans: RepeatedSpans, size: int) -> dict[int, int]:
    """Return the first occurrence of each window of spans, none of which is in two."""
    originals: dict[int, int] = {}
    columns = spans.start.tolist(), spans.original.tolist(), spans.words.tolist()
    for start, original, words in zip(*columns, strict=True):
        windows = {start + n: original + n for n in range(words - size + 1)}
        assert not {*windows} & {*originals}
        originals |= windows
    return originals


@st.composite
def corpora(draw: st.DrawFn) -> Texts:
    """Texts of few words, of which parts repeat, also in themselves."""
    words = st.integers(0, draw(st.sampled_from([1, 2, 5, 39])))
    texts: Texts = []
    for _ in range(draw(st.integers(1, 6))):
        text = draw(st.lists(words, max_size=40))
        text += draw(st.lists(words, max_size=4)) * draw(st.integers(0, 12))
        for other in draw(st.lists(st.sampled_from(texts), max_size=3)) if texts else []:
            start = draw(st.integers(0, len(other)))
            text += other[start : start + draw(st.integers(0, 50))]
        texts.append(text)
    return texts


@given(corpora(), st.integers(1, 12), st.data())
def test_all_repeated_windows_are_found_and_no_others(
    tmp_path_factory: pytest.TempPathFactory, texts: Texts, size: int, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    words = Ragged.of_rows([_HASHES[text] for text in texts])
    repetition = Repetition(
        size,
        most=data.draw(st.sampled_from([1, 1, 2, 3])),
        earlier=data.draw(st.integers(0, len(texts))),
        only_between=data.draw(st.booleans()),
        # Hashes of two bits are those of different windows most of the time.
        hash_mask=data.draw(st.sampled_from([3, (1 << 64) - 1])),
        words_at_once=data.draw(st.sampled_from([1, 30, 1 << 20])),
    )
    resources = Resources(folder, memory=data.draw(st.sampled_from([2_000, 1 << 20])))
    none = np.zeros(len(texts), np.bool_)
    dropped = np.array(data.draw(st.lists(st.booleans(), min_size=len(texts))))[: len(texts)]
    with WindowSearch.of(words, repetition, resources) as search:
        spans = search.spans()
        assert windows_of(spans, size) == expected(texts, repetition, none)
        assert windows_of(search.spans(dropped), size) == expected(texts, repetition, dropped)
        if not repetition.only_between:
            # Of later documents, as none of the earlier ones is dropped.
            dropped[: repetition.earlier] = False
            undecided = dropped & (np.arange(len(texts)) % 3 > 0)
            shared = search.shared(dropped, undecided)
            starts = [shared.start[shared.number == n] for n in range(shared.stays.size)]
            assert {tuple(of_number.tolist()) for of_number in starts} == expected_shared(
                texts, repetition, dropped, undecided
            )
            assert shared.start.tolist() == sorted(shared.start.tolist())
        # Spans can't be extended, and are in order.
        assert spans.start.tolist() == sorted(spans.start.tolist())
        follows = np.diff(spans.start) == spans.words[:-1] - size + 1
        follows &= np.diff(spans.original) == spans.words[:-1] - size + 1
        assert size == 1 or not follows.any()
    first_occurrences = {*expected(texts, repetition, none).values()}
    assert first_occurrences == {*spans.frequent.starts.tolist()}
    counted = zip(spans.frequent.starts.tolist(), spans.frequent.counts.tolist(), strict=True)
    for start, count in counted:
        window = [*itertools.chain(*texts)][start : start + size]
        places = [n for text in texts for n in range(len(text)) if text[n : n + size] == window]
        assert len(places) == count


def test_other_windows_of_equal_hashes_in_earlier_documents_do_not_count(tmp_path: Path) -> None:
    words = Ragged.of_rows([_HASHES[[0, 0, 1, 0, 0, 1]], _HASHES[[0, 0, 1, 0]]])
    # All hashes are equal: there are four windows, of which two are.
    repetition = Repetition(4, most=2, earlier=1, hash_mask=0)
    with WindowSearch.of(words, repetition, Resources(tmp_path)) as search:
        assert not search.spans().start.size


def test_window_hashes_depend_on_all_words_and_on_nothing_else() -> None:
    words = _HASHES[[*range(12), *range(12)]]
    hashes = window_hashes(words, 5)
    assert hashes.size == 20
    assert np.array_equal(hashes[:8], hashes[12:])
    assert np.unique(hashes).size == 12
    assert window_hashes(words, 24).size == 1
    assert window_hashes(words, 25).size == 0


def test_a_large_corpus_is_searched_in_partitions(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    hashes = random.integers(0, 1 << 64, 200_000, np.uint64)
    hashes[150_000:150_400] = hashes[1_000:1_400]
    hashes[190_100:190_149] = hashes[7_000:7_049]
    hashes[199_950:] = hashes[9_990:10_040]
    words = Ragged(hashes, np.arange(0, 200_001, 1_000))
    found = list[list[list[int]]]()
    for memory in (1 << 30, 1 << 10):
        with WindowSearch.of(words, Repetition(50), Resources(tmp_path, memory=memory)) as search:
            spans = search.spans()
        rows = np.stack([spans.start, spans.original, spans.words], axis=1)
        found.append(rows.tolist())
    # The last 50 words are those of two documents.
    assert found == [[[150_000, 1_000, 400]]] * 2
    assert not [*tmp_path.iterdir()]


def test_anchors_fill_all_partitions_alike(tmp_path: Path) -> None:
    """Each is sorted in memory: their hashes are small ones, of which the first had 93%."""
    words = np.random.default_rng(1).integers(0, 1 << 64, 200_000, np.uint64)
    hashes = anchors_of(Ragged.of_rows([words]), 50).hashes
    with ExitStack() as opened:
        partitions = Partitions.of(
            hashes.size, Resources(tmp_path, memory=hashes.size * 16), opened
        )
        partitions.add_by_hash(hashes, np.arange(hashes.size))
        sizes = [keys.size for keys, _ in partitions.all()]
    assert len(sizes) == 7
    assert sum(sizes) == hashes.size
    assert max(sizes) < 1.2 * min(sizes)

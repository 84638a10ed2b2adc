import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.text.cuts import remainder_of, without_spans


def unmarked(marked: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a text, and its spans, which are in angle brackets."""
    text, spans = "", list[tuple[int, int]]()
    for piece in marked.split(">"):
        before, opening, span = piece.partition("<")
        text += before
        if opening:
            spans.append((len(text), len(text) + len(span)))
            text += span
    return text, spans


@pytest.mark.parametrize(
    ("marked", "rest", "sentences"),
    [
        ("Quiz night.\n\n<what is x>?\n\nSee you.", "Quiz night.\n\nSee you.", None),
        ("According <a b> evening. On", "According evening. On", "On"),
        ("They agreed that <a b>. The work", "They agreed that The work", "The work"),
        ("Menu 1.  <A B>? <C D> End", "Menu 1. End", "Menu 1."),
        ("End <a b>\n", "End\n", "\n"),
        ("<a b>. Then", "Then", None),
        ("She said “<a b>?” and left. Then", "She said and left. Then", None),
        ("今天<是否>？欢迎。再见。", "今天欢迎。再见。", "欢迎。再见。"),
        ("One. T<wo is. Thr>ee is. Four.", "One. Tee is. Four.", "One. Four."),
        ("She <left (by the [old] door>). Then", "She Then", "Then"),
        ("call(\n<left>);", "call(\n);", None),
        ("Read it. <See the *Guide>*.\n", "Read it.\n", None),
        ("She “<said [a>](b)”.", "She “(b)”.", None),
        ("<a b>", "", None),
        ("nothing  of it ?", "nothing  of it ?", None),
    ],
)
def test_spans_go_with_their_punctuation_and_a_blank(
    marked: str, rest: str, sentences: str | None
) -> None:
    text, spans = unmarked(marked)
    assert without_spans(text, spans) == rest
    if sentences is not None:
        assert without_spans(text, spans, whole_sentences=True) == sentences


@given(
    st.text("ab .?\n(“”)", max_size=30),
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 30)),
    ),
)
def test_what_is_outside_of_spans_stays(text: str, bounds: list[tuple[int, int]]) -> None:
    length = len(text)
    pairs = [(min(pair), max(pair)) for pair in bounds]
    spans = sorted((start, min(end, length)) for start, end in pairs if start < end <= length)
    rest = without_spans(text, spans)
    cut = {position for start, end in spans for position in range(start, end)}
    letters = [letter for position, letter in enumerate(text) if position not in cut]
    assert [c for c in rest if c in "ab"] == [c for c in letters if c in "ab"]
    by_sentence = without_spans(text, spans, whole_sentences=True)
    assert len(by_sentence) <= len(text)
    if not spans:
        assert rest == by_sentence == text


@given(
    st.text("ab .?\n(“”)", max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))),
    st.booleans(),
)
def test_what_is_left_is_found_in_the_original(
    text: str, bounds: list[tuple[int, int]], whole_sentences: bool
) -> None:
    pairs = [(min(pair), min(max(pair), len(text))) for pair in bounds]
    spans = sorted((start, end) for start, end in pairs if start < end)
    remainder = remainder_of(text, spans, whole_sentences=whole_sentences)
    rest = remainder.text
    intervals = [remainder.original_interval(at, at + 1) for at in range(len(rest))]
    assert "".join(text[start:end] for start, end in intervals) == rest
    assert intervals == sorted({*intervals})
    assert not any(
        start < end_of_cut and cut < end for start, end in intervals for cut, end_of_cut in spans
    )
    for start, end in ((0, len(rest)), (1, len(rest) - 1)):
        if start < end:
            expected = intervals[start][0], intervals[end - 1][1]
            assert remainder.original_interval(start, end) == expected

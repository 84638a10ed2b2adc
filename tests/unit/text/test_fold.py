"""Folds of spellings: what becomes equal with each, what stays different, and where words are."""

import itertools
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup import Normalisation, Scheme, Server, UsageError
from esdedup.text.fold import FOLDS
from esdedup.text.highlight import mark_shared, placed
from esdedup.text.normalise import normalise
from esdedup.text.shingles import Shingling
from esdedup.text.words import tokenise
from tests.unit.text.test_normalise import CHARACTERS

SPELLINGS = [
    ("marks", "Un café où l'élève mange à Noël", "Un cafe ou l'eleve mange a Noel"),
    ("marks", "ξέρει ότι ήρθε", "ξερει οτι ηρθε"),
    ("marks", "Ещё одна ёлка за́мок", "Еще одна елка замок"),
    ("marks", "العَرَبِيَّة لُغَةٌ", "العربية لغة"),
    ("marks", "שָׁלוֹם עֲלֵיכֶם", "שלום עליכם"),
    ("marks", "हिन्दी माँ बाज़ार सम्बन्ध", "हिंदी मां बाजार संबंध"),
    ("arabic", "أحمد إلى آخر ٱلكتاب", "احمد الى اخر الكتاب"),
    ("arabic", "یک کتاب ۱۲۳ مـــن ٤٥", "يك كتاب 123 من 45"),
    ("turkish", "İSTANBUL'da ISPARTA ılık", "istanbul'da ısparta ilik"),
    ("hyphens", "an inter-\nnational trea\u00ad\n  ty by the", "an international treaty by the"),
    ("hyphens", "die neue Verfas\u2010\r\nsung gilt", "die neue Verfassung gilt"),
    ("entities", "AT&amp;T &lt;b&gt; caf&eacute; &#8364;5 &#x20AC;6", "AT&T <b> café €5 €6"),
    ("entities", "one&nbsp;two&shy;three x", "one two\u00adthree x"),
    ("entities", "a &amp;amp;lt; b ＆ｌｔ； c &amp;amp;amp; d", "a < b < c & d"),
]  # fmt: skip
UNLIKE = [
    ("marks", "мой йод", "мои иод"),
    ("marks", "か が", "か か"),
    ("marks", "किताब", "कताब"),
    ("marks", "अन्न", "अंन"),
    ("marks", "ไม่", "ไม"),
    ("marks", "أحمد", "احمد"),
    ("arabic", "كتابة", "كتابه"),
    ("turkish", "ğöşüç", "gosuc"),
    ("hyphens", "well-known 10-\n20 a -\nb", "wellknown 1020 ab"),
    ("hyphens", "one-\n\ntwo", "onetwo"),
    ("entities", "?a=1&copy=2&lt=3", "?a=1©=2<=3"),
    ("entities", "&nosuch; x", "x &nosuch;"),
]
FOLDED = st.lists(st.sampled_from(FOLDS), max_size=5, unique=True).map(tuple)
PARTS = st.one_of(
    st.sampled_from(["&amp;", "&amp;amp;", "&lt;", "&eacute;", "&#38;", "&#38;lt;", "ｌｔ；"]),
    st.sampled_from(["-\n", "-\r\n", "\u00ad\n ", "\u2010\n", "i\u0307", "и\u0306", "क़", "שָׁ"]),
    st.sampled_from("&＆;- \nabéİıIi\u0307\u0301\u0323ёйأاىیکـ٣\u064eन\u094dतद\u0902\u0901\u093c"),
    st.sampled_from("か\u3099\u1100\u1161字²1"),
)
TEXTS = st.lists(PARTS | CHARACTERS | st.just(" "), max_size=24).map("".join)


def folding(*names: Any) -> Normalisation:
    return Normalisation(fold=names)


@pytest.mark.parametrize(("name", "one", "other"), SPELLINGS)
def test_two_spellings_are_one_text_with_the_fold_and_only_with_it(
    name: str, one: str, other: str
) -> None:
    assert len({*normalise([one, other], folding(name))}) == 1
    others = [fold for fold in FOLDS if fold != name]
    assert len({*normalise([one, other], folding(*others))}) == 2
    scheme = Scheme(normalisation=folding(name))
    assert esdedup.similarity(one, other, scheme=scheme) == 1
    assert esdedup.similarity(f"x {one} y z", f"x {other} y z") < 1


@pytest.mark.parametrize(("name", "one", "other"), UNLIKE)
def test_other_texts_stay_different(name: str, one: str, other: str) -> None:
    assert len({*normalise([one, other], folding(name))}) == 2


def test_case_is_kept_if_it_is_not_folded() -> None:
    assert normalise(["I\u0307zmir"], folding("turkish")) == ["izmir"]
    kept = Normalisation(casefold=False, fold=("turkish", "marks"))
    assert normalise(["İzmir ISPARTA ılık ÉCOLE"], kept) == ["Izmir ISPARTA ilik ECOLE"]


@given(st.lists(TEXTS, max_size=4), FOLDED, st.booleans())
def test_folding_twice_changes_nothing(texts: list[str], names: Any, casefold: bool) -> None:
    normalisation = Normalisation(casefold=casefold, fold=names)
    once = normalise(texts, normalisation)
    assert normalise(once, normalisation) == once
    if not names:
        assert once == normalise(texts, Normalisation(casefold=casefold))


@given(TEXTS, FOLDED)
def test_words_are_placed_in_the_original_text(text: str, names: Any) -> None:
    normalisation = folding(*names)
    hashes, starts, ends = placed(text, normalisation, Shingling(), 1)
    assert hashes.tolist() == tokenise(normalise([text], normalisation), Shingling(), 1)[0].tolist()
    assert (starts < ends).all()
    assert ((starts >= 0) & (ends <= len(text))).all()
    assert (starts[1:] >= starts[:-1]).all()


def test_shared_words_are_marked_in_both_spellings() -> None:
    left = "So: caf&eacute; inter-\nnational İzmir. End"
    right = "Yes, cafe international izmir; fin"
    one, other = mark_shared((left, right), folding(*FOLDS), Shingling(), 1)
    marked = [[shown.text[a:b] for a, b in shown.shared] for shown in (one, other)]
    assert marked == [["caf&eacute; inter-\nnational İzmir"], ["cafe international izmir"]]


@pytest.mark.parametrize(
    "text",
    [
        "&amp;" * 100_000,
        "&amp" + ";amp" * 100_000,
        "&#38;" * 100_000,
        "&&#97;mp;" * 50_000,
        "-" * 300_000,
        "- \t" * 100_000,
        "a-\n" * 100_000,
        "i" + "\u0307" * 100_000,
    ],
    ids=range(8),
)
def test_crafted_texts_take_linear_time(text: str) -> None:
    began = time.process_time()
    (once,) = normalise([text], folding(*FOLDS))
    assert time.process_time() - began < 10  # In quadratic time, each takes minutes.
    assert normalise([once], folding(*FOLDS)) == [once]


def test_a_fold_is_a_parameter_of_the_scheme() -> None:
    scheme = Scheme(normalisation=folding("turkish", "marks"))
    document: dict[str, Any] = scheme.to_json()
    assert document["normalisation"]["fold"] == ["marks", "turkish"]
    assert Scheme.from_json(scheme.to_json()) == scheme
    orders = itertools.permutations(("marks", "turkish"))
    assert {Scheme(normalisation=folding(*names)).id for names in orders} == {scheme.id}
    assert Scheme().id != scheme.id
    plain: dict[str, Any] = Scheme().to_json()
    assert "fold" not in plain["normalisation"]
    wrong: list[tuple[Any, str]] = [
        (lambda: folding("accents"), "fold 'accents': use marks, arabic"),
        (lambda: Normalisation(fold="marks"), "fold: give a list"),  # type: ignore[arg-type]
        (lambda: Scheme(normalisation=folding("marks"), version=3), "needs a scheme of version 4"),
        (lambda: Scheme([Server()], folding("marks")), "fold can't be set"),
        (lambda: Scheme([Server()], shingling=Shingling(punctuation=True)), "punctuation can't"),
    ]
    for call, message in wrong:
        with pytest.raises(UsageError, match=message):
            call()

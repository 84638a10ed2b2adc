"""Normalisation: the same result on every Python, and settled after one go."""

import itertools
import random
import re
import time
import tracemalloc
import unicodedata
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.exceptions import UsageError
from esdedup.text.characters import pieces, unassigned
from esdedup.text.normalise import Form, Normalisation, normalise
from esdedup.text.shingles import Shingling
from esdedup.text.words import tokenise
from tests.helpers import reference

FORMS: list[Form] = ["NFKC", "NFC", "none"]
ALL = [Normalisation(form, casefold) for form in FORMS for casefold in (True, False)]
ALL += [Normalisation("NFKC", casefold, version=3) for casefold in (True, False)]
DEFAULT = Normalisation()

YOUNG = [chr(point) for point in np.flatnonzero(unassigned()).tolist()]
ASSIGNED = [chr(point) for point in np.flatnonzero(~unassigned()).tolist()]
# Where normalisation has something to do, or characters act on their neighbours.
LIVELY = [
    character
    for character in ASSIGNED
    if not "\uac00" <= character <= "\ud7a3"
    and (
        unicodedata.normalize("NFKD", character) != character
        or character.casefold() != character
        or unicodedata.combining(character)
    )
]
ACTED_ON = {*LIVELY, *(character for character in ASSIGNED if "\uac00" <= character <= "\ud7a3")}
"""Every other character is the same in each form, and casefolded."""
CHARACTERS = st.one_of(
    st.sampled_from(LIVELY),
    st.sampled_from(
        "aZ ßİıΣς\u0130\u0345\u0301\u0307\u0323\u1100\u1161\u11a8각ﬁＡ！\u3000ｶﾞ中\ud800"
    ),
    st.sampled_from(YOUNG),
    st.integers(0, 0x10FFFF).map(chr),
)
TEXTS = st.lists(st.lists(CHARACTERS, max_size=12).map("".join), max_size=6)
CHOICES = st.sampled_from(ALL)
MANY_CHARACTERS = "é" * 5_000
"""More than a call replaces one by one, in one text that is not cut into pieces."""


def by_hand(text: str, chosen: Normalisation) -> str:
    """What Unicode says of each stretch between characters younger than Unicode 14.0."""

    def folded(part: str) -> str:
        if chosen.form != "none":
            part = unicodedata.normalize(chosen.form, part)
        if chosen.casefold:
            part = part.casefold()
        return part if chosen.form == "none" else unicodedata.normalize(chosen.form, part)

    made = []
    for young, group in itertools.groupby(text, lambda c: bool(unassigned()[ord(c)])):
        part = "".join(group)
        if young:
            made.append(part)
        elif chosen.keeps_scripts:
            runs = itertools.groupby(reference.expanded(part), reference.is_script)
            joined = [(kept, "".join(run)) for kept, run in runs]
            made += [run if kept else folded(run) for kept, run in joined]
        else:
            made.append(folded(part))
    return "".join(made)


@pytest.mark.parametrize("chosen", ALL, ids=str)
def test_every_character_of_unicode_14_by_itself(chosen: Normalisation) -> None:
    once = normalise(ASSIGNED, chosen)
    assert once == [by_hand(one, chosen) if one in ACTED_ON else one for one in ASSIGNED]
    assert normalise(once, chosen) == once


@given(TEXTS, CHOICES)
def test_any_texts_alone_together_and_twice(texts: list[str], chosen: Normalisation) -> None:
    # Beside many characters, all are replaced by a table; alone, one by one.
    once = normalise([*texts, MANY_CHARACTERS], chosen)[:-1]
    assert once == [by_hand(text, chosen) for text in texts]
    assert once == [normalise([text], chosen)[0] for text in texts]
    assert normalise(once, chosen) == once


@pytest.mark.parametrize("chosen", ALL, ids=str)
def test_every_character_beside_others(chosen: Normalisation) -> None:
    """Texts without marks, whose characters are replaced all at once, and texts with one mark."""
    shown = [character for character in ASSIGNED if not "\u4e00" <= character <= "\ud7a3"]
    characters = [character for character in shown if character < "\U00020000"]
    marks = [character for character in characters if unicodedata.category(character)[0] == "M"]
    others = sorted(set(characters).difference(marks, map(chr, range(0x1100, 0x1200))))
    random.Random(3).shuffle(others)
    texts = ["".join(others[at : at + 9]) for at in range(0, len(others), 9)]
    texts += [f"E{mark}가" for mark in marks]
    assert normalise(texts, chosen) == [by_hand(text, chosen) for text in texts]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("10⁶ km", "106 km"),
        ("1½ cups", "11/2 cups"),
        ("1½ cups", "11⁄2 cups"),
        ("H₂O", "H2O"),
        ("x²", "x2"),
        ("Nº 5", "No 5"),
        ("a™", "aTM"),
    ],
)
def test_superscripts_subscripts_and_fractions_keep_their_form(one: str, other: str) -> None:
    for texts in ([one], [f"{one} é"], [f"{one} {YOUNG[0]}"], [one, "字" * 5_000]):
        assert normalise([texts[0].replace(one, other), *texts[1:]], DEFAULT) != normalise(
            texts, DEFAULT
        )
        assert normalise(texts, DEFAULT)[0].startswith(one.casefold())
    assert normalise(["㎡ ㎨"], DEFAULT) == ["m² m∕s²"]
    assert normalise([one], Normalisation(version=3)) == [reference.normalise(one, 3)]


def test_another_form_is_refused() -> None:
    for form in ("NFD", "nfkc", ""):
        with pytest.raises(UsageError, match="use NFC, NFKC or none"):
            Normalisation(form)  # type: ignore[arg-type]


UNITS = ["\u0301\u0316", "\u0f73", "\u0301\uff9e", "\u0344\u0316", "\u0345\u0301", "\u0f75\u0f71"]


@pytest.mark.parametrize("chosen", ALL, ids=str)
def test_long_runs_of_marks_are_ordered(chosen: Normalisation) -> None:
    nfkd = ((each, unicodedata.normalize("NFKD", each)) for each in ASSIGNED)
    marks = [each for each, parts in nfkd if unicodedata.combining(parts[0])]
    rng = random.Random(9)
    runs = ["".join(rng.choices(marks, k=rng.randint(25, 80))) for _ in range(600)]
    texts = [f"{rng.choice('é가か')}{run}e{run}{YOUNG[0]}" for run in runs]
    texts += ["\u0301\u0323" * 16 + YOUNG[at] + "\u0323\u0301" for at in range(0, len(YOUNG), 99)]
    assert normalise(texts, chosen) == [by_hand(text, chosen) for text in texts]


@pytest.mark.parametrize("chosen", ALL, ids=str)
def test_a_long_run_of_marks_takes_linear_time(chosen: Normalisation) -> None:
    texts = [f"a{unit * 50_000}" for unit in UNITS]
    began = time.process_time()
    normalise(texts, chosen)
    assert time.process_time() - began < 10  # In quadratic time, each text takes about as long.


@given(st.text(" \n\u0301\u0316éE-1=\ufdfa中かが\u3099+", max_size=60))
def test_a_long_text_is_handled_in_pieces(text: str) -> None:
    whole = normalise([text], DEFAULT)
    tokens = tokenise(whole, Shingling(), 1).hashes.tolist()
    with mock.patch.multiple("esdedup.text.characters", PIECE=3):
        assert len(pieces(text)) > 1 or not re.search("[ \n]", text[3:])
        with (
            mock.patch("esdedup.text.normalise.PIECE", 3),
            mock.patch("esdedup.text.words.PIECE", 3),
        ):
            assert normalise([text], DEFAULT) == whole
            assert tokenise(whole, Shingling(), 1).hashes.tolist() == tokens


@pytest.mark.parametrize("unit", ["\ufdfa ", "\ufdfa"])
def test_a_text_that_grows_takes_bounded_memory(unit: str) -> None:
    texts = [unit * 500_000]
    tracemalloc.start()
    tokenise(normalise(texts, DEFAULT), Shingling(), 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 9.5 million characters; as one piece they took 350 MB.
    assert peak < 150e6

"""Warnings, as sentences, that a search or a comparison may have missed documents."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from esdedup.models import Result, Statistics
from esdedup.search.buckets import Capped
from esdedup.search.similar import levels_of
from esdedup.sketch.banding import bands_needed
from esdedup.sketch.kinds.bands import MOST_PERMUTATIONS
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import SHORTEST_PASSAGE, Scheme
from esdedup.text.arrays import I64
from esdedup.text.characters import count
from esdedup.text.normalise import normalise
from esdedup.text.words import tokenise

BLANK_QUERY = "The fingerprint is blank, as that of a plain image: similar to none"

_SHORT_TEXT = 50
"""Words, or characters, of a text below which a part of a document may have been meant."""
GOOD_RECALL = 0.95
"""Least expected recall without a warning."""


def missing_matches(
    result: Result, limits: Limits, scheme: Scheme, *, of_many: bool = False
) -> Iterator[str]:
    """Yield warnings of missing matches. of_many: without numbers that differ between texts."""
    if result.unattached.warning is not None:
        yield result.unattached.warning
    if result.truncated:
        yield (
            f"More than {limits.candidates} candidates: the best {limits.candidates} were verified,"
            " and a match may be missing. Raise `candidates`, and index.max_result_window if it is"
            " lower"
        )
    if (result.asked or result.stopped) and (warning := _lacking(result, limits, scheme)):
        differs = of_many and (limits.threshold is None or result.stopped)
        yield "Fewer than `k` matches, or missing ones: see expected_recall" if differs else warning
    chosen = scheme.chosen(limits)
    tokens, lost = chosen.measure.tokens, chosen.measure.stopped
    if (limits.words or chosen.passage) < chosen.passage:
        yield f"A passage of fewer than {chosen.passage} words may be missing"
    if result.blind:
        yield f"Nothing could be looked for: all {tokens} of the text are in the stop list"
    elif result.stopped:
        skipped = f"Some {tokens} of the text were skipped, as they are in the stop list"
        yield f"{skipped}: matches {lost} missing"


def too_short(
    text: str, scheme: Scheme, chosen: Sketch | None, sample: Callable[[], Sequence[str]]
) -> str | None:
    """Return a warning if a text without matches is short, else None.

    chosen: the sketch that was searched by; None if the text is a whole document.
    sample: returns texts of the index, with which a text of `_SHORT_TEXT` or more is compared.
    """
    words = int(_words_of([text], scheme)[0])
    unit = "character" if scheme.shingling.unit == "char" else "word"
    units = count(words, unit)
    if words >= (size := scheme.shingling.size):
        if chosen is None or chosen.passage:
            return None
        compared = ", and whole texts are compared"
        if words >= _SHORT_TEXT:
            lengths = _words_of(sample(), scheme)
            median = int(np.median(lengths)) if lengths.size else 0
            # A text that a document contains is as similar as its share of the document, at most.
            if words >= median / 2:
                return None
            compared = (
                f", and half of the documents have {median:,} or more. Whole texts are compared"
            )
        way = _way_to_parts(words, unit, scheme)
        return (
            f"The text has {units}{compared}: a longer document that contains it is not similar."
            f" {way}"
        )
    if not words:
        return "The text has no words: only documents of the same text are found"
    return (
        f"The text has {units}, fewer than the {size} of a shingle: only texts of just these are"
        " similar"
    )


def _words_of(texts: Sequence[str], scheme: Scheme) -> I64:
    """Return the number of words of each text, or of characters, shape (n,)."""
    normalised = normalise(texts, scheme.normalisation)
    return tokenise(normalised, scheme.shingling, scheme.seed).counts


def _way_to_parts(words: int, unit: str, scheme: Scheme) -> str:
    """Return how to find the documents that contain a text. unit: of its words."""
    passages = next((sketch for sketch in scheme.sketches if sketch.passage), None)
    shortest = SHORTEST_PASSAGE if passages is None else passages.passage
    if words < shortest:
        return "A full-text search finds such documents"
    in_a_row = f"documents that share {shortest} {unit}s in a row"
    if passages is None:
        return f"An index with `passages` finds {in_a_row}"
    return f"`sketch` {passages.name} finds {in_a_row}"


def _lacking(result: Result, limits: Limits, scheme: Scheme) -> str | None:
    """Return a warning if the expected recall is low, else None."""
    if limits.threshold is not None:
        # More candidates help a truncated answer, not another scheme.
        if result.recall is None or result.blind or result.truncated:
            return None
        return lacking_recall(result.recall, limits)
    matches = len(result.matches)
    if result.blind and not matches:
        return None
    chosen = scheme.chosen(limits)
    has_levels = len(levels_of(scheme, chosen)) > 1
    advice = "" if has_levels else f": an index of {chosen.nearest} finds more"
    if matches < limits.k and not result.truncated:
        token = "a token that was looked up" if result.stopped else "a token"
        return (
            f"Only {matches} of {limits.k} were found, as no other document shares {token}{advice}"
        )
    if result.recall is None or result.recall >= GOOD_RECALL:
        return None
    warning = f"Of documents as near as the last about {percent(result.recall)} are found"
    return warning + (advice or ": raise `candidates`")


def lacking_recall(expected: float | None, limits: Limits) -> str | None:
    """Return a warning if the recall is below the requested one, or `GOOD_RECALL`, else None.

    expected: None if it is unknown, because buckets are stopped or truncated.
    """
    if expected is None:
        return (
            "How many similar pairs are missing is unknown: pairs that share only stopped or"
            " truncated buckets were not compared"
        )
    least = GOOD_RECALL if limits.recall is None else limits.recall
    if limits.threshold is None or expected >= least:
        return None
    threshold = f"{limits.threshold:g}"
    warning = f"Of documents at Jaccard {threshold} about {percent(expected)} are found"
    if limits.recall is not None:
        warning += f", less than `recall` {percent(least)}"
    if (bands_needed(limits.threshold, least, 1) or math.inf) > MOST_PERMUTATIONS:
        return f"{warning}. No scheme reaches {percent(least)}"
    settings = f"`threshold` {threshold} and `recall` {least:g}"
    advice = f"An index with the scheme that `esdedup scheme` prints for {settings} finds more"
    return f"{warning}. {advice}"


def not_compared(statistics: Statistics, stopped: int) -> Iterator[str]:
    """Yield warnings of documents without tokens, and of the number of tokens in the stop list."""
    if statistics.unattached.warning is not None:
        yield statistics.unattached.warning
    if skipped := statistics.documents - statistics.sketched:
        yield (
            f"{skipped:,} of {statistics.documents:,} documents have no tokens of this index's"
            " scheme and are left out"
        )
    if stopped:
        yield (
            f"{count(stopped, 'token is', 'tokens are')} in the stop list of the index: documents"
            " that share only these are not compared, unless their texts are equal"
        )


def missing_pairs(recall: float | None, capped: Capped, limits: Limits) -> Iterator[str]:
    """Yield warnings of similar pairs that may be missing."""
    if warning := lacking_recall(recall, limits):
        yield warning
    if capped.buckets:
        cap = f"{limits.max_per_bucket:,}"
        yield (
            f"{capped.buckets:,} buckets hold more than {cap} documents, up to"
            f" {capped.largest:,}: each was compared with the first {cap} of them, and a pair may"
            " be missing. Raise `max_per_bucket`"
        )


def warning_of_blank(blank: int) -> str | None:
    """Return a sentence about blank fingerprints, or None if there are none."""
    if not blank:
        return None
    documents = count(blank, "document has", "documents have")
    return (
        f"{documents} a blank fingerprint, as plain images have: similar to none (`with_blank`"
        " compares them)"
    )


def percent(fraction: float) -> str:
    """Return a fraction in percent, not rounded to all or nothing."""
    if fraction <= 0.0:
        return "none"
    # As many digits as there are nines.
    digits = 3 if fraction >= 1.0 else max(3, math.ceil(-math.log10(1.0 - fraction)))
    return f"{100 * fraction:.{digits}g}%"

"""esdedup explain: why two documents are similar, or not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from esdedup.analysis.explain import (
    Block,
    ExplainedBands,
    ExplainedDocument,
    ExplainedSegments,
    Explanation,
    Meeting,
)
from esdedup.analysis.html import render
from esdedup.cli.options import AsJson, Target, with_target
from esdedup.cli.output import (
    WIDTH_WITHOUT_TERMINAL,
    only_plain,
    print_json,
    print_table,
    visible,
    wants_json,
    write_page,
)
from esdedup.text.highlight import MarkedText

_CONTEXT = 12
"""Words kept at either end of a long run of shared ones."""

_SHARED = "black on green"
_DIFFERS = "bold red"
_BITS_A_LINE = 64

Left = Annotated[str, typer.Argument(metavar="ID1", help="The id of a document.")]
Right = Annotated[str, typer.Argument(metavar="ID2", help="The id of another.")]
Html = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Write it to an HTML file too, with the whole texts; it loads nothing.",
    ),
]


@with_target
def explain(
    target: Target, left: Left, right: Right, html: Html = None, as_json: AsJson = None
) -> None:
    """Show why two documents are similar, or not: what they share, and which tokens met."""
    with target.open() as index:
        pair = index.explain(left, right)
        where, text_field = index.store.where, index.meta.text_field
    if html is not None:
        page = render(
            "explain",
            pair=pair,
            where=where,
            text_field=text_field,
            units=_units(pair),
            chance=_percent(pair.minhash.chance) if pair.minhash is not None else None,
            warnings=_warnings(pair),
        )
        write_page("--html", html, page)
    if wants_json(as_json):
        print_json(_document(pair))
    else:
        _show(pair)


def _units(pair: Explanation) -> str:
    return "characters" if pair.unit == "char" else "words"


def _warnings(pair: Explanation) -> list[str]:
    """What a reader must know before believing the rest."""
    return [warning for side in (pair.left, pair.right) for warning in _side_warnings(pair, side)]


def _side_warnings(pair: Explanation, side: ExplainedDocument) -> list[str]:
    stored = {
        "stale": "its stored tokens are of another text: it was changed since",
        "other scheme": "its stored tokens are of another scheme than the index's",
        "none": "it has no stored tokens",
    }.get(side.stored)
    found = []
    if stored is not None:
        found.append(f"{side.id}: {stored}. What is shown is of its text as it is now")
    if not side.shingles:
        found.append(f"{side.id}: the text has no {_units(pair)}, so it has no tokens")
    if not side.text.original:
        found.append(f"{side.id}: the text is shown normalised: its {_units(pair)} can't be"
                     " found in the original")  # fmt: skip
    return found


def _document(pair: Explanation) -> dict[str, Any]:
    return {
        "left": _side(pair.left),
        "right": _side(pair.right),
        "scheme": pair.scheme,
        "similarity": pair.similarity,
        "shared_shingles": pair.shared,
        "union_shingles": pair.union,
        "duplicates": pair.duplicates,
        "minhash": None if pair.minhash is None else _bands(pair.minhash),
        "simhash": None if pair.simhash is None else _segments(pair.simhash),
    }


def _side(side: ExplainedDocument) -> dict[str, Any]:
    return {
        "id": side.id,
        "words": len(side.text.words),
        "shingles": side.shingles,
        "digest": side.digest,
        "stored_tokens": side.stored,
        "shown": "original" if side.text.original else "normalised",
        "shared": [list(span) for span in side.text.shared],
    }


def _bands(bands: ExplainedBands) -> dict[str, Any]:
    return {
        "permutations": bands.permutations,
        "estimate": bands.estimate,
        "standard_error": bands.standard_error,
        "bands": bands.bands,
        "rows": bands.rows,
        "chance": bands.chance,
        "met": [{"position": each.position, "token": each.token} for each in bands.met],
    }


def _segments(segments: ExplainedSegments) -> dict[str, Any]:
    return {
        "bits": segments.bits,
        "distance": segments.distance,
        "left": segments.left,
        "right": segments.right,
        "differing": segments.differing,
        "segments": segments.segments,
        "guarantee": segments.guarantee,
        "met": [
            {"position": each.position, "token": each.token, "blocks": list(each.blocks)}
            for each in segments.met
        ],
    }


def _show(pair: Explanation) -> None:
    sides = pair.left, pair.right
    print_table(
        [("", "text"), ("", "text"), ("", "text")],
        [
            ("document", *(side.id for side in sides)),
            (_units(pair), *(f"{len(side.text.words):,}" for side in sides)),
            ("distinct shingles", *(f"{side.shingles:,}" for side in sides)),
            ("digest", *(side.digest for side in sides)),
            ("stored tokens", *(side.stored for side in sides)),
        ],
    )
    print_table([("", "text"), ("", "text")], _facts(pair))
    console = Console(
        width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL, highlight=False
    )
    if pair.simhash is not None:
        _show_bits(console, pair.simhash)
    marks = _marks(console)
    console.print(
        Text.assemble("Shared ", _units(pair), " are shown ", *_shared("like this", marks), ":")
    )
    for side in sides:
        console.print()
        console.print(Text(visible(side.id), style="bold"))
        console.print(_marked(side.text, marks, _units(pair)))
    for warning in _warnings(pair):
        console.print(Text(f"\n{visible(warning)}", style="yellow"))


def _facts(pair: Explanation) -> list[tuple[str, str]]:
    shingles = f"{pair.shared:,} shingles {pair.unit}:{pair.size} of both among {pair.union:,}"
    rows = [
        ("Jaccard similarity", f"{pair.similarity:.3f} ({shingles} of either)"),
        ("exact duplicates", "yes, once normalised" if pair.duplicates else "no"),
    ]
    if pair.minhash is not None:
        bands = pair.minhash
        rows += [
            (
                "MinHash estimate",
                f"{bands.estimate:.3f} (standard error {bands.standard_error:.3f},"
                f" {bands.permutations} permutations)",
            ),
            ("bands met", _meetings(bands.met, bands.bands)),
            ("chance to meet", f"{_percent(bands.chance)} of pairs this similar meet in a band"),
        ]
    if pair.simhash is not None:
        segments = pair.simhash
        rows += [
            (
                "Hamming distance",
                f"{segments.distance} of {segments.bits} bits; up to {segments.guarantee}, a"
                " segment surely meets",
            ),
            ("segments met", _meetings(segments.met, segments.segments)),
        ]
    return rows


def _percent(chance: float) -> str:
    # What is not certain is not said to be.
    return ">99.9%" if 0.9995 <= chance < 1.0 else f"{100 * chance:.1f}%"


def _meetings(meetings: tuple[Meeting, ...], of: int) -> str:
    named = ", ".join(f"{each.position}:{each.token}{_blocks(each)}" for each in meetings)
    return f"{len(meetings)} of {of}" + (f": {named}" if named else "")


def _blocks(meeting: Meeting) -> str:
    """Of which blocks a segment is, where that is not plain from its position."""
    several = len(meeting.blocks) > 1
    return f" (blocks {'+'.join(map(str, meeting.blocks))})" if several else ""


def _show_bits(console: Console, segments: ExplainedSegments) -> None:
    """Both fingerprints, with the differing bits pointed at: readable without colours too."""
    line: list[Block] = []
    for block in segments.blocks:
        line.append(block)
        # No block spans two words of 64 bits.
        if sum(len(each.left) for each in line) == _BITS_A_LINE:
            for text in _bit_lines(line):
                console.print(text, overflow="fold")
            line.clear()
    console.print()


def _bit_lines(blocks: list[Block]) -> tuple[Text, Text, Text]:
    lines = Text(), Text(), Text(style=_DIFFERS)
    for at, block in enumerate(blocks):
        for line in lines if at else ():
            line.append(" ")
        for left, right in zip(block.left, block.right, strict=True):
            style = _DIFFERS if left != right else ""
            lines[0].append(left, style)
            lines[1].append(right, style)
            lines[2].append("^" if left != right else " ")
    return lines


def _marks(console: Console) -> tuple[str, str]:
    """What stands around shared words where colours can't be shown."""
    if console.color_system is not None:
        return "", ""
    return ("[[", "]]") if only_plain() else ("⟦", "⟧")


def _shared(text: str, marks: tuple[str, str]) -> list[tuple[str, str]]:
    return [(f"{marks[0]}{text}{marks[1]}", _SHARED)]


def _marked(text: MarkedText, marks: tuple[str, str], units: str) -> Text:
    shown = Text()
    for piece in text.pieces(_CONTEXT):
        if piece.left_out:
            shown.append(f" … {piece.left_out:,} shared {units} left out … ", "dim italic")
        elif piece.shared:
            shown.append_tokens(_shared(visible(piece.text), marks))
        else:
            shown.append(visible(piece.text))
    return shown

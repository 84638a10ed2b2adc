"""esdedup explain: show why two documents are similar, or not."""

import sys

from rich.console import Console
from rich.text import Text

from esdedup import admin
from esdedup.cli import output
from esdedup.cli.command import argument, setting
from esdedup.cli.options import Target, as_json
from esdedup.cli.output import visible

_MOST = 20_000
"""Characters of each text on a terminal."""


def explain_command(
    target: Target,
    left: str = argument(..., "The id of a document.", metavar="ID1"),
    right: str = argument(..., "The id of another.", metavar="ID2"),
    sketch: str | None = setting(
        None, "Sketch whose fields to compare.", show_default="the scheme's first", metavar="NAME"
    ),
    as_json: bool = as_json(),
) -> None:
    """Show why two documents are similar, or not.

    Example: esdedup explain doc-1 doc-2

    Shows the shingles that both texts have, and the tokens in which they meet.
    """
    with target.open() as index:
        pair = index.explain(left, right, sketch=sketch)
    if as_json:
        output.print_json(pair.to_json())
    else:
        _show(pair)


def _show(pair: admin.Explanation) -> None:
    sides = pair.left, pair.right
    rows = [
        ("document", *(side.id for side in sides)),
        (pair.units, *(f"{side.words:,}" for side in sides)),
        ("distinct shingles", *(f"{side.shingles:,}" for side in sides)),
        ("digest", *(side.digest for side in sides)),
        ("stored tokens", *(side.stored_tokens for side in sides)),
    ]
    output.print_facts(rows)
    facts = [(name, f"{value} ({why})" if why else value) for name, value, why in pair.facts()]
    facts += [(f"{kind.name}: tokens", ", ".join(kind.met)) for kind in pair.sketches if kind.met]
    output.print_facts(facts)
    width = None if sys.stdout.isatty() else output.WIDTH_WITHOUT_TERMINAL
    console = Console(width=width, highlight=False)
    brackets = ("[[", "]]") if output.only_plain() else ("⟦", "⟧")
    coloured = console.color_system is not None and not console.no_color
    opened, closed = ("", "") if coloured else brackets

    def shared(text: str) -> tuple[str, str]:
        return f"{opened}{text}{closed}", "black on green"

    console.print(Text.assemble("Shared ", pair.units, " are shown ", shared("like this"), ":"))
    for side in sides:
        console.print()
        console.print(Text(visible(side.id), style="bold"))
        line = Text()
        for piece in side.text.pieces(pair.CONTEXT, _MOST):
            if piece.left_out:
                line.append(f" … {piece.left_out:,} shared {pair.units} left out … ", "dim italic")
            elif piece.remaining:
                line.append(f" … {piece.remaining:,} characters left out", "dim italic")
            elif piece.marked == "shared":
                line.append(*shared(visible(piece.text)))
            else:
                line.append(visible(piece.text))
        console.print(line)
        if (length := len(side.text.text)) > _MOST:
            output.message(
                f"{side.id}: this shows at most {_MOST:,} of the text's {length:,} characters"
            )
    for warning in pair.warnings:
        console.print(Text(f"\n{visible(warning)}", style="yellow"))

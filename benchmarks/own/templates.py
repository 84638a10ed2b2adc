"""Distinct documents of templates that are kept, and copies that are found.

    python -m benchmarks.own.templates [--distinct 200] [--large 1200] [--only WORDS]

Invoices, notices and the like in English and Chinese, made up: 20 families that the setting of
`--split-templates` was chosen with, five others that it never saw, and six that say a phrase with a
number three or four times, or have a clause with a number that two of five documents have. Each is
a fixed text with two to ten slots. Its documents differ in a slot at least, and a fifth of them has
a copy: exact, in capitals with other white space, with other punctuation, below a header, above a
footer, without a sentence, or with two to four misprints, in names too. Beside them are articles
that resemble nothing but their copies; two have forty copies each. The first family is the large
one.

Kept: of the distinct documents, those of which one stays, itself or a copy of it. Found: the copies
that go, as a share of all. False: the most distinct documents in one group.

--only: the ways of esdedup whose names have these words, such as "components, --split-templates".
The results go to --folder then.
"""

import argparse
import functools
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import esdedup
from benchmarks.lib import measuring
from benchmarks.lib.families import CHOOSING, HELD_OUT, ITEMS, Labelled, labelled
from benchmarks.lib.measuring import Figures

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
SPLIT = (0.5, 0.6, 0.7, 0.8)
HOT = 50
"""Documents of a bucket, at least, that goes to the stop list."""
SETS = {"chosen": (CHOOSING, 1), "held_out": (HELD_OUT, 2), "items": (ITEMS, 3)}
"""The families and the seed of each part of the results."""
HEADS = {
    "chosen": "families to choose with",
    "held_out": "families held out",
    "items": "families with items or clauses",
}

Way = tuple[str, str, Callable[[], list[int]]]
"""A program, its setting, and a function that gives the group of each row: a row that stays."""


def scored(texts: Labelled, group: list[int]) -> Figures:
    """kept and found: shares. false: the most distinct documents in one group."""
    members: dict[int, set[int]] = defaultdict(set)
    for source, kept in zip(texts.source, group, strict=True):
        members[kept].add(source)
    distinct = set(texts.source)
    stay = {texts.source[row] for row in members}
    copies = len(texts.source) - len(distinct)
    return {
        "kept": round(len(stay) / len(distinct), 4),
        "found": round(1 - (len(members) - len(stay)) / copies, 4),
        "false": max(map(len, members.values())),
    }


def grouped(index: esdedup.Index, **options: Any) -> list[int]:
    """The row of the representative of each row, whose number is its id."""
    groups = index.groups(**options)
    ids = np.array([int(id) for id in groups.ids])
    found = np.empty(ids.size, np.int64)
    found[ids] = ids[groups.representative]
    listed: list[int] = found.tolist()
    return listed


def indexed(texts: Labelled, scheme: esdedup.Scheme, folder: Path) -> esdedup.Index:
    index = esdedup.open(folder / f"{scheme.id}.db", scheme=scheme)
    index.add({"id": str(row), "text": text} for row, text in enumerate(texts.texts))
    return index


def by_esdedup(texts: Labelled, folder: Path) -> Iterator[Way]:
    """Thresholds and methods with the default scheme, then other schemes, then stop lists."""
    usual = esdedup.Scheme()
    index = indexed(texts, usual, folder)
    asked = functools.partial(functools.partial, grouped, index)
    for method in ("components", "leader"):
        for least in THRESHOLDS:
            yield f"esdedup, {method}", f"{least}", asked(method=method, threshold=least)
        for least in SPLIT:
            split = asked(method=method, threshold=least, split_templates=True)
            yield f"esdedup, {method}, --split-templates", f"{least}", split
    yield "esdedup, --exact", "", asked(exact=True)
    few = asked(method="components", threshold=0.8, max_per_bucket=100)
    yield "esdedup, components, --max-per-bucket 100", "0.8", few
    hot = [each.token for each in index.hot_buckets(1_000, over=HOT).buckets]
    index.stop_list.replace(hot)
    for least in (0.8, 0.95):
        stopped = asked(method="components", threshold=least)
        yield f"esdedup, components, buckets over {HOT} stopped", f"{least}", stopped
    index.close()
    for unit, size in (("word", 1), ("word", 5), ("char", 5)):
        scheme = esdedup.Scheme([esdedup.MinHash()], shingling=esdedup.Shingling(unit, size))  # type: ignore[arg-type]
        index = indexed(texts, scheme, folder)
        for least in (0.8, 0.9, 0.95):
            chosen = functools.partial(grouped, index, method="components", threshold=least)
            yield f"esdedup, components, shingles {unit}:{size}", f"{least}", chosen
        index.close()
    index = indexed(texts, esdedup.Scheme([esdedup.SimHash()]), folder)
    for most in (0, 1, 3, 7):
        near = functools.partial(
            grouped, index, method="components", sketch="simhash", distance=most
        )
        yield "esdedup, components, SimHash", f"{most} bits", near
    index.close()


def measure(families: Mapping[str, str], seed: int, options: argparse.Namespace) -> Figures:
    texts = labelled(dict(families), options.distinct, options.large, seed)
    distinct = len(set(texts.source))
    result: Figures = {
        "families": [*families],
        "documents": len(texts.texts),
        "distinct": distinct,
        "copies": len(texts.texts) - distinct,
        "ways": [],
    }
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
        for way, setting, group in by_esdedup(texts, Path(made)):
            if options.only not in way:
                continue
            began = time.perf_counter()
            row = {"way": way, "setting": setting, **scored(texts, group())}
            result["ways"].append(row | {"seconds": round(time.perf_counter() - began, 1)})
            print(json.dumps(result["ways"][-1]), flush=True)
    return result


def tables(document: dict[str, Any]) -> str:
    """The results as Markdown: a row for each way and setting."""
    results = document["results"]
    heads = [
        f"{HEADS[name]}: {part['distinct']:,} distinct, {part['copies']:,} copies"
        for name, part in results.items()
    ]
    lines = [
        f"| | | {' | | | '.join(heads)} | | |",
        f"|---|---|{'---:|---:|---:|' * len(heads)}",
        f"| | threshold |{' kept | found | false |' * len(heads)}",
    ]
    for rows in zip(*(part["ways"] for part in results.values()), strict=True):
        cells = [
            f"{100 * row['kept']:.1f}% | {100 * row['found']:.1f}% | {row['false']:,}"
            for row in rows
        ]
        way = rows[0]["way"]
        lines.append(f"| {way} | {rows[0]['setting']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--distinct", type=int, default=200, help="documents of a family")
    parser.add_argument("--large", type=int, default=1_200, help="documents of the first one")
    parser.add_argument("--folder", type=Path, help="where the results go")
    parser.add_argument("--only", default="", help="words in the names of the ways that are run")
    options = parser.parse_args()
    if options.only and options.folder is None:
        parser.error("--only requires --folder: part of the results can't replace all")
    results = {name: measure(*part, options) for name, part in SETS.items()}
    print(measuring.save("templates", results, folder=options.folder))


if __name__ == "__main__":
    main()

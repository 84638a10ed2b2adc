"""The results of quality.py as tables."""

from __future__ import annotations

from typing import Any


def tables(document: dict[str, Any]) -> str:
    """A table of each corpus."""
    return "\n\n".join(map(_of_corpus, document["results"]))


def _of_corpus(result: dict[str, Any]) -> str:
    known = result["truth"]
    title = f"`{result['corpus']}`, {result['documents']:,} texts"
    head = [
        [f"{title}: recall / precision / F1 in %", *(f"≥ {each['threshold']}" for each in known)],
        ["---", *("---:" for _ in known)],
        ["true pairs", *(f"{each['true_pairs']:,}" for each in known)],
        ["bands x rows of all but the default scheme", *(_shape(each) for each in known)],
        ["recall that the S-curve expects of these", *(_percent(each) for each in known)],
    ]
    methods = dict.fromkeys(row["method"] for row in result["minhash"])
    rows = {(row["method"], row["threshold"]): row for row in result["minhash"]}
    body = [
        [method, *(_scores(rows[method, each["threshold"]]) for each in known)]
        for method in methods
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in head + body)


def _shape(line: dict[str, Any]) -> str:
    return f"{line['bands']} x {line['rows']}"


def _percent(line: dict[str, Any]) -> str:
    value = line["expected_recall"]
    return "" if value is None else f"{100 * value:.1f}"


def _scores(row: dict[str, Any]) -> str:
    cell = " / ".join(f"{100 * row[name]:.1f}" for name in ("recall", "precision", "f1"))
    return f"{cell} (cut: {row['capped_buckets']})" if row.get("capped_buckets") else cell

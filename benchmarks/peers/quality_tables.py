"""The results of quality.py as tables."""

from __future__ import annotations

from typing import Any


def tables(document: dict[str, Any]) -> str:
    """A table of each corpus by Jaccard similarity, and one by Hamming distance."""
    parts = [_of_corpus(result) for result in document["results"]]
    return "\n\n".join([*parts, _by_distance(document["results"])])


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
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in head + body)
    return f"{table}{_checked(result)}"


def _shape(line: dict[str, Any]) -> str:
    return f"{line['bands']} x {line['rows']}"


def _percent(line: dict[str, Any]) -> str:
    value = line["expected_recall"]
    return "" if value is None else f"{100 * value:.1f}"


def _scores(row: dict[str, Any]) -> str:
    cell = " / ".join(f"{100 * row[name]:.1f}" for name in ("recall", "precision", "f1"))
    return f"{cell} (cut: {row['capped_buckets']})" if row.get("capped_buckets") else cell


def _checked(result: dict[str, Any]) -> str:
    if "check" not in result:
        return ""
    check = result["check"]
    return (
        f"\n\nSetSimilaritySearch finds {check['pairs_by_set_similarity_search']:,} pairs at"
        f" {check['threshold']} and above on these, the truth here has {check['pairs']:,}:"
        f" {'the same ones' if check['same'] else 'NOT the same ones'}."
    )


def _by_distance(results: list[dict[str, Any]]) -> str:
    lines = [
        "| By Hamming distance | texts | within | true pairs | recall of esdedup | seconds"
        " | recall of simhash | seconds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for result in results:
        rows = {(row["method"], row["distance"]): row for row in result["hamming"]}
        for distance in sorted({distance for _, distance in rows}):
            ours, theirs = rows["esdedup", distance], rows["simhash", distance]
            cells = [f"`{result['corpus']}`", f"{ours['documents']:,}", str(distance)]
            cells.append(f"{ours['true_pairs']:,}")
            for row in (ours, theirs):
                cells += [f"{row['recall']:.4f}", f"{row['seconds']:.2f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)

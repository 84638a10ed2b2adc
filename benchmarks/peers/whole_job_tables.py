"""The results of whole_job.py as tables."""

from typing import Any

NAMES = {
    "files": "esdedup, `pairs FILE`",
    "files-2": "esdedup, `pairs FILE --workers 2`",
    "local": "esdedup, local file",
    "local-2": "esdedup, local file, 2 workers",
    "elasticsearch": "esdedup, Elasticsearch (client)",
    "opensearch": "esdedup, OpenSearch (client)",
    "datasketch-unverified": "datasketch, nothing verified",
    "datasketch-equal": "datasketch, esdedup's bands and rows",
    "gaoya-equal": "gaoya, esdedup's bands and rows",
    "rensa-equal": "rensa, esdedup's bands and rows",
    "text-dedup-1": "text-dedup, 1 process, nothing verified",
    "text-dedup-2": "text-dedup, 2 processes, nothing verified",
}


def tables(document: dict[str, Any]) -> str:
    """A table of each corpus; times as long as esdedup takes from the file to pairs."""
    return "\n\n".join(_of_corpus(result) for result in document["results"])


def _of_corpus(result: dict[str, Any]) -> str:
    ours = next((row["seconds"] for row in result["jobs"] if row["job"] == "files"), None)
    title = (
        f"`{result['corpus']}`, {result['documents']:,} texts, {result['true_pairs']:,} true pairs"
    )
    head = ["seconds", "times as long", "CPU seconds", "peak MB", "pairs", "recall", "precision"]
    lines = [
        f"| {title} | {' | '.join(head)} |",
        f"| --- |{' ---: |' * len(head)}",
        *(_line(row, ours) for row in result["jobs"]),
    ]
    return "\n".join(lines)


def _line(row: dict[str, Any], ours: float | None) -> str:
    name = NAMES.get(row["job"], row["job"])
    if "index_seconds" in row:
        name += f": index {row['index_seconds']:.1f} s, pairs {row['pairs_seconds']:.1f} s"
    if "shape" in row:
        name += f" ({row['shape'].replace('x', ' x ')})"
    cells = [name, f"{row['seconds']:.1f}", f"{row['seconds'] / ours:.2f}" if ours else ""]
    cells += [f"{row['cpu_seconds']:.1f}", f"{row['peak_mb']:,.0f}", f"{row['pairs']:,}"]
    cells += [f"{row['recall']:.4f}", f"{row['precision']:.4f}"]
    return f"| {' | '.join(cells)} |"

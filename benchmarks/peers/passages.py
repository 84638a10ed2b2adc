"""Passages that texts share: esdedup beside the truth, and beside datasketch's LSH Ensemble.

    python -m benchmarks.peers.passages [--documents 20000] [--queries 400] [--only PART,...]
        [--cluster-documents 100000] [--url URL | --version V] [--folder OUT]

Made-up documents, English and Chinese, of some 60 to 400 words. A query is a new text of 60 words
in which a passage of a document, of 5 to 200 words, is put at a random place.

- Truth: every document that shares a run of at least 5 words with a query, and the longest such
  run, by a suffix automaton of the query (Blumer et al., "The smallest automaton recognizing the
  subwords of a text", 1985). Found: by the length of the longest run. Each longest passage that
  esdedup returns is compared with it.
- Containment: documents that hold at least 30% of a query's words in shared runs of 12 or more.
  LSH Ensemble compares sets of shingles of 3 words, with a threshold of 0.3; its answers are not
  verified. It accepts no further documents once it is built.
- Cluster: the same documents with and without tokens of passages, in one segment.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import esdedup
from benchmarks.lib import measuring
from benchmarks.lib.measuring import Figures
from benchmarks.lib.servers import add_options, drop, served
from benchmarks.lib.texts import chinese, english
from benchmarks.lib.value_indices import SETTINGS, call
from benchmarks.peers.bits import latency
from esdedup import Limits, Passages, Query, Scheme
from esdedup.text.normalise import normalise
from esdedup.text.words import tokenise

LENGTHS = ((5, 8), (9, 11), (12, 19), (20, 49), (50, 200))
GUARANTEE, CONTAINED, LEAST = 12, 0.3, 5
INDEX = "benchmark-passages"
SCHEME = Scheme([Passages()])
LANGUAGES = {"english": english, "chinese": chinese}


class Automaton:
    """Suffix automaton of a text of words, which finds its longest run in other texts."""

    def __init__(self, words: list[int]) -> None:
        self.next: list[dict[int, int]] = [{}]
        self.link, self.size, last = [-1], [0], 0
        for word in words:
            here = self._state({}, 0, self.size[last] + 1)
            at = last
            while at >= 0 and word not in self.next[at]:
                self.next[at][word] = here
                at = self.link[at]
            if at >= 0:
                to = self.next[at][word]
                if self.size[to] == self.size[at] + 1:
                    self.link[here] = to
                else:
                    copy = self._state(dict(self.next[to]), self.link[to], self.size[at] + 1)
                    while at >= 0 and self.next[at].get(word) == to:
                        self.next[at][word] = copy
                        at = self.link[at]
                    self.link[to] = self.link[here] = copy
            last = here

    def _state(self, following: dict[int, int], link: int, size: int) -> int:
        self.next.append(following)
        self.link.append(link)
        self.size.append(size)
        return len(self.next) - 1

    def runs(self, words: list[int]) -> list[int]:
        """Return the length of the longest run of the text that ends at each word."""
        at, length, found = 0, 0, []
        for word in words:
            while at and word not in self.next[at]:
                at = self.link[at]
                length = self.size[at]
            if word in self.next[at]:
                at, length = self.next[at][word], length + 1
            found.append(length)
        return found


def corpus(language: str, documents: int, queries: int) -> tuple[list[str], list[str]]:
    """Return documents, and queries that each hold a passage of one."""
    make, rng = LANGUAGES[language], np.random.default_rng(documents)
    # A Chinese character is a word.
    scale, gap = (5.6, " ") if language == "english" else (1.0, "")
    made: list[str] = []
    for at, size in enumerate((60, 120, 240, 400)):
        made += make(documents // 4, round(size * scale), seed=20 + at)
    asked = make(queries, round(60 * scale), seed=30)
    for row, text in enumerate(asked):
        low, high = LENGTHS[row % len(LENGTHS)]
        source = pieces(made[int(rng.integers(len(made)))], gap)
        size = min(int(rng.integers(low, high + 1)), len(source))
        first = int(rng.integers(len(source) - size + 1))
        own = pieces(text, gap)
        at = int(rng.integers(len(own)))
        asked[row] = gap.join([*own[:at], *source[first : first + size], *own[at:]])
    return made, asked


def pieces(text: str, gap: str) -> list[str]:
    return text.split(gap) if gap else list(text)


def words_of(texts: list[str]) -> list[list[int]]:
    hashed = tokenise(normalise(texts, SCHEME.normalisation), SCHEME.shingling, SCHEME.seed)
    return [row.tolist() for row in hashed]


def truth(documents: list[list[int]], asked: list[list[int]]) -> list[dict[int, tuple[int, float]]]:
    """Return for each query the documents that share LEAST words: longest run, share covered."""
    holders = defaultdict(list)
    for row, words in enumerate(documents):
        for run in {tuple(words[at : at + LEAST]) for at in range(len(words) - LEAST + 1)}:
            holders[run].append(row)
    found = []
    for words in asked:
        runs = {tuple(words[at : at + LEAST]) for at in range(len(words) - LEAST + 1)}
        rows = {row for run in runs for row in holders.get(run, ())}
        automaton, each = Automaton(words), {}
        for row in sorted(rows):
            # The run of a query that ends at each of its words, in the document.
            reverse = Automaton(documents[row]).runs(words)
            covered = np.zeros(len(words), np.bool_)
            for end, length in enumerate(reverse):
                if length >= GUARANTEE:
                    covered[end + 1 - length : end + 1] = True
            each[row] = max(automaton.runs(documents[row])), float(covered.mean())
        found.append(each)
    return found


def ours(documents: list[str], asked: list[str], known: Any, folder: Path) -> Figures:
    """Return what esdedup finds, and its time."""
    begun = time.perf_counter()
    index = esdedup.open(folder / "passages.db", INDEX, scheme=SCHEME)
    index.add({"id": str(row), "text": text} for row, text in enumerate(documents))
    index.similar("to list the tokens")
    built = time.perf_counter() - begun
    found: defaultdict[str, int] = defaultdict(int)
    wanted: defaultdict[str, int] = defaultdict(int)
    right, seconds, answers = [0, 0], [], []
    for text, near in zip(asked, known, strict=True):
        begun = time.perf_counter()
        (result,) = index.similar_many([Query(text)], Limits(k=1000, words=LEAST))
        seconds.append(time.perf_counter() - begun)
        got = {int(match.id): match for match in result.matches}
        for row, (longest, _) in near.items():
            name = next(f"{low} to {high}" for low, high in LENGTHS if longest <= high)
            wanted[name] += 1
            found[name] += row in got
        for row, match in got.items():
            right[1] += 1
            assert match.cover is not None
            longest = max((each.words for each in match.cover.passages), default=0)
            right[0] += longest == near.get(row, (0,))[0]
        (result,) = index.similar_many([Query(text)], Limits(k=1000, cover=CONTAINED))
        answers.append(
            {int(match.id) for match in result.matches
             if match.cover is not None and match.cover.of_query >= CONTAINED}
        )  # fmt: skip
    return {
        "built": built,
        **latency(seconds),
        "lengths": {f"{low} to {high}": [found[f"{low} to {high}"], wanted[f"{low} to {high}"]]
                    for low, high in LENGTHS},
        "right": right,
        "containment": containment(answers, known),
    }  # fmt: skip


def ensemble(documents: list[list[int]], asked: list[list[int]], known: Any) -> Figures:
    """Return what datasketch's LSH Ensemble finds, and its time."""
    from datasketch import MinHash, MinHashLSHEnsemble

    def sketched(words: list[int]) -> tuple[Any, int]:
        grams = {f"{words[at : at + 3]}".encode() for at in range(max(1, len(words) - 2))}
        made = MinHash(num_perm=128)
        made.update_batch([*grams])
        return made, len(grams)

    begun = time.perf_counter()
    index = MinHashLSHEnsemble(threshold=CONTAINED, num_perm=128, num_part=32)
    index.index((row, *sketched(words)) for row, words in enumerate(documents))
    built, seconds, answers = time.perf_counter() - begun, [], []
    for words in asked:
        begun = time.perf_counter()
        answers.append({*index.query(*sketched(words))})
        seconds.append(time.perf_counter() - begun)
    return {"built": built, **latency(seconds), "containment": containment(answers, known)}


def containment(answers: list[set[int]], known: Any) -> list[int]:
    """Return the number of right answers, of documents that contain enough, and of answers."""
    holds = [{row for row, (_, share) in near.items() if share >= CONTAINED} for near in known]
    right = sum(len(one & other) for one, other in zip(answers, holds, strict=True))
    return [right, sum(map(len, holds)), sum(map(len, answers))]


def cluster(documents: int, queries: int, url: str) -> Figures:
    """Return the cost on Elasticsearch."""
    texts, asked = corpus("english", documents, queries)
    sizes, found = {}, {}
    mapping = {"properties": {"id": {"type": "keyword", "index": False, "doc_values": False},
                              "text": {"type": "text"}}}  # fmt: skip
    for name in ("plain", "passages"):
        call(url, "PUT", f"/{INDEX}", {"settings": SETTINGS, "mappings": mapping})
        begun = time.perf_counter()
        if name == "plain":
            for first in range(0, len(texts), 1_000):
                lines: list[Any] = []
                for row, text in enumerate(texts[first : first + 1_000], first):
                    lines += [{"index": {"_id": str(row)}}, {"id": str(row), "text": text}]
                assert not call(url, "POST", f"/{INDEX}/_bulk", lines)["errors"]
        else:
            with esdedup.open(url, INDEX, scheme=SCHEME) as index:
                index.add({"id": str(row), "text": text} for row, text in enumerate(texts))
        found[f"{name}_seconds"] = time.perf_counter() - begun
        call(url, "POST", f"/{INDEX}/_forcemerge?max_num_segments=1&flush=true")
        call(url, "POST", f"/{INDEX}/_refresh")
        stats = call(url, "GET", f"/{INDEX}/_stats/store")["_all"]["primaries"]["store"]
        sizes[name] = stats["size_in_bytes"] / documents
        if name == "passages":
            seconds = []
            with esdedup.open(url, INDEX) as index:
                for text in asked:
                    begun = time.perf_counter()
                    index.similar_many([Query(text)], Limits())
                    seconds.append(time.perf_counter() - begun)
            found |= latency(seconds)
        drop(url, INDEX)
    return {"documents": documents, "bytes": sizes["passages"] - sizes["plain"],
            "bytes_plain": sizes["plain"], **found}  # fmt: skip


def tables(document: Figures) -> str:
    """Return the tables of all parts that were measured."""
    made, results = [], document["results"]
    names = [f"{low} to {high}" for low, high in LENGTHS]
    lines = [f"| longest shared run, words | {' | '.join(names)} | longest run exact |",
             f"|---|{'---:|' * (len(names) + 1)}"]  # fmt: skip
    for language in LANGUAGES:
        row = results[language]["esdedup"]
        cells = [f"{row['lengths'][name][0] / max(1, row['lengths'][name][1]):.3f} of"
                 f" {row['lengths'][name][1]:,}" for name in names]  # fmt: skip
        right = f"{row['right'][0]:,} of {row['right'][1]:,}"
        lines.append(f"| found, {language} | {' | '.join(cells)} | {right} |")
    made.append("\n".join(lines))
    head = ["recall", "precision", "median ms", "p99 ms", "built in s"]
    lines = [f"| at least {CONTAINED:.0%} of a query | {' | '.join(head)} |",
             f"|---|{'---:|' * len(head)}"]  # fmt: skip
    for language in LANGUAGES:
        for tool, row in results[language].items():
            hit, wanted, given = row["containment"]
            cells = [f"{hit / max(1, wanted):.3f}", f"{hit / max(1, given):.3f}"]
            cells += [f"{row['median_ms']:.1f}", f"{row['p99_ms']:.1f}", f"{row['built']:.1f}"]
            lines.append(f"| {tool}, {language} | {' | '.join(cells)} |")
    made.append("\n".join(lines))
    head = ["bytes added", "bytes without", "indexed per second", "plain per second"]
    lines = [f"| Elasticsearch, documents | {' | '.join([*head, 'median ms', 'p99 ms'])} |",
             f"|---|{'---:|' * 6}"]  # fmt: skip
    for row in results["cluster"]:
        count = row["documents"]
        cells = [f"{row['bytes']:,.0f}", f"{row['bytes_plain']:,.0f}"]
        cells += [f"{count / row[f'{each}_seconds']:,.0f}" for each in ("passages", "plain")]
        cells += [f"{row['median_ms']:.1f}", f"{row['p99_ms']:.1f}"]
        lines.append(f"| {count:,} | {' | '.join(cells)} |")
    made.append("\n".join(lines))
    return "\n\n".join(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--cluster-documents", default="100000", help="numbers, with commas")
    parser.add_argument("--folder", type=Path, help="where the results go")
    add_options(parser)
    options = parser.parse_args()
    results: Figures = {"cluster": []}
    for language in LANGUAGES:
        documents, asked = corpus(language, options.documents, options.queries)
        words, queries = words_of(documents), words_of(asked)
        known = truth(words, queries)
        with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
            found = {"esdedup": ours(documents, asked, known, Path(made))}
        found["LSH Ensemble"] = ensemble(words, queries, known)
        results[language] = found
        print(language, json.dumps(found), file=sys.stderr)
    if options.cluster_documents:
        with served(options) as url:
            for count in map(int, options.cluster_documents.split(",")):
                results["cluster"].append(cluster(count, options.queries, url))
                print(results["cluster"][-1], file=sys.stderr)
    corpora = [{"documents": options.documents, "queries": options.queries}]
    versions = {"datasketch": version("datasketch")}
    print(measuring.save("passages", results, corpora, versions, options.folder))


if __name__ == "__main__":
    main()

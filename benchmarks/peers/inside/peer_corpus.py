"""Peers of corpus.py, in environments of their own.

    python inside/peer_corpus.py datatrove SHARDS OUT WORKERS LANGUAGE
    python inside/peer_corpus.py semhash SHARDS OUT
    python inside/peer_corpus.py read-text-dedup OUT KEPT

datatrove: its pipeline of MinHash, on this machine, shards to shards. semhash: its deduplication by
embeddings, shards to shards, with its own threshold and the model that the package wordllama holds.
read-text-dedup: write the ids that its command kept, one a line.
"""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path


def by_datatrove(shards: str, out: str, workers: str, language: str) -> None:
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import (
        MinhashDedupBuckets,
        MinhashDedupCluster,
        MinhashDedupFilter,
        MinhashDedupSignature,
    )
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    # As wide as esdedup's bands: 1 - (1 - 0.8 ** 6) ** 25 = 0.9995.
    config = MinhashConfig(n_grams=3, num_buckets=25, hashes_per_bucket=6)
    tasks, work = len([*Path(shards).iterdir()]), f"{out}.work"
    signatures = MinhashDedupSignature(f"{work}/sigs", config, language=language)
    stages = [
        (tasks, [JsonlReader(shards), signatures]),
        (25, [MinhashDedupBuckets(f"{work}/sigs", f"{work}/buckets", config=config)]),
        (1, [MinhashDedupCluster(f"{work}/buckets", f"{work}/remove", config=config)]),
        (
            tasks,
            [
                JsonlReader(shards),
                MinhashDedupFilter(f"{work}/remove"),
                JsonlWriter(out, "${rank}.jsonl", compression=None),
            ],
        ),
    ]
    for number, (count, pipeline) in enumerate(stages):
        LocalPipelineExecutor(
            pipeline,
            tasks=count,
            workers=min(count, int(workers)),
            logging_dir=f"{work}/logs{number}",
        ).run()


def by_semhash(shards: str, out: str) -> None:
    import wordllama
    from semhash import SemHash

    # The package looks for its tokenizer under another name than it has.
    cache = Path(f"{out}.cache")
    shutil.copytree(Path(wordllama.__file__).parent / "tokenizers", cache / "tokenizers")
    model = wordllama.WordLlama.load(cache_dir=cache, disable_download=True)

    class Encoder:
        def encode(self, sentences: list[str], **_: object) -> object:
            return model.embed([*sentences])

    files = sorted(Path(shards).iterdir())
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    found = SemHash.from_records([*map(json.loads, lines)], ["text"], Encoder())
    kept = {each["id"] for each in found.self_deduplicate().selected}
    Path(out).mkdir()
    for file in files:
        every = file.read_text("utf-8").splitlines(keepends=True)
        staying = (line for line in every if json.loads(line)["id"] in kept)
        Path(out, file.name).write_text("".join(staying), "utf-8")


def read_text_dedup(out: str, kept: str) -> None:
    from datasets import load_from_disk

    ids = load_from_disk(out)["id"]
    Path(kept).write_text("".join(f"{id}\n" for id in ids), "utf-8")


if __name__ == "__main__":
    calls: dict[str, Callable[..., None]] = {
        "datatrove": by_datatrove,
        "semhash": by_semhash,
        "read-text-dedup": read_text_dedup,
    }
    calls[sys.argv[1]](*sys.argv[2:])

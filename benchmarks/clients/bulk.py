"""python bulk.py bulk|parallel_bulk URL INDEX FILE: see benchmarks/clients/__init__.py."""

import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elasticsearch import Elasticsearch, helpers


def main() -> None:
    helper, url, index, file = sys.argv[1:]
    documents = [json.loads(line) for line in Path(file).read_bytes().splitlines()]
    # A client would not hold them all, and its collector of garbage not go through them.
    gc.collect()
    gc.freeze()

    def actions() -> Iterator[dict[str, Any]]:
        for document in documents:
            yield {"_index": index, "_id": document["id"], "_source": document}

    client = Elasticsearch(url)
    print("ready", flush=True)
    sys.stdin.readline()
    if helper == "bulk":
        written, _ = helpers.bulk(client, actions())
    else:
        written = sum(ok for ok, _ in helpers.parallel_bulk(client, actions()))
    print(json.dumps({"written": written}), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()

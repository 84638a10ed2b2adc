import json
from pathlib import Path

from offline_model import MODEL
from semhash import SemHash

records, items = (
    [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]
    for name in ("documents.jsonl", "items.jsonl")
)
index = SemHash.from_records(items, columns=["text"], model=MODEL)
selected = index.deduplicate(records).selected
Path("out.jsonl").write_text("".join(json.dumps(record) + "\n" for record in selected), "utf-8")

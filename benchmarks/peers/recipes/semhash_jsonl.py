import json
from pathlib import Path

from offline_model import MODEL
from semhash import SemHash

records = [json.loads(line) for line in Path("documents.jsonl").read_text("utf-8").splitlines()]
index = SemHash.from_records(records, columns=["text"], model=MODEL)
selected = index.self_deduplicate().selected
Path("out.jsonl").write_text("".join(json.dumps(record) + "\n" for record in selected), "utf-8")

import json
from pathlib import Path

from offline_model import MODEL
from semhash import SemHash


def records_of(folder: str) -> list[dict[str, str]]:
    files = sorted(Path(folder).iterdir())
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


new = SemHash.from_records(records_of("new"), columns=["text"], model=MODEL)
old = SemHash.from_records(records_of("old"), columns=["text"], model=MODEL)
selected = old.deduplicate(new.self_deduplicate().selected).selected
Path("out.jsonl").write_text("".join(json.dumps(record) + "\n" for record in selected), "utf-8")

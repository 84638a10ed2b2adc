cat old/*.jsonl new/*.jsonl > both.jsonl
python -m text_dedup.minhash --path json --data_files both.jsonl --split train --column text --threshold 0.8 --output clean
python - <<'PYTHON'
import json
from pathlib import Path
from datasets import load_from_disk
new = {json.loads(line)["id"] for file in Path("new").iterdir() for line in file.open()}
load_from_disk("clean").filter(lambda row: row["id"] in new).to_json("out.jsonl")
PYTHON

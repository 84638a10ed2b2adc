python -m text_dedup.minhash --path json --data_files documents.jsonl --split train --column text --threshold 0.8 --output clean
python -c "import datasets; datasets.load_from_disk('clean').to_json('out.jsonl')"

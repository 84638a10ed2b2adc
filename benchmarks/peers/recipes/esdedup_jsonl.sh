esdedup clean documents.jsonl -o out.jsonl

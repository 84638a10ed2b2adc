esdedup decontaminate documents.jsonl --against items.jsonl -o out.jsonl

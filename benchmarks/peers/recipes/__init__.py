"""What a new user of each project writes for the jobs of first_use.py; each runs as it is.

Inputs are in the current folder: `documents.jsonl`, the Parquet files of `parquet`, the shards of
`old` and `new`, and `items.jsonl`. What stays goes to `out`, or to `out.jsonl`.
"""

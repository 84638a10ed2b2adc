python -m text_dedup.minhash --path parquet --data_files 'parquet/*.parquet' --split train --column text --threshold 0.8 --output clean
python -c "import datasets; datasets.load_from_disk('clean').to_parquet('out.parquet')"

esdedup clean parquet -o out

import pyarrow
import pyarrow.parquet
from offline_model import MODEL
from semhash import SemHash

records = pyarrow.parquet.read_table("parquet").to_pylist()
index = SemHash.from_records(records, columns=["text"], model=MODEL)
selected = index.self_deduplicate().selected
pyarrow.parquet.write_table(pyarrow.Table.from_pylist(selected), "out.parquet")

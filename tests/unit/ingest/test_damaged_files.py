"""Files that were cut or overwritten: the error names the file, and no record is made up."""

import json
import random
from pathlib import Path

import pytest

from esdedup.exceptions import InputError, UsageError
from esdedup.records.files import Record, read_records
from tests.helpers.damage import DAMAGES, ENDINGS, damaged, packed


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("ending", ENDINGS)
def test_damage_is_an_error_that_names_the_file(ending: str, damage: str) -> None:
    rng = random.Random(3)
    texts = [" ".join(str(rng.randrange(999)) for _ in range(20)) for _ in range(400)]
    raw = packed([json.dumps({"text": text}) for text in texts], ending)
    path = Path(f"shard.{ending}")
    path.write_bytes(raw)
    assert [record.source["text"] for record in read_whole(path)] == texts
    path.write_bytes(damaged(raw, damage))
    with pytest.raises((InputError, UsageError), match=rf"^{path} (can't be read to its|is not)"):
        read_whole(path)


def read_whole(path: Path) -> list[Record]:
    """Return the records of a file, all of which can be read."""
    records = [*read_records(str(path))]
    assert all(isinstance(record, Record) for record in records)
    return [record for record in records if isinstance(record, Record)]

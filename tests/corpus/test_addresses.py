"""Files at addresses: an S3 server on this machine gives and takes what a folder does."""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import esdedup.stores.private_files
from esdedup.records.streams import path_of
from esdedup.tabular import require_pyarrow
from tests.corpus.test_dedup_files import shards
from tests.helpers.commands import run_command

pytest.importorskip("s3fs")
server = pytest.importorskip("moto.server")


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket with the files of `shards` below in/."""
    running = server.ThreadedMotoServer(port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "a")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        path_of("s3://bucket/x").fs.mkdir("bucket")
        yield "s3://bucket"
    running.stop()


@pytest.fixture
def files(bucket: str) -> list[Path]:
    """The same files on this machine."""
    made = shards()
    for file in made:
        path_of(f"{bucket}/{file}").write_bytes(file.read_bytes())
    return made


def test_shards_in_and_out_are_those_of_this_machine(bucket: str, files: list[Path]) -> None:
    assert run_command("dedup", "in", "-o", "out", "--json").status == 0
    for number, named in enumerate((f"{bucket}/in/", f"{bucket}/in")):
        done = run_command("dedup", named, "-o", f"{bucket}/out{number}", "--json")
        assert done.status == 0
        for file in [*(file.relative_to("in") for file in files), Path("_removed.jsonl.zst")]:
            made = path_of(f"{bucket}/out{number}/{file}").read_bytes()
            if file.name.startswith("_"):
                assert len(made) > 1_000
            else:
                assert made == Path("out", file).read_bytes()
    refused = run_command("dedup", "in", "-o", f"{bucket}/out0")
    assert (refused.status, "out0/a.jsonl exists" in refused.err) == (2, True)
    assert not Path("out0.work").exists()


def test_each_command_reads_addresses(bucket: str, files: list[Path]) -> None:
    pattern = f"{bucket}/in/more/*.jsonl*"
    near = run_command("pairs", pattern, "--json").json
    here = run_command("pairs", "in/more/*.jsonl*", "--json").json
    assert [each["similarity"] for each in near] == [each["similarity"] for each in here]
    assert near[0]["left"].startswith("s3://bucket/in/more/b.jsonl.gz:")
    (report,) = run_command("index", f"{bucket}/in/a.jsonl", "--json").json
    assert (report["created"], report["failed"]) == (60, 0)
    pa = require_pyarrow()
    table = pa.table({"id": ["a", "b"], "text": ["one text of words", "another text of words"]})
    with path_of(f"{bucket}/t.parquet").open("wb") as out:
        pa.parquet.write_table(table, out)
    (report,) = run_command("index", f"{bucket}/t.parquet", "-i", "t", "--json").json
    assert report["created"] == 2


def test_an_upload_that_breaks_off_leaves_no_file(
    bucket: str, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    large = "".join(f'{{"text": "text {n} {"of words " * 900}"}}\n' for n in range(900))
    Path("large.jsonl").write_text(large + '{"text": ""}\nno JSON\n', "utf-8")
    size, written = 2 * 5 * 2**20, 0
    write = esdedup.stores.private_files._uploaded

    class Breaks:
        def __init__(self, file: Any) -> None:
            self._file = file

        def write(self, data: Any) -> Any:
            nonlocal written
            written += len(data)
            if written > size // 2:
                raise KeyboardInterrupt
            return self._file.write(data)

    @contextlib.contextmanager
    def breaking(path: Any) -> Iterator[Any]:
        with write(path) as file:
            yield Breaks(file)

    with monkeypatch.context() as patched:
        patched.setattr(esdedup.stores.private_files, "_uploaded", breaking)
        done = run_command("dedup", "large.jsonl", "-o", f"{bucket}/broken")
    assert done.status == 130
    fs = path_of(bucket).fs
    assert fs.find("bucket/broken") == []
    uploads = fs.call_s3("list_multipart_uploads", Bucket="bucket")
    assert not uploads.get("Uploads")
    assert run_command("dedup", "large.jsonl", "-o", f"{bucket}/broken").status == 1
    made = path_of(f"{bucket}/broken/large.jsonl").read_bytes()
    assert made == (large + '{"text": ""}\n').encode()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("s3://bucket/absent.jsonl", "s3://bucket/absent.jsonl: there is no such file"),
        ("s3://bucket/none/*.jsonl", "there is no such file"),
        ("s3://no-bucket/a.jsonl", "s3://no-bucket/a.jsonl"),
        ("unknown://bucket/a.jsonl", "unknown://bucket/a.jsonl: Unsupported filesystem: 'unknown'"),
        ("gs://bucket/a.jsonl", "gs://bucket/a.jsonl: Please install gcsfs"),
        ("https://127.0.0.1:1/a.jsonl", "https://127.0.0.1:1/a.jsonl"),
    ],
)
def test_what_can_not_be_reached_is_named(bucket: str, address: str, said: str) -> None:
    done = run_command("index", address)
    assert done.status == 2
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_file_that_ends_too_soon_is_an_error(bucket: str, files: list[Path]) -> None:
    whole = files[1].read_bytes()
    for cut in itertools.islice(range(len(whole) - 1, 0, -97), 3):
        path_of(f"{bucket}/cut.jsonl.gz").write_bytes(whole[:cut])
        done = run_command("index", f"{bucket}/cut.jsonl.gz")
        assert done.status == 1
        assert "s3://bucket/cut.jsonl.gz" in done.err

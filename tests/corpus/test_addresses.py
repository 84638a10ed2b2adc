"""Files at addresses: an S3 server on this machine, also one that fails, is read as a folder is."""

import io
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

import esdedup
from esdedup.records import locations
from esdedup.records.files import read_records
from esdedup.records.locations import open_file, stamp
from esdedup.records.paths import files_named
from esdedup.tabular import require_pyarrow
from tests.corpus.test_dedup_files import removed_in, shards
from tests.corpus.test_kept import FEW_IN_A_SHARE, dedup, months
from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.processes import serving, start_command
from tests.helpers.surroundings import at_step

ERROR = "<Error><Code>{0}</Code><Message>{0}</Message></Error>"
Answer = Iterable[bytes]


@dataclass
class Faulty:
    """A WSGI application with faults. It counts the bytes that GET sends."""

    app: Any
    faults: list[Callable[[dict[str, Any], Any], Answer | None]] = field(default_factory=list)
    sent: int = 0

    def __call__(self, environ: dict[str, Any], start: Any) -> Answer:
        for fault in [*self.faults]:
            if (answer := fault(environ, start)) is not None:
                return answer
        body = b"".join(self.app(environ, start))
        self.sent += len(body) if environ["REQUEST_METHOD"] == "GET" else 0
        return [body]

    def fail(self, times: int, method: str, status: str, part: str = "") -> None:
        """Answer the next requests with an error."""
        left = itertools.count(times, -1)

        def fault(environ: dict[str, Any], start: Any) -> Answer | None:
            named = environ["PATH_INFO"] + "?" + environ["QUERY_STRING"]
            if environ["REQUEST_METHOD"] != method or part not in named or next(left) <= 0:
                return None
            start(status, [("Content-Type", "application/xml")])
            return [ERROR.format(status.partition(" ")[2]).encode()]

        self.faults.append(fault)

    def cut(self, times: int) -> None:
        """Break the connection in the middle of the next objects."""
        left = itertools.count(times, -1)

        def fault(environ: dict[str, Any], start: Any) -> Answer | None:
            if environ["REQUEST_METHOD"] != "GET" or "." not in environ["PATH_INFO"]:
                return None
            if next(left) <= 0:
                return None
            body = b"".join(self.app(environ, start))
            return iter([body[: len(body) // 2]])

        self.faults.append(fault)

    def kill(self, process: subprocess.Popen[str], part: str) -> None:
        """Kill a process when it uploads something, and wait for it."""

        def fault(environ: dict[str, Any], start: Any) -> Answer | None:
            if environ["REQUEST_METHOD"] == "PUT" and part in environ["PATH_INFO"]:
                process.kill()
                start("503 SlowDown", [])
                return []
            return None

        self.faults.append(fault)
        assert process.wait() == -signal.SIGKILL
        self.faults.remove(fault)


class Silent(WSGIRequestHandler):
    """Logs no requests."""

    def log_request(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Faulty, str]]:
    """A server with a bucket, and its URL."""
    app = Faulty(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Silent)
    url = f"http://127.0.0.1:{server.server_port}"
    with serving(server), pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", url)
        patch.setenv("AWS_ACCESS_KEY_ID", "a")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3").mkdir("bucket")
        yield app, url


@pytest.fixture
def server(running: tuple[Faulty, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    """The server, without faults at first and at last. Requests are repeated without a pause."""
    # Else each request that fails for good takes 7.5 s.
    monkeypatch.setattr(locations, "RETRY_SECONDS", (0, 0))
    app = running[0]
    app.sent = 0
    yield app
    app.faults.clear()
    s3 = fsspec.filesystem("s3")
    s3.invalidate_cache()
    for name in s3.find("bucket"):
        s3.rm(name)


@pytest.fixture
def files(server: Faulty) -> list[Path]:
    """The same files on this machine and at s3://bucket/in/."""
    made = shards()
    for file in made:
        put(f"s3://bucket/{file}", file.read_bytes())
    return made


def put(address: str, content: bytes) -> None:
    """Write a file at an address."""
    options = {"ACL": "public-read"} if address.startswith("s3:") else {}
    fsspec.url_to_fs(address)[0].pipe_file(address, content, **options)


def get(address: str) -> bytes:
    """Return the content of a file at an address."""
    with fsspec.open(address) as file:
        return bytes(file.read())


def names(paths: Sequence[str]) -> list[str]:
    return [path.rpartition("/")[2] for path in paths]


def test_shards_in_and_out_are_those_of_this_machine(files: list[Path]) -> None:
    run_command("clean", "in", "-o", "out", "--json", status=0)
    for scheme in ("s3://bucket", "memory:/"):
        for number, named in enumerate(("s3://bucket/in/", "s3://bucket/in")):
            run_command("clean", named, "-o", f"{scheme}/out{number}", "--json", status=0)
            for file in [file.relative_to("in") for file in files]:
                assert get(f"{scheme}/out{number}/{file}") == Path("out", file).read_bytes()
            assert len(get(f"{scheme}/out{number}/_removed.jsonl.zst")) > 1_000
    assert sorted(fsspec.filesystem("memory").find("/out0")) == [
        *("/out0/_removed.jsonl.zst", "/out0/_removed.report.json", "/out0/a.jsonl"),
        *("/out0/more/b.jsonl.gz", "/out0/more/c.jsonl.zst"),
    ]
    refused = run_command("clean", "in", "-o", "s3://bucket/out0", status=2)
    assert "s3://bucket/out0 exists" in refused.err
    assert not Path("out0.work").exists()


def test_tasks_share_their_work_at_an_address(files: list[Path]) -> None:
    run_command("clean", "s3://bucket/in", "-o", "whole", status=0)
    command = ["clean", "s3://bucket/in", "-o", "s3://bucket/out", "--task"]
    for stage, tasks in (("sketch", (2, 3, 1)), ("group", (1,)), ("write", (3, 1, 2))):
        for task in tasks:
            run_command(*command, f"{task}/3", "--stage", stage, status=0)
    for file in Path("whole").rglob("*.*"):
        assert get(f"s3://bucket/out/{file.relative_to('whole')}") == file.read_bytes()
    kept = fsspec.filesystem("s3").find("bucket/out.work")
    assert names(kept) == ["done.json", "job.json"]


def test_sketches_are_kept_at_an_address_as_in_a_folder(server: Faulty) -> None:
    months(3)
    far = ["--against", "s3://bucket/all.sketches/", "--update"]
    absent = dedup(0, *far[:2])
    assert (absent.status, "--update creates it" in absent.err) == (2, True)
    for month in range(3):
        if month == 1:
            server.kill(start_command("clean", "1", "-o", "out1", *far), "all.sketches/0001-")
            assert not [name for name in sketches() if "run-0001" in name]
        near = ["--against", "all.sketches", "--update"]
        here = dedup(month, *near, out="here", surroundings=FEW_IN_A_SHARE)
        done = dedup(month, *far, surroundings=FEW_IN_A_SHARE)
        assert (here.status, done.status) == (1, 1)
        assert done.json == [{**here.json[0], "output": f"out{month}"}]
        names = ("a.jsonl", "b.jsonl", "_removed.jsonl.zst")
        for name in names[:2]:
            assert Path(f"out{month}", name).read_bytes() == Path(f"here{month}", name).read_bytes()
        lists = [removed_in(Path(f"{out}{month}", names[2])) for out in ("out", "here")]
        assert lists[0] == lists[1]
    assert done.json[0]["against"] > 20
    assert len([name for name in sketches() if "run-" in name]) == 3
    # A second run of the same files adds nothing, and changes nothing of the first.
    held = {name: get(f"s3://{name}") for name in sketches()}
    shutil.rmtree("out0")
    assert dedup(0, *far).json[0]["kept"] == 0
    assert held.items() <= {name: get(f"s3://{name}") for name in sketches()}.items()


def sketches() -> list[str]:
    s3 = fsspec.filesystem("s3", skip_instance_cache=True)
    return [str(name) for name in s3.find("bucket/all.sketches")]


def test_only_texts_of_candidates_are_fetched(server: Faulty) -> None:
    # A request fetches a megabyte.
    texts_of = [words(n, 200).replace(" ", f" {'x' * 1_000}") for n in range(100)]
    write_lines(Path("0.jsonl"), [{"text": text} for text in texts_of])
    write_lines(Path("1.jsonl"), [{"text": f"{texts_of[30]} end"}, {"text": words(990, 2_000)}])
    far = ["--against", "s3://bucket/all.sketches"]
    run_command("clean", "0.jsonl", "-o", "out0", *far, "--update", status=0)
    server.sent = 0
    assert run_command("clean", "1.jsonl", "-o", "out1", *far, "--json").json[0]["removed"] == 1
    (texts,) = [name for name in sketches() if "texts" in name]
    size = fsspec.filesystem("s3").size(texts)
    assert 0 < server.sent < size / 5


def test_of_runs_that_overlap_one_adds_its_documents(server: Faulty) -> None:
    for number in range(3):
        write_lines(Path(f"{number}.jsonl"), [{"text": words(n)} for n in (number, number + 1)])
    far = ["--against", "s3://bucket/all.sketches", "--update", "--json"]
    run_command("clean", "0.jsonl", "-o", "out0", *far, status=0)
    statuses: list[int] = []

    def overtake() -> None:
        statuses.append(run_command("clean", "1.jsonl", "-o", "out1", *far).status)

    # When its file is written, and before its documents are added.
    overtaken = at_step("Writing", overtake, call=1)
    late = run_command("clean", "2.jsonl", "-o", "out2", *far, surroundings=overtaken)
    assert statuses == [0]
    assert (late.status, "another run has added documents" in late.err) == (1, True)
    again = run_command("clean", "2.jsonl", "-o", "out2", *far, status=2)
    assert "another state of s3://bucket/all.sketches" in again.err
    shutil.rmtree("out2")
    shutil.rmtree("out2.work")
    again = run_command("clean", "2.jsonl", "-o", "out2", *far)
    assert (again.json[0]["kept"], again.json[0]["against"]) == (1, 1)


def test_each_command_reads_addresses(
    files: list[Path], running: tuple[Faulty, str], server: Faulty
) -> None:
    pattern = "s3://bucket/in/more/*.jsonl*"
    near = run_command("pairs", pattern, "--json").json
    here = run_command("pairs", "in/more/*.jsonl*", "--json").json
    assert [each["similarity"] for each in near] == [each["similarity"] for each in here]
    assert near[0]["left"].startswith("s3://bucket/in/more/b.jsonl.gz:")
    groups = []
    for index, where in (("near", "s3://bucket/in"), ("here", "in")):
        options = ["--db", f"{index}.db", "-i", "all"]
        run_command("index", where, *options, status=0)
        run_command("group", *options, "--dry-run", "-o", f"{index}.jsonl", status=0)
        groups.append(Path(f"{index}.jsonl").read_text("utf-8").replace("s3://bucket/", ""))
    assert groups[0] == groups[1] != ""
    # By HTTP, with a signature that does not get into ids.
    url = f"{running[1]}/bucket/in/more/b.jsonl.gz"
    server.fail(1, "GET", "503 SlowDown", "b.jsonl.gz")
    server.cut(1)
    signed = list(read_records(f"{url}?X-Signature=secret"))
    assert [each.line for each in signed] == [*range(1, 61)]
    assert {each.file for each in signed} == {url}


def test_folders_and_patterns_are_as_on_this_machine(server: Faulty) -> None:
    for name in (
        "a10.jsonl",
        "a2.jsonl",
        "_temporary/a1.jsonl",
        ".a.jsonl",
        "notes.pdf",
        "c/b.jsonl",
    ):
        put(f"s3://bucket/some/{name}", b'{"text": "a"}\n')
        put(f"memory://some/{name}", b'{"text": "a"}\n')
    for scheme in ("s3://bucket/some", "memory://some"):
        found, left_out = files_named([scheme])
        assert found == [f"{scheme}/{name}" for name in ("a2.jsonl", "a10.jsonl", "c/b.jsonl")]
        assert left_out == [f"{scheme}/notes.pdf"]
        assert names(files_named([f"{scheme}/a*.jsonl"])[0]) == ["a2.jsonl", "a10.jsonl"]
        assert len(files_named([f"{scheme}/a?.jsonl"])[0]) == 1
        with pytest.raises(esdedup.UsageError, match="only once"):
            files_named([f"{scheme}/a2.jsonl", f"{scheme}/a*.jsonl"])
    put("s3://bucket/some/t.csv", b"text\na\n")
    with pytest.raises(esdedup.UsageError, match="several formats"):
        files_named(["s3://bucket/some/"])


@pytest.mark.parametrize("times", [2, 100])
@pytest.mark.parametrize("scheme", ["s3", "http"])
def test_a_broken_connection_is_never_a_short_file(
    server: Faulty, running: tuple[Faulty, str], scheme: str, times: int
) -> None:
    content = os.urandom(12 << 20)
    put("s3://bucket/random.jsonl", content)
    address = {"s3": "s3://bucket", "http": f"{running[1]}/bucket"}[scheme] + "/random.jsonl"
    server.cut(times)
    if times == 2:
        with open_file(address) as file:
            assert file.read() == content
        # Each of the two requests was answered with a half, then as a whole.
        assert server.sent < len(content) + (1 << 20)
        return
    done = run_command("index", address, status=1)
    assert f"{address} can't be read to its end" in done.err
    assert "Traceback" not in done.err


def test_a_server_that_is_busy_is_asked_again(server: Faulty, files: list[Path]) -> None:
    # Each further failure doubles the pause before the next request.
    server.fail(1, "GET", "503 SlowDown")
    server.fail(1, "PUT", "503 SlowDown", "out")
    run_command("clean", "s3://bucket/in", "-o", "s3://bucket/out", status=0)
    run_command("clean", "in", "-o", "out", status=0)
    assert get("s3://bucket/out/a.jsonl") == Path("out/a.jsonl").read_bytes()


def test_only_the_columns_of_a_table_are_fetched(server: Faulty) -> None:
    pa = require_pyarrow()
    noise = np.random.default_rng(1).integers(0, 1 << 62, 300_000).astype(str)
    table = pa.table({"before": noise, "text": noise[::-1][: noise.size], "after": noise})
    table = table.set_column(1, "text", pa.array([f"some text {n % 9}" for n in range(noise.size)]))
    file = io.BytesIO()
    pa.parquet.write_table(table, file, row_group_size=100_000)
    put("s3://bucket/t.parquet", file.getvalue())
    server.sent = 0
    read = list(read_records("s3://bucket/t.parquet", columns=["text"]))
    assert [each.source and each.source["text"] for each in read[:2]] == [
        "some text 0",
        "some text 1",
    ]
    assert len(read) == noise.size
    assert 0 < server.sent < len(file.getvalue()) / 10


def test_a_change_is_seen_though_the_size_is_the_same(
    server: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("s3://bucket/a.jsonl", b'{"text": "one"}\n')
    before = stamp("s3://bucket/a.jsonl")
    assert files_named(["s3://bucket/"])[0] == ["s3://bucket/a.jsonl"]
    assert stamp("s3://bucket/a.jsonl") == before
    s3 = fsspec.filesystem("s3", skip_instance_cache=True)
    s3.pipe("bucket/a.jsonl", b'{"text": "two"}\n')
    assert stamp("s3://bucket/a.jsonl") != before


@pytest.mark.parametrize("killed", [False, True])
def test_an_upload_that_breaks_off_leaves_no_file(
    server: Faulty, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By default, uploads of less than 100 MiB have one part, and s3fs has no setting for it.
    monkeypatch.setattr("s3fs.core.calculate_chunksize", lambda *_, **__: 8 << 20)
    large = "".join(f'{{"text": "text {n} {"of words " * 900}"}}\n' for n in range(4_000))
    Path("large.jsonl").write_text(large, "utf-8")
    command = ["clean", "large.jsonl", "-o", "s3://bucket/broken", "--exact"]
    if killed:
        server.kill(start_command(*command), "broken")
    else:
        server.fail(100, "PUT", "403 AccessDenied", "partNumber")
        done = run_command(*command, status=1)
        assert "s3://bucket/broken/large.jsonl: access was denied" in done.err
        uploads = fsspec.filesystem("s3").call_s3("list_multipart_uploads", Bucket="bucket")
        assert not uploads.get("Uploads")
    server.faults.clear()
    assert fsspec.filesystem("s3", skip_instance_cache=True).find("bucket/broken") == []
    run_command(*command, status=0)
    assert get("s3://bucket/broken/large.jsonl") == large.encode()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("s3://bucket/absent.jsonl", "s3://bucket/absent.jsonl: there is no such file"),
        ("s3://bucket/none/*.jsonl", "there is no such file"),
        ("s3://no-bucket/a.jsonl", "s3://no-bucket/a.jsonl: there is no such file"),
        ("s3://no-bucket/*.jsonl", "s3://no-bucket/*.jsonl: there is no such file"),
        ("unknown://bucket/a.jsonl", "unknown://bucket/a.jsonl: Protocol not known: unknown"),
        ("gs://bucket/a.jsonl", "pip install 'esdedup[remote]' gcsfs"),
        ("https://127.0.0.1:1/a.jsonl", "https://127.0.0.1:1/a.jsonl: Cannot connect"),
    ],
)
def test_what_can_not_be_reached_is_named(server: Faulty, address: str, said: str) -> None:
    done = run_command("index", address, status=2)
    assert said in done.err
    assert "Traceback" not in done.err


def test_wrong_credentials_are_named(server: Faulty, files: list[Path]) -> None:
    for method in ("HEAD", "GET"):
        server.faults.clear()
        server.fail(100, method, "403 AccessDenied")
        for command in (
            ["index", "s3://bucket/in/a.jsonl"],
            ["clean", "s3://bucket/in/", "-o", "x"],
        ):
            done = run_command(*command)
            assert done.status == (1 if method == "GET" and command[0] == "index" else 2)
            assert "s3://bucket/in/" in done.err
            assert "Traceback" not in done.err


def test_without_the_packages_the_command_to_install_them_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    done = run_command("index", "s3://bucket/a.jsonl", status=2)
    assert "pip install 'esdedup[remote]'" in done.err


def test_a_file_that_ends_too_soon_is_an_error(files: list[Path]) -> None:
    whole = files[1].read_bytes()
    for cut in itertools.islice(range(len(whole) - 1, 0, -97), 3):
        put("s3://bucket/cut.jsonl.gz", whole[:cut])
        done = run_command("index", "s3://bucket/cut.jsonl.gz", status=1)
        assert "s3://bucket/cut.jsonl.gz" in done.err

"""What commands refuse: each sentence names the option or the file, and nothing has changed.

A refusal that depends on a server, on an environment or on the content of a file is tested with
its subject.
"""

import re
import shlex
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.indices import fill_index

SENTENCE = "The council met on Monday and voted for the new bridge over the"
RECORDS = [
    {"id": "a", "text": f"{SENTENCE} river."},
    {"id": "b", "text": f"{SENTENCE} canal."},
    {"id": "c", "text": f"{SENTENCE} river!"},
    {"id": "d", "text": "今天下午三点，市图书馆举行读书会，欢迎大家参加。"},
]


@dataclass(frozen=True)
class Refusal:
    """A command that is refused.

    command: its words, as in a shell.
    message: a part of what it writes to standard error.
    status: 2 for wrong usage, 1 for a failure.
    """

    command: str
    message: str
    status: int = 2

    def __str__(self) -> str:
        return self.command


INDEX = [
    Refusal("index absent.jsonl", "absent.jsonl: there is no such file"),
    Refusal("index a.jsonl --format xml", "xml"),
    Refusal("index a.jsonl --scheme absent.json", "scheme file absent.json"),
    Refusal("index", "Missing argument"),
    Refusal("index a.jsonl -t 0.95", "--threshold requires --on-duplicate"),
    Refusal("index a.jsonl --sketch simhash", "--sketch requires --on-duplicate"),
    Refusal("index a.jsonl -i news.db", "-i news.db names a file: use --db news.db"),
    Refusal(
        "index a.jsonl --within event",
        "--within requires --on-duplicate mark, skip, fail or group",
    ),
    Refusal(
        "index a.jsonl --routing-field user",
        "--routing-field requires an index in a cluster",
    ),
    Refusal("index a.jsonl --db no/such/folder.db", "there is no folder no/such", status=1),
]
SIMILAR = [
    Refusal("similar --text x --id a", "one of --text, --file, --id, --bits, --vector and --batch"),
    Refusal("similar --text x -t 1.5", "threshold 1.5"),
    Refusal("similar --text x --sketch simhash -t 0.5", "--threshold can't be"),
    Refusal(
        "query --text x --sketch simhash -t 0.5", "--threshold can't be combined with --sketch"
    ),
    Refusal("similar --text x -t 0.5 --nearest", "--nearest can't be combined with --threshold"),
    Refusal("similar --text x --other-set", "--other-set requires --batch"),
    Refusal("similar --id nobody", "no document 'nobody'", status=1),
    Refusal("explain a a", "give the ids of two documents"),
    Refusal("explain a x", "has no document 'x'", status=1),
]
PAIRS = [
    Refusal("pairs --workers 2", "--workers requires FILES"),
    Refusal("pairs --id-field n", "--id-field requires FILES"),
    Refusal("pairs a.jsonl --db some.db", "--db can't be combined with FILES"),
    Refusal("pairs a.jsonl -i some", "--index can't be combined with FILES"),
    Refusal("pairs none.jsonl", "there is no such file"),
    Refusal("pairs a.doc", "unknown ending"),
    Refusal("pairs a.jsonl --only-between", "--only-between requires --against"),
    Refusal("pairs --against a.jsonl", "--against requires FILES"),
    *(
        Refusal(f"pairs a.jsonl {sketch} -t 0.5", f"--threshold can't be combined with {by}")
        for sketch, by in (
            ("--sketch simhash", "--sketch simhash, which compares by Hamming distance"),
            ("--bits n:64", "--sketch n, which compares by Hamming distance: use --distance"),
            ("--vectors n:4", "--sketch n, which compares by cosine: use --cosine"),
        )
    ),
    Refusal("pairs a.jsonl --against a.jsonl", "it is named in --against too"),
    Refusal("pairs a.jsonl --against a.db", "pairs of files are compared with files only"),
    Refusal(
        "pairs a.jsonl --output pairs.csv",
        "end the name in .parquet, .arrow, .jsonl, .jsonl.gz or .jsonl.zst",
    ),
    Refusal("pairs a.jsonl --output a.jsonl", "the command reads this file"),
    Refusal("pairs a.jsonl --output folder.parquet", "Is a directory"),
    Refusal("pairs a.jsonl --output gone/pairs.parquet", "there is no folder gone"),
    Refusal("pairs a.jsonl --output ''", "--output is empty"),
    Refusal("pairs --db absent.db", "there is no file absent.db: index documents first", status=1),
    Refusal("pairs --index absent", "index 'absent'", status=1),
    Refusal("pairs --index absent", "or name the cluster: --url or ESDEDUP_URL", status=1),
    Refusal("pairs --db a.jsonl", "run `esdedup index a.jsonl`", status=1),
]
GROUP = [
    Refusal("group --work ''", "--work is empty"),
    Refusal("group -t 0.9 a.jsonl", "group reads an index: run `esdedup index FILES`"),
    Refusal("report a.jsonl -o page.html", "report reads an index"),
    Refusal("review a.jsonl", "review reads an index"),
    Refusal(
        "group --sketch simhash --threshold 0.8",
        "--threshold can't be combined with --sketch simhash",
    ),
    Refusal(
        "report --sketch simhash -t 0.5", "--threshold can't be combined with --sketch simhash"
    ),
    Refusal(
        "review --sketch simhash -t 0.5", "--threshold can't be combined with --sketch simhash"
    ),
    Refusal("group --distance 3", "so use a threshold, or another sketch"),
    Refusal("group --threshold 0", "similarity above 0"),
    Refusal("group --exact --threshold 0.5", "--exact can't be combined with"),
    Refusal("group --exact --sketch simhash", "--exact can't be combined with"),
    Refusal("group --exact --split-templates", "--split-templates can't be combined with"),
    Refusal("group --split-templates --sketch simhash", "--split-templates can't be combined with"),
    Refusal("group --keep oldest:day", "oldest:day: no document has a time"),
    Refusal("group --keep last:day", "last:day: no document has a number or a text"),
    *(
        Refusal(f"group --keep {rule}", "newest:FIELD")
        for rule in ("newest", "longest:n", "first:", "best")
    ),
]
REMOVAL = [
    Refusal("dedup --apply", "--action"),
    Refusal("dedup --apply --action delete", "--yes"),
    Refusal("dedup --apply --action move --yes", "--to"),
    # Before the question.
    Refusal("dedup --apply --action move", "an index to move to (--to)"),
    Refusal("dedup --apply --action delete --to x --yes", "--to"),
    Refusal("dedup --log x.jsonl", "--apply"),
    Refusal("dedup --to x", "--apply"),
    Refusal("dedup --apply --action delete --yes --log other.jsonl", "other.jsonl exists"),
    Refusal("dedup --apply --action move --to others --yes --log other.jsonl", "exists"),
    Refusal("dedup --apply --action delete --yes --log no/x.jsonl", "No such file"),
    Refusal(
        "dedup --within seen.date:3d --collect seen",
        "--collect seen would change the scope of documents that stay (--within seen.date)",
    ),
    Refusal("dedup --keep longest a.jsonl", "`esdedup clean FILES -o OUT`"),
    *(
        Refusal(f"dedup {arguments}", "esdedup clean FILES -o OUT")
        for arguments in ("in", "in -o out", "-t 0.9 in -o out", "-t 0.9 --output=out in")
    ),
    Refusal("undo x.jsonl", "log file x.jsonl: No such file"),
    Refusal("undo x.jsonl --yes", "No such file"),
    Refusal("undo other.jsonl --yes", "not a log of esdedup dedup"),
]
CLEAN = [
    Refusal("clean a.jsonl --against-field question", "--against-field requires --against"),
    Refusal("clean a.jsonl --only-between", "--only-between requires --against"),
    Refusal("clean a.jsonl --only-between --unit line", "--only-between requires --against"),
    Refusal(
        "clean b.jsonl --only-between --against a.jsonl --engine spark",
        "--only-between can't be combined with",
    ),
    Refusal(
        "clean a.jsonl --unit line --conflict label", "--conflict can't be combined with --unit"
    ),
    Refusal("clean in -o out --task 1/2 --collect url", "--collect can't be combined with --task"),
    Refusal("clean a.jsonl -o out --sketch none", "there is no sketch 'none'"),
    *(
        Refusal(f"clean {arguments} -t 0.5", f"--threshold can't be combined with --sketch {by}")
        for arguments, by in (
            ("a.jsonl --sketch simhash", "simhash, which compares by Hamming distance"),
            ("in -o out --task 1/2 --sketch simhash", "simhash"),
            ("a.jsonl --engine spark --sketch simhash", "simhash"),
            ("a.jsonl --bits n:64", "n, which compares by Hamming distance: use --distance"),
            ("a.jsonl --vectors n:4", "n, which compares by cosine: use --cosine"),
        )
    ),
    Refusal("clean a.jsonl -o - --unit line", "a folder to write to"),
    Refusal("clean a.jsonl -o out --unit line --text-field no", "name the field of the text"),
    Refusal("clean a.jsonl -o out --unit line --text-field n --text-field m", "one --text-field"),
    Refusal("clean a.jsonl -o out --unit line --exact", "--exact can't be combined with --unit"),
    Refusal("clean a.jsonl -o whole --unit line", "whole exists"),
    Refusal("clean - --against -", "name the same pipe, or standard input, only once"),
    Refusal("clean - -o out --task 1/2", "standard input can't be read twice: name a file"),
    Refusal("clean - --engine spark", "standard input can't be combined with --engine spark"),
    Refusal("clean - --format parquet", "standard input can't be Parquet or Arrow"),
    Refusal("clean a.jsonl -o - --against all.db --update", "requires an --output that is a file"),
]
TASKS = [
    Refusal("clean in -o out --task 9/8", "such as 3/1000"),
    Refusal("clean in -o out --task 1", "such as 3/1000"),
    Refusal("clean in -o out --stage sketch", "--stage requires --task"),
    Refusal("clean in -o out --task 2/8 --stage group", "the first one"),
    Refusal("clean in -o out --task 2/8 --unit line", "--unit can't be combined with --task"),
    Refusal("clean in -o out --task 2/8 --dry-run", "--dry-run can't be combined with --task"),
    Refusal("clean in --task 2/8 -o out.jsonl", "a folder to write to"),
    Refusal("clean in --task 2/8 -o whole", "whole exists"),
    Refusal("clean in -o out --task 2/8 --against esdedup.db", "--against"),
]
AGAINST_ITEMS = "--against items.jsonl --share 0.8"
DECONTAMINATE = [
    Refusal("decontaminate a.jsonl -o out --share 0.8", "decontaminate requires --against"),
    Refusal(f"decontaminate a.jsonl -o out {AGAINST_ITEMS} --engine spark", "No such option"),
    Refusal(f"decontaminate a.jsonl -o out {AGAINST_ITEMS} -t 0.5", "No such option: -t"),
    Refusal("decontaminate a.jsonl -o out --share 0.8 --unit line", "No such option: --unit"),
    Refusal(
        f"decontaminate a.jsonl -o out {AGAINST_ITEMS} --mask --text-field a --text-field b",
        "requires one",
    ),
    Refusal("decontaminate a.jsonl -o out --share 0", "--share"),
    Refusal("decontaminate a.jsonl -o out --share 1.1", "--share"),
    Refusal(
        f"decontaminate {AGAINST_ITEMS}",
        "items are found by passages: index the documents of index 'documents'",
    ),
    Refusal(f"decontaminate {AGAINST_ITEMS} --mask", "--mask requires FILES"),
    Refusal(f"decontaminate {AGAINST_ITEMS} -t 0.5", "No such option: -t"),
    Refusal(f"decontaminate {AGAINST_ITEMS} -k 5", "No such option: -k"),
    Refusal(f"decontaminate {AGAINST_ITEMS} --apply --action mark -y", "--action delete or move"),
    Refusal("decontaminate --share 0.8", "decontaminate requires --against"),
    Refusal("decontaminate --against none.jsonl --share 0.8", "none.jsonl"),
]
SCHEME = [
    Refusal("scheme --shingle word", "--shingle word"),
    Refusal("scheme --threshold 1", "threshold 1.0"),
    Refusal("scheme --threshold 1e-13", "more than can be permutations"),
    Refusal("scheme --threshold 0.0001 --recall 0.999", "needs 69075 permutations"),
    Refusal("scheme --documents inf", "--documents"),
    Refusal("scheme --sample 5 --scheme x.json", "leave out --scheme"),
    Refusal("scheme --scheme absent.json", "scheme file absent.json"),
    Refusal("scheme --output absent/x.json", "--output absent/x.json"),
]
CONNECTION = [
    Refusal("pairs --url http://h:1 --username u", "both a user name and a password"),
    Refusal("pairs --url http://h:1 --api-key k --bearer-token t", "give one of"),
    Refusal("pairs --url http://h:1 --ca-certs f", "https"),
    Refusal("pairs --url https://h:1 --ca-certs absent.pem", "CA file absent.pem"),
    Refusal("pairs --username u", "--username requires a cluster (--url)"),
    *(
        Refusal(
            f"stats --url http://h:1 --retry-for '{time}'",
            f"--retry-for: '{time}' is not a time such as 30s, 5m, 1h or 0",
        )
        for time in ("m", "5 minutes", "-1s", "1d", "nan", "1e3")
    ),
    Refusal("stats --url http://127.0.0.1:9", "can't be reached", status=1),
    Refusal("check -i news --role dance --product opensearch", "index-new, similar"),
    Refusal("check -i news --role pairs", "name the product"),
    Refusal("check -i news --role dedup-move --product opensearch", "give --to"),
    Refusal("check -i news --product opensearch", "require --role"),
]


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of files and an index, which a refused command leaves unchanged."""
    folder = tmp_path_factory.mktemp("refusals")
    for name in ("a.jsonl", "b.jsonl", "in/1.jsonl", "in/2.jsonl", "whole/1.jsonl"):
        (folder / name).parent.mkdir(exist_ok=True)
        write_lines(folder / name, RECORDS)
    write_lines(folder / "items.jsonl", [{"text": words(1)}])
    write_lines(folder / "other.jsonl", [{"a": 1}])
    (folder / "a.csv").write_text("text\nx\n", "utf-8")
    (folder / "a.doc").touch()
    (folder / "folder.parquet").mkdir()
    fill_index(folder / "esdedup.db", RECORDS)
    return folder


def state() -> dict[str, object]:
    """Return the bytes of all files, and for those of a database the indices that they hold."""
    contents: dict[str, object] = {
        str(file): file.read_bytes()
        for file in Path().rglob("*")
        if file.is_file() and not file.name.startswith("esdedup.db")
    }
    return {**contents, "indices": run_command("list", status=0).json}


@pytest.fixture
def unchanged(shared_folder: Path) -> Iterator[None]:
    """Run a test in the folder, and assert that it has changed nothing."""
    with chdir(shared_folder):
        before = state()
        yield
        assert state() == before


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "refusal",
    [
        *INDEX,
        *SIMILAR,
        *PAIRS,
        *GROUP,
        *REMOVAL,
        *CLEAN,
        *TASKS,
        *DECONTAMINATE,
        *SCHEME,
        *CONNECTION,
    ],
    ids=str,
)
def test_a_wrong_command_says_why_and_changes_nothing(refusal: Refusal) -> None:
    ran = run_command(*shlex.split(refusal.command), status=refusal.status)
    # A message in a frame may be broken anywhere.
    assert refusal.message in re.sub(r"[\s│]+", " ", ran.err)
    assert ran.out == ""

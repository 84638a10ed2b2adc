"""The command line as a person or a program uses it.

Commands run in this process, but for signals, pipes, encodings and how the program starts.
"""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from esdedup.cli.app import COMMANDS, app
from tests.helpers.commands import Ran, call, fill, run_command, write_lines
from tests.helpers.processes import await_documents, input_without_end, start_command
from tests.servers.proxy import Proxy, Received, credentials, product_of

ESDEDUP = str(Path(sys.executable).parent / "esdedup")
ROOT = Path(__file__).parents[2]
ARTICLES = [
    {"id": "a", "text": "The council met on Monday and voted for the new bridge over the river."},
    {"id": "b", "text": "The council met on Monday and voted for the new bridge over the canal."},
    {"id": "c", "text": "Rain is expected in the hills tonight, with wind from the north."},
    {"id": "d", "text": "今天下午三点，市图书馆举行读书会，欢迎大家参加。"},
    {"id": "e", "text": "今天下午四点，市图书馆举行读书会，欢迎大家参加！"},
    {"id": "f", "text": "[bold]markup[/bold] stays as it is written here"},
]


def place() -> dict[str, str]:
    """The entries of reports that name the index and its place."""
    return {"index": "documents", "address": str(Path("esdedup.db").absolute())}


def counts(**given: int) -> dict[str, Any]:
    """A report of index; the other counts are 0."""
    names = "read created updated unchanged skipped failed dropped moved renamed"
    names += " duplicates exact truncated duplicate_ids without_words"
    return {**dict.fromkeys(names.split(), 0), **given, **place()}


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    write_lines(folder / "articles.jsonl", ARTICLES)
    return folder


def run(*arguments: str, status: int = 0, **options: Any) -> Ran:
    """Run a command in this process; `options` are those of run_command."""
    done = run_command(*arguments, **options)
    assert done.status == status, done
    assert "Traceback" not in done.err
    return done


def test_the_whole_path_on_a_local_file() -> None:
    assert run("index", "articles.jsonl").json == [counts(read=6, created=6)]
    pairs = run("pairs").json
    assert [(pair["left"], pair["right"]) for pair in pairs] == [("a", "b"), ("d", "e")]
    assert pairs[0]["similarity"] == 11 / 13
    (result,) = run("similar", "--id", "a").json
    assert result["query"] == "a"
    assert [match["id"] for match in result["matches"]] == ["b"]
    assert result["truncated"] is False
    (near,) = run("similar", "--text", ARTICLES[3]["text"], "--sketch", "simhash", "-d", "9").json
    assert near["matches"][0] == {"id": "d", "distance": 0, "matched": 4}
    (stats,) = run("stats").json
    assert (stats["documents"], stats["sketched"], stats["text_fields"]) == (6, 6, ["text"])
    (again,) = run("index", "articles.jsonl").json
    assert (again["created"], again["unchanged"]) == (0, 6)


def test_help_lists_at_most_twelve_own_options_and_names_the_rest() -> None:
    for name in app.list_commands(typer.Context(app)):
        shown = run(name, "--help").out
        listed = shown[shown.index("Options:") :]
        own = {*re.findall(r"^  (?:-\w, )?(--[a-z-]+)", listed, re.M)} - {"--json", "--help"}
        assert len(own) <= 12, (name, own)
        assert "TEXT" not in shown
        assert "--api-key" not in shown
        assert ("esdedup help connection" in shown) == (
            name not in ("proxy", "settings", "examples")
        )
        assert max(map(len, shown.splitlines())) <= 80
        assert "Example: esdedup " in shown
        (summary,) = (some[name].summary for some in COMMANDS.values() if name in some)
        assert summary == shown.splitlines()[2].strip()
    connection = run("help", "connection").out.split()
    assert {"--url", "--index", "--api-key", "--ca-certs"} <= {*connection}
    whole = run("help", "group").out
    order = ["Options:", "--threshold NUMBER", "More options:", "--max-per-bucket N "]
    assert sorted(order, key=whole.index) == order
    assert "--exact  " in whole
    assert run("help").out == run("--help").out


def test_other_names_of_commands_and_options_are_corrected() -> None:
    for name, meant in (
        ("search", "similar"),
        ("delete", "dedup or drop"),
        ("gruop", "group or drop"),
    ):
        assert run(name, status=2).err == (
            f"Error: there is no command {name!r}. Did you mean {meant}?\n"
        )
    assert "--threshold" in run("group", "--treshold", "1", status=2).err
    assert "there is no topic 'x'" in run("help", "x", status=2).err


@pytest.mark.on_every_server
def test_indices_are_listed_and_dropped(url: str, name: str) -> None:
    for target in (["--db", "a.db"], ["--url", url]):
        # A file that is missing is an error.
        status = 1 if "--db" in target else 0
        assert name not in [each["index"] for each in run("list", *target, status=status).json]
        run("index", "articles.jsonl", "-i", name, *target)
        listed = {each["index"]: each for each in run("list", *target).json}
        assert listed[name]["documents"] == 6
        assert name in run("list", "--table", *target).out
        kept = run("drop", "-i", name, *target, status=2)
        assert "6 documents" in kept.err
        assert "pass --yes" in kept.err
        run("drop", "-i", name, *target, "--yes")
        assert name not in [each["index"] for each in run("list", *target).json]
        run("drop", "-i", name, *target, "--yes", status=1)


def test_bad_records_go_to_the_dead_letter_and_the_rest_go_on(folder: Path) -> None:
    bad = {
        "{broken": "not valid JSON",
        '{"id": "2"}': "'text' is missing",
        '{"id": "3", "text": 7}': "not text but int",
        "[1]": "array",
        '{"text": "\\ud800"}': "surrogate",
        '{"text": "\udcff"}': "0xff",
        '{"text": "x", "n": NaN}': "NaN",
        '{"id": true, "text": "x"}': "neither text nor a whole number",
    }
    write_lines(folder / "mixed.jsonl", [ARTICLES[0], *bad, ARTICLES[2]])
    done = run("index", "mixed.jsonl", status=1)
    assert done.json == [counts(read=10, created=2, failed=8)]
    assert "mixed.jsonl:2: not valid JSON" in done.err
    assert "8 of 10 records were not indexed: see documents.dead-letter.jsonl" in done.err
    lines = Path("documents.dead-letter.jsonl").read_text("utf-8").splitlines()
    for letter, (at, reason) in zip(map(json.loads, lines), enumerate(bad.values()), strict=True):
        assert (letter["line"], reason in letter["reason"]) == (at + 2, True), letter


USAGE = [
    (["index", "absent.jsonl"], "absent.jsonl: there is no such file"),
    (["index", "articles.jsonl", "--format", "xml"], "xml"),
    (["index", "articles.jsonl", "--scheme", "absent.json"], "scheme file absent.json"),
    (["index"], "Missing argument"),
    (["group", "--work", ""], "--work is empty"),
    (
        ["similar", "--text", "x", "--id", "a"],
        "one of --text, --file, --id, --bits, --vector and --batch",
    ),
    (["similar", "--text", "x", "-t", "1.5"], "threshold 1.5"),
    (["similar", "--text", "x", "--sketch", "simhash", "-t", "0.5"], "--threshold can't be"),
    (
        ["similar", "--text", "x", "-t", "0.5", "--nearest"],
        "--nearest can't be combined with --threshold",
    ),
    (["pairs", "--url", "http://h:1", "--username", "u"], "both a user name and a password"),
    (["pairs", "--url", "http://h:1", "--api-key", "k", "--bearer-token", "t"], "give one of"),
    (["pairs", "--url", "http://h:1", "--ca-certs", "f"], "https"),
    (["pairs", "--url", "https://h:1", "--ca-certs", "absent.pem"], "CA file absent.pem"),
    (["scheme", "--shingle", "word"], "--shingle word"),
    (["pairs", "--username", "u"], "--username requires a cluster (--url)"),
    (["index", "articles.jsonl", "-t", "0.95"], "--threshold requires --on-duplicate"),
    (["index", "articles.jsonl", "--sketch", "simhash"], "--sketch requires --on-duplicate"),
    (["group", "-t", "0.9", "articles.jsonl"], "group reads an index: run `esdedup index FILES`"),
    (["report", "articles.jsonl", "-o", "page.html"], "report reads an index"),
    (["review", "articles.jsonl"], "review reads an index"),
    (["dedup", "--keep", "longest", "articles.jsonl"], "`esdedup clean FILES -o OUT`"),
    # What the question is about is checked before it is asked.
    (["undo", "absent.zst"], "log file absent.zst: No such file"),
]
FAILURES = [
    (["pairs", "--db", "absent.db"], "there is no file absent.db: index documents first"),
    (["pairs", "--index", "absent"], "index 'absent'"),
    (["similar", "--id", "nobody"], "no document 'nobody'"),
    (["pairs", "--db", "articles.jsonl"], "run `esdedup index articles.jsonl`"),
    (["index", "articles.jsonl", "--db", "no/such/folder.db"], "there is no folder no/such"),
    (["stats", "--url", "http://127.0.0.1:9"], "can't be reached"),
]


@pytest.mark.parametrize(
    ("arguments", "text", "status"),
    [(*case, 2) for case in USAGE] + [(*case, 1) for case in FAILURES],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_is_explained(arguments: list[str], text: str, status: int) -> None:
    run("index", "articles.jsonl")
    done = run(*arguments, status=status)
    assert text in re.sub(r"[\s│]+", " ", done.err)
    assert done.out == ""


def test_a_scheme_is_described() -> None:
    shown = run("scheme", "--table", "--documents", "1e8", "--signature", "128").out
    assert re.search(r"up to 7 +│ guaranteed with 68 terms", shown)
    assert "6,103.5" in shown
    assert "single values" in shown


@pytest.mark.parametrize(
    ("options", "told", "recall"),
    [
        ("--id a -t 0.3", "at Jaccard 0.3 about 60.9% are found. An index with the sch", 0.6086),
        ("--id a -t 0.8", "", 1.0),
        # The default scheme reaches the recall that is promised by default, and no more.
        ("--id a", "", 0.975),
        ("--id a --recall 0.5", "", 0.799),
        ("--id a --recall 0.999", "97.5% are found, less than", 0.975),
        ("--id a -t 0.7 --recall 0.99999", "99.992% are found, less than --recall 99.999%", 1.0),
        ("--id a --sketch simhash", "", None),
        ("--id a --nearest -k 3", "Only 1 of 3 were found", None),
        ("--text hello", "The text has 1 word, fewer than the 3 of a shingle", 0.975),
        ("--text ...", "The text has no words", 1.0),
    ],
)
def test_an_answer_says_what_it_can_find(options: str, told: str, recall: float | None) -> None:
    run("index", "articles.jsonl")
    done = run("similar", *options.split())
    assert (told in done.err, bool(told)) == (True, bool(done.err))
    assert done.json[0]["expected_recall"] == pytest.approx(recall, abs=1e-3)


def test_a_part_of_a_document_is_no_document() -> None:
    sentence = "The council met on Monday and voted for the new bridge over the river."
    report = " ".join(f"Sentence {number} of a long report." for number in range(40))
    write_lines(Path("long.jsonl"), [{"id": "long", "text": f"{sentence} {report}"}])
    run("index", "long.jsonl")
    run("index", "long.jsonl", "--passages", "--db", "passages.db")
    search = ["similar", "--text", sentence, "--table"]
    whole = run(*search).err
    assert "The text has 14 words, and whole texts are compared" in whole
    assert "An index with --passages finds documents that share 12 words in a row" in whole
    assert "No similar documents (Jaccard similarity of 0.5 or more)" in whole
    # 80 words are few beside documents of 254.
    part = " ".join(report.split()[:80])
    assert "The text has 80 words, and half of the documents have 254 or more. Whole texts" in (
        run("similar", "--text", part).err
    )
    other = " ".join(f"word{number}" for number in range(150))
    assert "are compared" not in run("similar", "--text", other).err
    place = ["--db", "passages.db"]
    assert "--sketch passages finds documents that share 12 words" in run(*search, *place).err
    assert "long" in run(*search, *place, "--sketch", "passages").out
    assert "A full-text search finds" in run("similar", "--text", "the council met").err


def test_a_missing_file_is_named_by_every_command() -> None:
    for command in ("list", "stats", "pairs", "group", "dedup", "report", "similar --id a"):
        ran = run(*command.split(), "--db", "nope.db", status=1)
        assert "there is no file nope.db: index documents first" in ran.err
    assert not Path("nope.db").exists()


def test_results_name_their_threshold() -> None:
    run("index", "articles.jsonl")
    assert run("pairs", "-t", "0.99", "--table").err == (
        "No similar pairs (Jaccard similarity of 0.99 or more)\n"
    )
    assert "Grouped by: Jaccard similarity of 0.8 or more" in run("group", "--table").err
    assert "of 6 documents (Jaccard similarity of 0.6 or more)" in run("dedup", "-t", "0.6").err
    assert "among 6 documents (equal texts)" in run("dedup", "--exact").err
    by_bits = run("pairs", "--sketch", "simhash", "--distance", "9", "--table")
    assert "(Hamming distance of 9 bits or less)" in by_bits.out + by_bits.err
    nearest = run("similar", "--id", "a", "--nearest", "--table")
    assert "or more" not in nearest.out


def test_all_matches_are_counted() -> None:
    same = [{"id": str(n), "text": f"one two three four five six {n}"} for n in range(30)]
    write_lines(Path("same.jsonl"), same)
    run("index", "same.jsonl")
    done = run("similar", "--id", "0")
    (answer,) = done.json
    assert (len(answer["matches"]), answer["matches_total"], answer["truncated"]) == (10, 29, False)
    shown = run("similar", "--id", "0", "--table").err
    assert shown == "10 of 29 matches shown; -k 29 shows all\n"
    assert run("similar", "--id", "0", "--table", "-k", "29").err == ""


def test_the_end_of_a_batch_does_not_depend_on_its_order() -> None:
    run("index", "articles.jsonl")
    lines = [{"id": "x", "text": "!"}, *ARTICLES[:2]]
    for some in (lines, lines[::-1]):
        write_lines(Path("batch.jsonl"), some)
        shown = run("similar", "--batch", "batch.jsonl", "-t", "0.3").err
        assert shown.startswith("2 of 3 texts: Of documents at Jaccard 0.3 about 60.9% are found")
        assert shown.count("\n") == 1


def test_without_colours_shared_words_are_in_brackets() -> None:
    run("index", "articles.jsonl")
    here = {**terminal_of(120), "NO_COLOR": "1"}
    assert "⟦" in run("explain", "a", "b", terminal=True, environment=here).out
    assert "⟦" not in run("explain", "a", "b", terminal=True, environment=terminal_of(120)).out


def test_the_nearest() -> None:
    run("scheme", "--signature", "128", "--output", "nearest.json")
    run("index", "articles.jsonl", "--scheme", "nearest.json")
    done = run("similar", "--id", "d", "--nearest", "-k", "1")
    assert [match["id"] for match in done.json[0]["matches"]] == ["e"]
    assert done.err == ""
    done = run("similar", "--batch", "articles.jsonl", "--nearest", "-k", "2")
    assert len(done.json) == 6
    assert "6 of 6 texts: Fewer than -k matches" in done.err
    (body,) = run("query", "--text", "one two three four", "--nearest").json
    assert len(body["query"]["bool"]["should"]) == 128
    assert "esdedup.signature" in json.dumps(body["query"])


def test_a_terminal_gets_tables_and_a_pipe_lines_of_json() -> None:
    run("index", "articles.jsonl")
    shown = in_terminal("pairs")
    assert "2 near-duplicate pairs (Jaccard similarity of 0.5 or more)" in shown
    assert "今天下午三点" in shown
    assert '{"left"' in in_terminal("pairs", "--json")
    assert "[bold]markup[/bold]" in in_terminal("similar", "--text", ARTICLES[5]["text"])
    batch = in_terminal("similar", "--batch", "articles.jsonl")
    assert re.search(r"│ a +│ +0.\d{3} │ b ", batch)
    assert '{"query"' not in batch
    piped = run("pairs", "--table").out
    assert "near-duplicate pairs" in piped
    assert "\x1b" not in piped


def test_a_narrow_terminal_loses_no_column() -> None:
    """It wraps the lines itself."""
    run("index", "articles.jsonl")
    run("index", "articles.jsonl", "--id-field", "text")
    shown = in_terminal("stats", "--hot", "2", columns=40)
    for heading in ("token", "position", "documents", "share", "id", "text"):
        assert re.search(f"┃ +{heading} +┃", shown)
    assert "minhash:" in shown


@pytest.mark.parametrize("command", ["similar --id d -t 0.3", "pairs -t 0.3", "explain d e"])
def test_output_that_takes_plain_characters_only(command: str) -> None:
    run("index", "articles.jsonl")
    for form in ("--table", "--json"):
        with Path("plain").open("w", encoding="ascii") as plain:
            run(*command.split(), form, out=plain)
        shown = Path("plain").read_text("ascii")
        assert ("???" in shown) == (form == "--table")
    # JSON needs no other characters.
    assert json.loads(shown.splitlines()[-1]) == run(*command.split()).json[-1]


def in_terminal(*arguments: str, columns: int = 120) -> str:
    """Return the text that a terminal shows, without colours."""
    done = run(*arguments, terminal=True, environment=terminal_of(columns))
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.out + done.err)


def terminal_of(columns: int) -> dict[str, str]:
    return {"COLUMNS": str(columns), "TERM": "xterm"}


def test_a_reader_that_goes_away_is_no_crash() -> None:
    texts = ("same words here " * n for n in range(2, 302))
    write_lines(Path("many.jsonl"), [{"id": str(len(text)), "text": text} for text in texts])
    run("index", "many.jsonl")
    done = subprocess.run(
        f"{ESDEDUP} pairs -t 0.8 | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["similarity"] == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)],
)
def test_a_killed_run_is_completed_by_doing_it_again(number: int, status: int) -> None:
    records = [{"id": str(n), "text": f"text number {n} of many " * 20} for n in range(6_000)]
    write_lines(Path("big.jsonl"), records)
    with input_without_end(Path("big.jsonl").read_text()) as lines:
        process = start_command("index", "-", stdin=lines, stderr=subprocess.PIPE)
        await_documents(process, Path("esdedup.db"))
        process.send_signal(number)
        _, shown = process.communicate(timeout=60)
    assert "Traceback" not in shown
    assert process.returncode == status
    (report,) = run("index", "big.jsonl").json
    # The lines came by another name, but have ids of their own.
    assert report["created"] + report["unchanged"] == 6_000
    assert report["unchanged"] > 0
    (stats,) = run("stats").json
    assert stats["documents"] == stats["sketched"] == 6_000


@pytest.mark.on_every_server
def test_backfill_reports_documents_that_came_meanwhile(url: str, name: str) -> None:
    here = ("-i", name, "--url", url)
    call(url, "PUT", f"/{name}", {"settings": {"number_of_replicas": 0}})
    fill(url, name, {"a": {"text": ARTICLES[0]["text"]}})
    run("attach", *here)

    plans: list[str] = []

    def with_another_writer(request: Received) -> None:
        if request.path == f"/_resolve/index/{name}":
            plans.append(request.path)
            # Documents are counted before they are filled, and again when they are.
            if len(plans) == 2:
                fill(url, name, {"late": {"text": ARTICLES[1]["text"]}, "bare": {"n": 1}})

    with Proxy(url, product_of(url)) as proxy:
        proxy.on_request = with_another_writer
        left = run("backfill", "-i", name, "--url", proxy.url, status=1)
    assert len(plans) == 2
    assert "1 document without tokens left: run this again" in left.err
    assert run("backfill", *here).json[0]["written"] == 1


@pytest.mark.on_every_server
def test_credentials_are_used_and_never_shown(url: str, name: str) -> None:
    run("index", "articles.jsonl", "--url", url, "--index", name)
    (stats,) = run("stats", "--url", url, "--index", name).json
    product = "opensearch" if "OpenSearch" in stats["store"] else "elasticsearch"
    accepted = (
        credentials("ann", "pa:ss word"),
        credentials("key", "hidden1", "ApiKey"),
        "Bearer hidden2",
    )
    with Proxy(url, product, tls=True, accepted=accepted) as proxy:
        here = ["stats", "--index", name, "--url", proxy.url]
        trusted = [*here, "--ca-certs", proxy.ca_file]
        run(*trusted, "--username", "ann", "--password", "pa:ss word")
        run(*trusted, "--api-key", "key:hidden1")
        run(*trusted, environment={"ESDEDUP_BEARER_TOKEN": "hidden2"})
        inside = proxy.url.replace("https://", "https://ann:pa%3Ass%20word@")
        run("stats", "--index", name, "--url", inside, "--cert-fingerprint", proxy.fingerprint)
        assert "requires credentials (401), and none are given" in run(*trusted, status=1).err
        wrong = run(*trusted, "--username", "ann", "--password", "guessed9", status=1)
        assert "refused the credentials" in wrong.err
        assert "guessed9" not in wrong.err
        assert "--ca-certs" in run(*here, status=1).err
        run(*here, "--cert-fingerprint", proxy.fingerprint[::-1], status=1)
    plain = run("stats", "--index", name, "--url", url.replace("http:", "https:"), status=1)
    assert "try http://" in plain.err


def test_a_run_that_the_server_ends_names_what_it_did(url: str, name: str) -> None:
    with Proxy(url, "elasticsearch") as proxy:
        proxy.fail_next(99, 503)
        here = ("--url", proxy.url, "--index", name, "--retry-for", "1s")
        done = run("index", "articles.jsonl", *here, status=1)
    assert "Gave up after 1s" in done.err
    assert "Before this: 0 records, 0 created" in done.err
    assert "Run the same command again to resume" in done.err


def test_the_sample_of_the_readme() -> None:
    truth = [line.split("\t") for line in (ROOT / "examples/truth.tsv").read_text().splitlines()]
    run("index", str(ROOT / "examples" / "articles.jsonl"))
    found = {(pair["left"], pair["right"]): pair["similarity"] for pair in run("pairs").json}
    assert found == {(a, b): pytest.approx(float(value), abs=5e-4) for a, b, value in truth}

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
from tests.helpers.commands import call, fill, read_lines, run_command, write_lines
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
    names += " duplicates exact truncated duplicate_ids replaced_originals without_words"
    return {**dict.fromkeys(names.split(), 0), **given, **place()}


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    write_lines(folder / "articles.jsonl", ARTICLES)
    return folder


def test_the_whole_path_on_a_local_file() -> None:
    assert run_command("index", "articles.jsonl", status=0).json == [counts(read=6, created=6)]
    pairs = run_command("pairs", status=0).json
    assert [(pair["left"], pair["right"]) for pair in pairs] == [("a", "b"), ("d", "e")]
    assert pairs[0]["similarity"] == 11 / 13
    (result,) = run_command("similar", "--id", "a", status=0).json
    assert result["query"] == "a"
    assert [match["id"] for match in result["matches"]] == ["b"]
    assert result["truncated"] is False
    (near,) = run_command(
        "similar", "--text", ARTICLES[3]["text"], "--sketch", "simhash", "-d", "9", status=0
    ).json
    assert near["matches"][0] == {"id": "d", "distance": 0, "matched": 4}
    (stats,) = run_command("stats", status=0).json
    assert (stats["documents"], stats["sketched"], stats["text_fields"]) == (6, 6, ["text"])
    (again,) = run_command("index", "articles.jsonl", status=0).json
    assert (again["created"], again["unchanged"]) == (0, 6)


def test_help_lists_at_most_twelve_own_options_and_names_the_rest() -> None:
    for name in app.list_commands(typer.Context(app)):
        shown = run_command(name, "--help", status=0).out
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
    connection = run_command("help", "connection", status=0).out.split()
    assert {"--url", "--index", "--api-key", "--ca-certs"} <= {*connection}
    whole = run_command("help", "group", status=0).out
    order = ["Options:", "--threshold NUMBER", "More options:", "--max-per-bucket N "]
    assert sorted(order, key=whole.index) == order
    assert "--exact  " in whole
    assert run_command("help", status=0).out == run_command("--help", status=0).out


def test_other_names_of_commands_and_options_are_corrected() -> None:
    for name, meant in (
        ("search", "similar"),
        ("delete", "dedup or drop"),
        ("gruop", "group or drop"),
    ):
        assert run_command(name, status=2).err == (
            f"Error: there is no command {name!r}. Did you mean {meant}?\n"
        )
    assert "--threshold" in run_command("group", "--treshold", "1", status=2).err
    assert "there is no topic 'x'" in run_command("help", "x", status=2).err


@pytest.mark.on_every_server
def test_indices_are_listed_and_dropped(url: str, name: str) -> None:
    for target in (["--db", "a.db"], ["--url", url]):
        # A file that is missing is an error.
        status = 1 if "--db" in target else 0
        assert name not in [
            each["index"] for each in run_command("list", *target, status=status).json
        ]
        run_command("index", "articles.jsonl", "-i", name, *target, status=0)
        listed = {each["index"]: each for each in run_command("list", *target, status=0).json}
        assert listed[name]["documents"] == 6
        assert name in run_command("list", "--table", *target, status=0).out
        kept = run_command("drop", "-i", name, *target, status=2)
        assert "6 documents" in kept.err
        assert "pass --yes" in kept.err
        run_command("drop", "-i", name, *target, "--yes", status=0)
        assert name not in [each["index"] for each in run_command("list", *target, status=0).json]
        run_command("drop", "-i", name, *target, "--yes", status=1)


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
    done = run_command("index", "mixed.jsonl", status=1)
    assert done.json == [counts(read=10, created=2, failed=8)]
    assert "mixed.jsonl:2: not valid JSON" in done.err
    assert "8 of 10 records were not indexed: see documents.dead-letter.jsonl" in done.err
    letters = read_lines("documents.dead-letter.jsonl")
    for letter, (at, reason) in zip(letters, enumerate(bad.values()), strict=True):
        assert (letter["line"], reason in letter["reason"]) == (at + 2, True), letter


def test_a_scheme_is_described() -> None:
    shown = run_command(
        "scheme", "--table", "--documents", "1e8", "--signature", "128", status=0
    ).out
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
    run_command("index", "articles.jsonl", status=0)
    done = run_command("similar", *options.split(), status=0)
    assert (told in done.err, bool(told)) == (True, bool(done.err))
    assert done.json[0]["expected_recall"] == pytest.approx(recall, abs=1e-3)


def test_a_part_of_a_document_is_no_document() -> None:
    sentence = "The council met on Monday and voted for the new bridge over the river."
    report = " ".join(f"Sentence {number} of a long report." for number in range(40))
    write_lines(Path("long.jsonl"), [{"id": "long", "text": f"{sentence} {report}"}])
    run_command("index", "long.jsonl", status=0)
    run_command("index", "long.jsonl", "--passages", "--db", "passages.db", status=0)
    search = ["similar", "--text", sentence, "--table"]
    whole = run_command(*search, status=0).err
    assert "The text has 14 words, and whole texts are compared" in whole
    assert "An index with --passages finds documents that share 12 words in a row" in whole
    assert "No similar documents (Jaccard similarity of 0.5 or more)" in whole
    # 80 words are few beside documents of 254.
    part = " ".join(report.split()[:80])
    assert "The text has 80 words, and half of the documents have 254 or more. Whole texts" in (
        run_command("similar", "--text", part, status=0).err
    )
    other = " ".join(f"word{number}" for number in range(150))
    assert "are compared" not in run_command("similar", "--text", other, status=0).err
    place = ["--db", "passages.db"]
    assert (
        "--sketch passages finds documents that share 12 words"
        in run_command(*search, *place, status=0).err
    )
    assert "long" in run_command(*search, *place, "--sketch", "passages", status=0).out
    assert (
        "A full-text search finds"
        in run_command("similar", "--text", "the council met", status=0).err
    )


def test_a_missing_file_is_named_by_every_command() -> None:
    for command in ("list", "stats", "pairs", "group", "dedup", "report", "similar --id a"):
        ran = run_command(*command.split(), "--db", "nope.db", status=1)
        assert ran.err == "Error: there is no file nope.db: index documents first\n"
    assert not Path("nope.db").exists()


def test_who_names_no_place_is_told_how_to_name_a_cluster() -> None:
    advice = "index documents first, or name the cluster: --url or ESDEDUP_URL\n"
    for command in ("list", "stats", "pairs", "group", "dedup", "similar --id a", "drop --yes"):
        ran = run_command(*command.split(), status=1)
        assert ran.err == f"Error: there is no file esdedup.db: {advice}"
    run_command("index", "articles.jsonl", status=0)
    ran = run_command("stats", "-i", "other", status=1)
    assert "index 'other' in esdedup.db does not exist" in ran.err
    assert ran.err.endswith(advice)
    ran = run_command("stats", "-i", "other", "--db", "esdedup.db", status=1)
    assert ran.err.endswith("index documents first\n")
    ran = run_command("stats", "-i", "other", environment={"ESDEDUP_DB": "esdedup.db"}, status=1)
    assert ran.err.endswith("index documents first\n")


def test_results_name_their_threshold() -> None:
    run_command("index", "articles.jsonl", status=0)
    assert run_command("pairs", "-t", "0.99", "--table", status=0).err == (
        "No similar pairs (Jaccard similarity of 0.99 or more)\n"
    )
    assert (
        "Grouped by: Jaccard similarity of 0.8 or more"
        in run_command("group", "--table", status=0).err
    )
    assert (
        "of 6 documents (Jaccard similarity of 0.6 or more)"
        in run_command("dedup", "-t", "0.6", status=0).err
    )
    assert "among 6 documents (equal texts)" in run_command("dedup", "--exact", status=0).err
    by_bits = run_command("pairs", "--sketch", "simhash", "--distance", "9", "--table", status=0)
    assert "(Hamming distance of 9 bits or less)" in by_bits.out + by_bits.err
    nearest = run_command("similar", "--id", "a", "--nearest", "--table", status=0)
    assert "or more" not in nearest.out


def test_all_matches_are_counted() -> None:
    same = [{"id": str(n), "text": f"one two three four five six {n}"} for n in range(30)]
    write_lines(Path("same.jsonl"), same)
    run_command("index", "same.jsonl", status=0)
    done = run_command("similar", "--id", "0", status=0)
    (answer,) = done.json
    assert (len(answer["matches"]), answer["matches_total"], answer["truncated"]) == (10, 29, False)
    shown = run_command("similar", "--id", "0", "--table", status=0).err
    assert shown == "10 of 29 matches shown; -k 29 shows all\n"
    assert run_command("similar", "--id", "0", "--table", "-k", "29", status=0).err == ""


def test_the_end_of_a_batch_does_not_depend_on_its_order() -> None:
    run_command("index", "articles.jsonl", status=0)
    lines = [{"id": "x", "text": "!"}, *ARTICLES[:2]]
    for some in (lines, lines[::-1]):
        write_lines(Path("batch.jsonl"), some)
        shown = run_command("similar", "--batch", "batch.jsonl", "-t", "0.3", status=0).err
        assert shown.startswith("2 of 3 texts: Of documents at Jaccard 0.3 about 60.9% are found")
        (left_out,) = shown.splitlines()[1:]
        assert left_out.startswith("2 of 3 texts: The document of the same id and text is left out")


def test_without_colours_shared_words_are_in_brackets() -> None:
    run_command("index", "articles.jsonl", status=0)
    here = {**terminal_of(120), "NO_COLOR": "1"}
    assert "⟦" in run_command("explain", "a", "b", terminal=True, environment=here, status=0).out
    assert (
        "⟦"
        not in run_command(
            "explain", "a", "b", terminal=True, environment=terminal_of(120), status=0
        ).out
    )


def test_the_nearest() -> None:
    run_command("scheme", "--signature", "128", "--output", "nearest.json", status=0)
    run_command("index", "articles.jsonl", "--scheme", "nearest.json", status=0)
    done = run_command("similar", "--id", "d", "--nearest", "-k", "1", status=0)
    assert [match["id"] for match in done.json[0]["matches"]] == ["e"]
    assert done.err == ""
    done = run_command("similar", "--batch", "articles.jsonl", "--nearest", "-k", "2", status=0)
    assert len(done.json) == 6
    assert "6 of 6 texts: Fewer than -k matches" in done.err
    (body,) = run_command("query", "--text", "one two three four", "--nearest", status=0).json
    assert len(body["query"]["bool"]["should"]) == 128
    assert "esdedup.signature" in json.dumps(body["query"])


def test_a_terminal_gets_tables_and_a_pipe_lines_of_json() -> None:
    run_command("index", "articles.jsonl", status=0)
    shown = in_terminal("pairs")
    assert "2 near-duplicate pairs (Jaccard similarity of 0.5 or more)" in shown
    assert "今天下午三点" in shown
    assert '{"left"' in in_terminal("pairs", "--json")
    assert "[bold]markup[/bold]" in in_terminal("similar", "--text", ARTICLES[5]["text"])
    batch = in_terminal("similar", "--batch", "articles.jsonl")
    assert re.search(r"│ a +│ +0.\d{3} │ b ", batch)
    assert '{"query"' not in batch
    piped = run_command("pairs", "--table", status=0).out
    assert "near-duplicate pairs" in piped
    assert "\x1b" not in piped


def test_a_narrow_terminal_loses_no_column() -> None:
    """It wraps the lines itself."""
    run_command("index", "articles.jsonl", status=0)
    run_command("index", "articles.jsonl", "--id-field", "text", status=0)
    shown = in_terminal("stats", "--hot", "2", columns=40)
    for heading in ("token", "position", "documents", "share", "id", "text"):
        assert re.search(f"┃ +{heading} +┃", shown)
    assert "minhash:" in shown


@pytest.mark.parametrize("command", ["similar --id d -t 0.3", "pairs -t 0.3", "explain d e"])
def test_output_that_takes_plain_characters_only(command: str) -> None:
    run_command("index", "articles.jsonl", status=0)
    for form in ("--table", "--json"):
        with Path("plain").open("w", encoding="ascii") as plain:
            run_command(*command.split(), form, out=plain, status=0)
        shown = Path("plain").read_text("ascii")
        assert ("???" in shown) == (form == "--table")
    # JSON needs no other characters.
    assert json.loads(shown.splitlines()[-1]) == run_command(*command.split(), status=0).json[-1]


def in_terminal(*arguments: str, columns: int = 120) -> str:
    """Return the text that a terminal shows, without colours."""
    done = run_command(*arguments, terminal=True, environment=terminal_of(columns), status=0)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.out + done.err)


def terminal_of(columns: int) -> dict[str, str]:
    return {"COLUMNS": str(columns), "TERM": "xterm"}


def test_a_reader_that_goes_away_is_no_crash() -> None:
    texts = ("same words here " * n for n in range(2, 302))
    write_lines(Path("many.jsonl"), [{"id": str(len(text)), "text": text} for text in texts])
    run_command("index", "many.jsonl", status=0)
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
    (report,) = run_command("index", "big.jsonl", status=0).json
    # The lines came by another name, but have ids of their own.
    assert report["created"] + report["unchanged"] == 6_000
    assert report["unchanged"] > 0
    (stats,) = run_command("stats", status=0).json
    assert stats["documents"] == stats["sketched"] == 6_000


@pytest.mark.on_every_server
def test_backfill_reports_documents_that_came_meanwhile(url: str, name: str) -> None:
    here = ("-i", name, "--url", url)
    call(url, "PUT", f"/{name}", {"settings": {"number_of_replicas": 0}})
    fill(url, name, {"a": {"text": ARTICLES[0]["text"]}})
    run_command("attach", *here, status=0)

    plans: list[str] = []

    def with_another_writer(request: Received) -> None:
        if request.path == f"/_resolve/index/{name}":
            plans.append(request.path)
            # Documents are counted before they are filled, and again when they are.
            if len(plans) == 2:
                fill(url, name, {"late": {"text": ARTICLES[1]["text"]}, "bare": {"n": 1}})

    with Proxy(url, product_of(url)) as proxy:
        proxy.on_request = with_another_writer
        left = run_command("backfill", "-i", name, "--url", proxy.url, status=1)
    assert len(plans) == 2
    assert "1 document without tokens left: run this again" in left.err
    assert run_command("backfill", *here, status=0).json[0]["written"] == 1


@pytest.mark.on_every_server
def test_credentials_are_used_and_never_shown(url: str, name: str) -> None:
    run_command("index", "articles.jsonl", "--url", url, "--index", name, status=0)
    (stats,) = run_command("stats", "--url", url, "--index", name, status=0).json
    product = "opensearch" if "OpenSearch" in stats["store"] else "elasticsearch"
    accepted = (
        credentials("ann", "pa:ss word"),
        credentials("key", "hidden1", "ApiKey"),
        "Bearer hidden2",
    )
    with Proxy(url, product, tls=True, accepted=accepted) as proxy:
        here = ["stats", "--index", name, "--url", proxy.url]
        trusted = [*here, "--ca-certs", proxy.ca_file]
        run_command(*trusted, "--username", "ann", "--password", "pa:ss word", status=0)
        run_command(*trusted, "--api-key", "key:hidden1", status=0)
        run_command(*trusted, environment={"ESDEDUP_BEARER_TOKEN": "hidden2"}, status=0)
        inside = proxy.url.replace("https://", "https://ann:pa%3Ass%20word@")
        run_command(
            "stats",
            "--index",
            name,
            "--url",
            inside,
            "--cert-fingerprint",
            proxy.fingerprint,
            status=0,
        )
        assert (
            "requires credentials (401), and none are given" in run_command(*trusted, status=1).err
        )
        wrong = run_command(*trusted, "--username", "ann", "--password", "guessed9", status=1)
        assert "refused the credentials" in wrong.err
        assert "guessed9" not in wrong.err
        assert "--ca-certs" in run_command(*here, status=1).err
        run_command(*here, "--cert-fingerprint", proxy.fingerprint[::-1], status=1)
    plain = run_command("stats", "--index", name, "--url", url.replace("http:", "https:"), status=1)
    assert "try http://" in plain.err


def test_a_run_that_the_server_ends_names_what_it_did(url: str, name: str) -> None:
    with Proxy(url, "elasticsearch") as proxy:
        proxy.fail_next(99, 503)
        here = ("--url", proxy.url, "--index", name, "--retry-for", "1s")
        done = run_command("index", "articles.jsonl", *here, status=1)
    assert "Gave up after 1s" in done.err
    assert "Before this: 0 records, 0 created" in done.err
    assert "Run the same command again to resume" in done.err


def test_the_sample_of_the_readme() -> None:
    truth = [line.split("\t") for line in (ROOT / "examples/truth.tsv").read_text().splitlines()]
    run_command("index", str(ROOT / "examples" / "articles.jsonl"), status=0)
    found = {
        (pair["left"], pair["right"]): pair["similarity"]
        for pair in run_command("pairs", status=0).json
    }
    assert found == {(a, b): pytest.approx(float(value), abs=5e-4) for a, b, value in truth}

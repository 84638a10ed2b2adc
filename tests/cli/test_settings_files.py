"""Settings files, what shows the settings that hold, and the options that help lists."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from tests.helpers.commands import run_command, write_lines

RECORDS = [
    {"id": "a", "text": "The council met on Monday and voted for the new bridge over the river."},
    {"id": "b", "text": "The council met on Monday and voted for the new bridge over the canal."},
]
"""Two documents whose similarity is 11/13."""
DRY = ["clean", "articles.jsonl"]


@pytest.fixture(autouse=True)
def articles(folder: Path) -> None:
    write_lines(folder / "articles.jsonl", RECORDS)


def write(text: str, path: str = "esdedup.toml") -> None:
    Path(path).write_text(text, "utf-8")


def removed(*options: str) -> int:
    (report,) = run_command(*DRY, *options, status=0).json
    number: int = report["removed"]
    return number


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("esdedup.toml", "threshold = 0.9\n"),
        ("esdedup.toml", "[clean]\nthreshold = 0.9\n"),
        ("esdedup.toml", "threshold = 0.5\nclean.threshold = 0.9\n"),
        ("pyproject.toml", "[project]\nname = 'x'\n[tool.esdedup]\nthreshold = 0.9\n"),
        ("pyproject.toml", "[tool.esdedup.clean]\nthreshold = 0.9\n"),
    ],
)
def test_a_file_in_the_folder_sets_what_options_set(path: str, text: str) -> None:
    assert removed() == 1
    write(text, path)
    assert removed() == 0
    assert removed("--threshold", "0.8") == 1


def test_a_named_file_replaces_that_of_the_folder() -> None:
    write("threshold = 0.9\n")
    write("[clean]\nkeep = 'last'\n", "other.toml")
    (report,) = run_command(*DRY, "--settings", "other.toml", status=0).json
    assert report["largest"][0]["id"] == "b"
    write("[project]\nname = 'esdedup'\n", "pyproject.toml")
    refused = run_command(*DRY, "--settings", "pyproject.toml", status=2)
    assert refused.err == "Error: settings file pyproject.toml: there is no [tool.esdedup]\n"


def test_esdedup_toml_counts_before_pyproject_toml() -> None:
    write("[tool.esdedup]\nthreshold = 0.9\n", "pyproject.toml")
    write("threshold = 0.8\n")
    assert removed() == 1


def test_a_variable_counts_before_the_file_and_an_option_before_both() -> None:
    run_command("index", "articles.jsonl", "--db", "of-file.db", status=0)
    write("index = 'of-file'\ndb = 'of-file.db'\n")
    variables = {"ESDEDUP_INDEX": "of-variable"}
    assert "'of-file' in of-file.db" in run_command("stats", status=1).err
    assert (
        "'of-variable' in of-file.db" in run_command("stats", status=1, environment=variables).err
    )
    ran = run_command("stats", "-i", "of-option", status=1, environment=variables)
    assert "'of-option' in of-file.db" in ran.err


def test_a_place_of_the_command_line_counts_before_that_of_the_file() -> None:
    write("url = 'http://127.0.0.1:9'\nretry_for = '0'\n")
    assert "file my.db" in run_command("stats", "--db", "my.db", status=1).err
    variables = {"ESDEDUP_DB": "my.db"}
    assert "file my.db" in run_command("stats", status=1, environment=variables).err
    write("url = 'http://127.0.0.1:9'\ndb = 'my.db'\n")
    assert run_command("stats", status=2).err == (
        "Error: db in esdedup.toml, line 2 and url in esdedup.toml, line 1 name two places:"
        " leave one out\n"
    )


def test_an_option_counts_before_what_it_excludes_in_the_file() -> None:
    write("threshold = 0.9\n")
    assert removed("--exact") == 0
    write("[clean]\nexact = true\n")
    assert removed() == 0
    assert removed("--threshold", "0.8") == 1
    write("[clean]\nexact = true\nthreshold = 0.8\n")
    refused = run_command(*DRY, status=2).err
    assert "--exact can't be combined with --threshold (" in refused
    assert "exact is set in esdedup.toml, line 2" in refused


def test_settings_for_all_do_not_reach_what_they_do_not_mean() -> None:
    """A fingerprint to look for is no field of fingerprints."""
    run_command("index", "articles.jsonl", status=0)
    write("bits = 'phash:64'\nthreshold = 0.8\n")
    (result,) = run_command("similar", "--id", "a", status=0).json
    assert [match["id"] for match in result["matches"]] == ["b"]


def test_an_action_for_all_counts_only_where_something_is_changed() -> None:
    """A command without the action still shows what it would remove."""
    run_command("index", "articles.jsonl", "--passages", status=0)
    write("action = 'mark'\n")
    command = ["decontaminate", "--against", "articles.jsonl"]
    shown = run_command(*command, status=0)
    assert shown.json[0]["removed"] == 2
    assert "--apply --action delete or move" in shown.err
    refused = run_command(*command, "--apply", "--yes", status=2).err
    assert "decontaminate requires --action delete or move" in refused
    assert "action is set in esdedup.toml, line 1" in refused
    run_command(*command, "--apply", "--action", "delete", "--yes", status=0)


FAULTS = [
    (
        "threshhold = 0.9",
        "line 1: no command has the setting 'threshhold': did you mean threshold?",
    ),
    (
        "[clean]\n\ntext-field = ['x']",
        "line 3: clean has no setting 'text-field': did you mean text_field?",
    ),
    ("[claen]\nkeep = 'last'", "line 1: there is no command 'claen': did you mean clean?"),
    ("[clean]\nthreshold = 'x'", "line 2: threshold: use a number, not text"),
    ("threshold = true", "line 1: threshold: use a number, not true or false"),
    ("[clean]\nexact = 1", "line 2: exact: use true or false, not a whole number"),
    ("[clean]\ntext_field = 'x'", "line 2: text_field: use a list of texts, not text"),
    ("[clean]\nengine = 'dask'", "line 2: engine: use 'local', 'spark'"),
    ("[clean]\nmax_memory = 'much'", "line 2: max_memory: 'much' is not a size"),
    ("[clean]\nworkers = 0", "line 2: workers 0: use 1 or more"),
    (
        "[clean]\nthreshold = 1.5",
        "up to 1 (threshold is set in esdedup.toml, line 2)",
    ),
    ("[clean]\noutput = ''", "line 2: output is empty"),
    (
        "output = 'x'",
        "line 1: output differs by command: set it in the table of a command, such as [clean]",
    ),
    ("yes = true", "line 1: yes can't be set in a file"),
    ("[clean]\nx.y = 1", "clean has no setting 'x'"),
    ("threshold = ", "settings file esdedup.toml: Invalid value (at"),
    ("index = 'a'\n[index]\nthreshold = 0.9", "a name is either set for all commands"),
    ("[clean]\nupdate = true\ntask = '1/2'", "line 2: update can't be combined with --task"),
]


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_a_fault_of_a_file_is_named_with_its_line(text: str, fault: str) -> None:
    write(text)
    assert fault in run_command(*DRY, status=2).err


def test_no_file_confirms_a_removal() -> None:
    run_command("index", "articles.jsonl", status=0)
    write("[dedup]\napply = true\naction = 'delete'\n")
    assert (
        "apply can't be set in a file: it is an option of each run"
        in run_command("dedup", status=2).err
    )


def test_what_is_only_for_changes_does_not_hinder_a_look() -> None:
    run_command("index", "articles.jsonl", status=0)
    write("[dedup]\naction = 'move'\nto = 'duplicates'\n")
    assert run_command("dedup", status=0).json == [
        {"keep": "a", "duplicates": [{"id": "b", "similarity": pytest.approx(11 / 13)}]}
    ]


def test_shown_settings_are_a_file_that_sets_the_same() -> None:
    write("threshold = 0.9\n[clean]\nkeep = 'last'\n")
    options = ["--text-field", "title", "--text-field", "text", "--max-memory", "1GB"]
    # What a command requires may be missing.
    shown = run_command(
        "clean", *options, "--show-settings", environment={"ESDEDUP_INDEX": "n"}, status=0
    ).out
    assert "threshold = 0.9  # esdedup.toml, line 1\n" in shown
    assert 'keep = "last"  # esdedup.toml, line 3\n' in shown
    assert 'index = "n"  # environment: ESDEDUP_INDEX\n' in shown
    assert 'text_field = ["title", "text"]  # option --text-field\n' in shown
    assert "# max_repeats = 1  # default\n" in shown
    assert "# workers  # default: one per core for large files, at most 4\n" in shown
    values = {
        "threshold": 0.9,
        "keep": "last",
        "index": "n",
        "text_field": ["title", "text"],
        "max_memory": 1 << 30,
    }
    assert tomllib.loads(shown) == {"clean": values}
    write(shown, "saved.toml")
    again = run_command("clean", "--settings", "saved.toml", "--show-settings", status=0).out
    assert tomllib.loads(again) == {"clean": values}


def test_shown_settings_have_no_secrets() -> None:
    write("password = 'hidden'\nurl = 'http://user:hidden@host'\n")
    shown = run_command(
        "pairs", "--show-settings", environment={"ESDEDUP_API_KEY": "hidden"}, status=0
    ).out
    assert "hidden" not in shown
    assert "# api_key is set, and not shown  # environment: ESDEDUP_API_KEY\n" in shown
    assert tomllib.loads(shown) == {"pairs": {}}


def test_the_command_settings_shows_what_is_set_for_all_commands() -> None:
    nothing = "# All other settings are defaults: esdedup COMMAND --show-settings\n"
    assert run_command("settings", status=0).out == nothing
    write("threshold = 0.9\n[pairs]\noutput = 'pairs.parquet'\nk = 5\n")
    shown = run_command("settings", environment={"ESDEDUP_INDEX": "news"}, status=0).out
    assert tomllib.loads(shown) == {
        "index": "news",
        "threshold": 0.9,
        "pairs": {"output": "pairs.parquet", "k": 5},
    }
    write("[pairs]\nkk = 1\n", "other.toml")
    assert (
        "pairs has no setting 'kk'"
        in run_command("settings", "--settings", "other.toml", status=2).err
    )


def listed(*arguments: str) -> set[str]:
    """The options of a help, other than those of schemes."""
    shown = run_command(*arguments, status=0).out
    options = re.findall(r"^  (?:-\w, )?(--?[a-z-]+)", shown[shown.index("Options:") :], re.M)
    of_schemes = {"--scheme", "--sketch", "--bits", "--vectors", "--passages"}
    return set(options) - of_schemes - {"--json", "--help", "-h"}


@pytest.mark.parametrize("command", ["clean", "decontaminate", "pairs"])
def test_full_help_lists_at_most_twelve_options(command: str) -> None:
    assert len(listed("help", command)) <= 12
    assert listed(command, "--help") <= listed("help", command)


def test_options_that_no_help_lists_are_settings_of_files_and_work() -> None:
    shown = run_command("help", "settings", status=0).out
    for setting in ("max-memory", "engine", "dead-letter", "dry-run", "max-per-bucket", "within"):
        assert re.search(rf"^  --{setting} ", shown, re.M), setting
    for option in ("--settings", "--show-settings", "--quiet"):
        assert option in shown
    assert "--max-memory" not in run_command("help", "clean", status=0).out
    (report,) = run_command(
        *DRY, "--max-memory", "1GB", "--format", "jsonl", "--recall", "0.9", status=0
    ).json
    assert report["removed"] == 1


def test_help_of_decontaminate_lists_the_field_that_names_its_items() -> None:
    assert "--id-field" in listed("help", "decontaminate")
    shown = run_command("help", "settings", status=0).out
    assert re.search(r"^  --workers ", shown, re.M)


def test_help_says_where_the_options_are_that_it_does_not_list() -> None:
    more = "More options, and settings in a file, esdedup.toml: see esdedup help settings"
    for command in ("clean", "decontaminate", "pairs"):
        for arguments in ((command, "--help"), ("help", command)):
            assert run_command(*arguments, status=0).out.splitlines()[-1] == more
    assert more not in run_command("help", "group", status=0).out


def test_help_of_decontaminate_offers_the_actions_that_it_has() -> None:
    assert "--action [delete|move]" in run_command("help", "decontaminate", status=0).out
    assert "--action [delete|mark|move]" in run_command("help", "dedup", status=0).out
    write_lines(Path("items.jsonl"), RECORDS[:1])
    apply = run_command("decontaminate", "--against", "items.jsonl", "--apply", status=2)
    assert apply.err == "Error: --apply requires --action: delete or move (with --to)\n"
    # An action that is for duplicates only does not hinder the command on files.
    write("action = 'mark'\n")
    ran = run_command("decontaminate", "articles.jsonl", "--against", "items.jsonl", status=0)
    assert ran.json[0]["removed"] == 2


def test_help_lists_no_option_that_a_command_refuses() -> None:
    for shown in (
        run_command("help", "decontaminate", status=0).out,
        run_command("help", "settings", status=0).out,
    ):
        assert "--bits" not in shown
        assert "--passages" not in shown
    write_lines(Path("items.jsonl"), RECORDS[:1])
    files = ["decontaminate", "articles.jsonl", "--against", "items.jsonl"]
    refused = run_command(*files, "--bits", "phash:64", status=2).err
    assert refused == "Error: --bits can't be combined with decontaminate\n"
    write("bits = 'phash:64'\n")
    assert json.loads(run_command(*files, status=0).out)["removed"] == 2
    write("[decontaminate]\nbits = 'phash:64'\n")
    assert "decontaminate has no setting 'bits'" in run_command(*files, status=2).err

"""Seconds of each test and of each folder, from the JUnit file that pytest writes.

python -m tools.durations JUNIT TSV
"""

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree


def seconds_of_tests(junit: Path) -> Counter[str]:
    """Return the seconds of each test, with its setup and teardown, by its module and name."""
    seconds = Counter[str]()
    for case in ElementTree.parse(junit).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        seconds[name] += float(case.get("time", 0))  # type: ignore[assignment]
    return seconds


def folder_of(test: str) -> str:
    """Return the folder of a test below tests/."""
    return test.partition("::")[0].split(".")[1]


def main(junit: str, tsv: str) -> None:
    """Write the seconds of all tests, slowest first, and print those of the folders."""
    seconds = seconds_of_tests(Path(junit))
    rows = [f"{value:.2f}\t{test}\n" for test, value in seconds.most_common()]
    target = Path(tsv)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("seconds\ttest\n" + "".join(rows), "utf-8")
    folders, tests = Counter[str](), Counter[str]()
    for test, value in seconds.items():
        folders[folder_of(test)] += value
        tests[folder_of(test)] += 1
    for folder, value in folders.most_common():
        print(f"{value:8.0f} s {tests[folder]:6} tests  tests/{folder}")
    total = sum(folders.values())
    print(f"{total:8.0f} s {sum(tests.values()):6} tests, of all processes: see {tsv}")


if __name__ == "__main__":
    main(*sys.argv[1:])

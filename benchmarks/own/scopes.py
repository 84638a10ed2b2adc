"""Groups within scopes: time and memory of many scopes beside none.

    python -m benchmarks.own.scopes [--events 1000000] [--scopes 100000] [--characters 200]
        [--within none,event,date,"event and date"] [--json FILE]

Made-up texts, of which 30% are in groups of two to six near-duplicates, as
in `groups`. Each event has one of the scopes, and a time of one month; the events of a group have
the same scope, but every other one, and times in any order. `clean` is a process of its own, whose
time and peak memory are taken: without a scope, within the scope (`event`), within three days
(`date:3d`), and within both.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from benchmarks.lib.measuring import ESDEDUP, Figures, run
from benchmarks.lib.planted import planted

_THRESHOLD = 0.8
_DAYS = 30
_SECONDS_A_DAY = 86_400
WITHIN: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "event": ("event",),
    "date": ("date:3d",),
    "event and date": ("event", "date:3d"),
}
"""The scopes that are measured, by their names in the result."""


def write_events(file: Path, events: int, scopes: int, characters: int) -> None:
    """Write events as JSON lines."""
    texts, groups = planted(events, characters=characters)
    rng = np.random.default_rng(1)
    seconds = rng.integers(0, _DAYS * _SECONDS_A_DAY, events).tolist()
    other_scopes = rng.integers(0, scopes, events).tolist()
    begin = datetime(2026, 1, 1)
    with file.open("w", encoding="utf-8") as lines:
        for row, (text, group) in enumerate(zip(texts, groups, strict=True)):
            event = {
                "id": str(row),
                "text": text,
                "event": other_scopes[row] if row % 2 else group % scopes,
                "date": (begin + timedelta(seconds=seconds[row])).isoformat(),
            }
            lines.write(json.dumps(event) + "\n")


def measure(file: Path, names: list[str]) -> Figures:
    """Return the figures of `clean` within each scope. names: of `WITHIN`."""
    figures: Figures = {}
    for name in names:
        out, printed = file.with_name(f"out {name}"), file.with_name("printed")
        options = [option for field in WITHIN[name] for option in ("--within", field)]
        command = [*ESDEDUP, "clean", str(file), "-o", str(out), "-t", str(_THRESHOLD)]
        figures[name] = run([*command, "--json", "--workers", "1", *options], printed)
        report = json.loads(printed.read_text("utf-8"))
        figures[name]["removed"] = report["removed"]
    return figures


def main() -> None:
    """Measure, and print the figures as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--scopes", type=int, default=100_000)
    parser.add_argument("--characters", type=int, default=200)
    parser.add_argument("--within", default=",".join(WITHIN))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures: Figures = {"events": arguments.events, "scopes": arguments.scopes}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "events.jsonl"
        write_events(file, arguments.events, arguments.scopes, arguments.characters)
        figures |= measure(file, arguments.within.split(","))
    text = json.dumps(figures, indent=1)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()

"""A run owns its folder: it does a step once, and refuses the work of others."""

import json
from pathlib import Path

import numpy as np
import pytest

import esdedup
from esdedup.exceptions import StoreUnavailable
from esdedup.runs.run import LISTED_FILES, Run

JOB = {"threshold": 0.8, "files": ("a.jsonl",)}


def test_a_step_is_done_once(tmp_path: Path) -> None:
    calls = list[int]()

    def compute() -> int:
        calls.append(1)
        return len(calls)

    for _ in range(3):
        assert Run(tmp_path).once("step.json", compute) == 1
    assert calls == [1]


def test_arrays_are_loaded_as_they_were_saved(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.save("arrays", {"numbers": np.arange(3), "names": np.zeros((2, 0))})
    arrays = run.load("arrays")
    assert (arrays["numbers"].tolist(), arrays["names"].shape) == ([0, 1, 2], (2, 0))
    (tmp_path / "arrays").write_bytes(b"damaged")
    with pytest.raises(esdedup.exceptions.StoreError, match="a file is damaged: remove the folder"):
        run.load("arrays")


def test_a_folder_belongs_to_one_job(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for _ in range(2):
        run.claim(JOB)
        assert run.claimed
    with pytest.raises(esdedup.UsageError, match=r"another threshold \(0.8, not 0.9\)"):
        Run(tmp_path).claim({**JOB, "threshold": 0.9})


def test_a_parameter_that_a_job_no_longer_has_is_another(tmp_path: Path) -> None:
    earlier = {"files": 2, "within": "source", "state of b": "1", LISTED_FILES: "ab"}
    later = {"files": 2, "within": None, "state of c": "2", LISTED_FILES: "ac"}
    without_scope = {name: value for name, value in earlier.items() if name != "within"}
    for job, difference in (
        (without_scope, r"another within \(source, not None\)"),
        ({**earlier, "delimiter": ";"}, r"another delimiter \(None, not ;\)"),
        ({**later, "within": "source"}, r"another state of c \(None, not 2\)"),
        ({"files": 2, "within": "source", LISTED_FILES: "a"}, r"another state of b \(1, not None"),
        ({**earlier, LISTED_FILES: "ba"}, "another list of files"),
    ):
        with Run.at(tmp_path / "run") as run:
            run.claim(earlier)
            with pytest.raises(esdedup.UsageError, match=difference):
                run.claim(job)
            run.claim({**earlier, "delimiter": None})


def test_a_run_of_another_version_is_refused(tmp_path: Path) -> None:
    with Run.at(tmp_path / "work") as run:
        (tmp_path / "work/job.json").write_text(json.dumps({"threshold": 0.8, "shares": 1}))
        with pytest.raises(esdedup.UsageError, match="a run of another version of esdedup"):
            run.claim({"threshold": 0.8}, replace=True)
    assert not run.claimed


def test_a_folder_of_nothing_is_removed(tmp_path: Path) -> None:
    with Run.at(tmp_path / "work") as run:
        assert run.folder.exists()
        with pytest.raises(StoreUnavailable), Run.at(tmp_path / "work"):
            pass
    assert not run.folder.exists()
    with Run.at(tmp_path / "work") as run:
        run.claim(JOB)
    assert {file.name for file in run.folder.iterdir()} == {"job.json", "lock"}


def test_all_files_but_some_are_removed(tmp_path: Path) -> None:
    run = Run(tmp_path / "work")
    with run.lock("wait"):
        run.claim(JOB)
    for name in ("sketch-1/state.json", "sketch-2/records", "done.json"):
        run.write(name, b"")
    assert len(run.names()) == 5
    run.remove_others({"done.json"})
    assert run.names() == {"job.json", "done.json"}

"""The Job of the page on many jobs is valid, its tasks run together, and its command exists."""

import re
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.containers.conftest import ROOT
from tools.docs import blocks_of, check_command

PAGE = (ROOT / "docs" / "how-to" / "clean-with-many-jobs.md").read_text("utf-8")
(MANIFEST,) = [block.body for block in blocks_of(PAGE) if block.title == "clean-job.yaml"]
JOB: dict[str, Any] = yaml.safe_load(MANIFEST)
POD: dict[str, Any] = JOB["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
(COMMAND,) = CONTAINER["args"]


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_the_job_is_valid(version: str) -> None:
    kubernetes_validate.validate(JOB, version, strict=True)


def test_all_tasks_run_at_the_same_time() -> None:
    assert JOB["spec"]["completions"] == JOB["spec"]["parallelism"]
    assert f"--task $((JOB_COMPLETION_INDEX + 1))/{JOB['spec']['completions']}" in COMMAND


def test_the_command_is_one_that_the_program_takes() -> None:
    check_command(re.sub(r"\$\(\(.*?\)\)", "1", COMMAND))


def test_the_container_writes_to_volumes_alone() -> None:
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]
    mounted = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert mounted.keys() == {volume["name"] for volume in POD["volumes"]}
    assert {*mounted.values()} == {"/tmp", "/data"}

"""The example for Kubernetes: valid, and its numbers fit each other."""

from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.containers.conftest import ROOT
from tools.commands import COMMANDS

OBJECTS: dict[str, Any] = {
    found["kind"]: found
    for found in yaml.safe_load_all((ROOT / "examples" / "kubernetes.yaml").read_text("utf-8"))
}
POD: dict[str, Any] = OBJECTS["Deployment"]["spec"]["template"]["spec"]
PROXY: dict[str, Any] = POD["containers"][0]
SETTINGS = {
    name.removeprefix("ESDEDUP_PROXY_").lower(): value
    for name, value in OBJECTS["ConfigMap"]["data"].items()
}


@pytest.mark.parametrize("version", ["1.30", "1.37"])
@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_are_valid(kind: str, version: str) -> None:
    kubernetes_validate.validate(OBJECTS[kind], version, strict=True)


def test_settings_are_options_of_the_proxy() -> None:
    known = {option.name for option in COMMANDS["proxy"].params}
    assert SETTINGS.keys() <= known


def test_the_pod_has_the_memory_and_the_time_that_the_settings_need() -> None:
    memory = int(PROXY["resources"]["limits"]["memory"].removesuffix("Mi"))
    assert memory >= 2 * int(SETTINGS["max_memory"].removesuffix("MB"))
    assert POD["terminationGracePeriodSeconds"] > int(SETTINGS["grace_seconds"]) + 5


def test_files_of_the_settings_are_mounted_from_the_secret() -> None:
    (mount,) = [each for each in PROXY["volumeMounts"] if each["name"] == "tls"]
    files = {SETTINGS[name] for name in ("ca_certs", "certificate", "key")}
    assert files == {f"{mount['mountPath']}/{key}" for key in OBJECTS["Secret"]["stringData"]}

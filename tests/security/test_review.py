"""The work of the pages of review, as a user who has its role and nothing else."""

from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup.admin.roles import role
from esdedup.exceptions import PermissionDenied
from tests.security.scenarios import DOCUMENTS, filled
from tests.security.users import Secured
from tests.servers.secured import PASSWORD


def opened(secured: Secured, name: str) -> esdedup.Index:
    known: Any = {"username": name, "password": PASSWORD, "ca_certs": secured.ca_file}
    return esdedup.open(secured.url, name, **known)


def test_review_looks_at_everything_and_changes_nothing(secured: Secured, name: str) -> None:
    filled(secured, name)
    secured.judge(name)
    secured.make_user(name, role("review", secured.product, name))
    with opened(secured, name) as index:
        assert len(index.judgements.read().pairs) == 1
        assert index.groups().duplicates == 4
        assert index.explain("d0", "d1").duplicates
        assert index.statistics().documents == len(DOCUMENTS)
        with pytest.raises(PermissionDenied, match="403"):
            index.judgements.judge("d0", "d1", "different")
        with pytest.raises(PermissionDenied, match="403"):
            index.dedup("delete", apply=True, log="log.zst")
    secured.ask("POST", f"/{name}/_refresh")
    assert secured.ask("GET", f"/{name}/_count")["count"] == len(DOCUMENTS)


def test_review_with_write_judges_removes_and_undoes(secured: Secured, name: str) -> None:
    filled(secured, name)
    secured.make_user(name, role("review-write", secured.product, name))
    with opened(secured, name) as index:
        found = index.groups()
        index.judgements.judge("d0", "d1", "different")
        index.judgements.judge("d2", "d3", "unsure")
        index.judgements.remove("d2", "d3")
        index.judgements.represent("d5")
        assert [each.verdict for each in index.judgements.read().pairs] == ["different"]
        found = index.regroup(found, ["d0", "d4"])
        assert found.duplicates == 3
        for action in ("mark", "delete"):
            log = Path(f"{action}.zst")
            done = index.dedup(action, apply=True, log=log, groups=found)
            assert done.report is not None
            assert done.report.failures == []
            assert index.undo(log).restored == done.report.done

"""Errors of answers, of bodies as the servers send them; with servers: test_cluster_store.py."""

from typing import Any

import esdedup
from esdedup.exceptions import PermissionDenied
from esdedup.stores.elastic.errors import error_of, reason_of


def body(type: str, reason: str | None, **more: Any) -> dict[str, Any]:
    error = {"type": type, "reason": reason}
    return {"error": {"root_cause": [error], **error, **more}, "status": 0}


DENIED = "action [write] is unauthorized for user [reader] on indices [blockchain-news]"


def test_a_name_is_no_block() -> None:
    for denied in (body("security_exception", DENIED), "no blockchain for you"):
        assert isinstance(error_of(403, denied, "here"), PermissionDenied)


def test_an_index_is_missing_by_the_type_of_the_error() -> None:
    answer = body("index_not_found_exception", "no such index [news]", index="news")
    error = error_of(404, answer, "here")
    assert isinstance(error, esdedup.exceptions.IndexNotFound)
    assert str(error) == "here: there is no such index: news"
    other = body("document_missing_exception", "[index_not_found_exception]: document missing")
    assert not isinstance(error_of(404, other, "here"), esdedup.exceptions.IndexNotFound)


def test_the_deepest_cause_is_shown_once() -> None:
    assert reason_of(body("a_exception", "b")) == "a_exception: b"
    assert reason_of(body("a_exception", None)) == "a_exception"
    deepest = {"type": "c_exception", "reason": "d", "caused_by": {"type": "e", "reason": "f"}}
    assert reason_of(body("a_exception", "b", caused_by=deepest)) == "a_exception: b (e: f)"
    failed = {"type": "search_phase_execution_exception", "reason": "all shards failed"}
    shown = "search_phase_execution_exception: all shards failed"
    assert reason_of({"error": failed}) == shown
    assert reason_of({"error": {**failed, "root_cause": [], "failed_shards": []}}) == shown
    for causes in ({"root_cause": [deepest]}, {"failed_shards": [{"reason": deepest}]}):
        assert reason_of({"error": {**failed, **causes}}) == f"{shown} (e: f)"


def test_bodies_that_are_no_errors_of_a_server() -> None:
    answers: list[Any] = ["", None, "<html>", {"error": "plain"}, {"error": None}, []]
    for answer in answers:
        assert reason_of(answer)
        assert isinstance(error_of(500, answer, "here"), esdedup.exceptions.StoreError)

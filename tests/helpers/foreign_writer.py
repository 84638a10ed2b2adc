"""A client that writes by plain bulk requests, and its record of what must be there."""

import itertools
import random
import threading
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any

from tests.helpers.commands import call, words
from tests.servers.node import Node

Fields = dict[str, Any]
State = tuple[str, int] | None
"""The text and the number of a document, or None if there is none."""


REPEATED = {("create", 409), ("delete", 404)}
"""Verbs and statuses of actions that may be done all the same: a cluster that loses a server asks
another, which finds them done."""


class ForeignWriter(threading.Thread):
    """Changes, replaces, creates and deletes documents, and knows nothing of esdedup.

    Of each document it keeps the states that it may have: one if its last write was acknowledged or
    refused, several if an answer was lost or the write was repeated.

    known: documents of one text and a number "n", which it changes. index: holds them. newest: the
    index that it creates others in.
    """

    def __init__(self, nodes: Sequence[Node], known: dict[str, Fields], index: str) -> None:
        super().__init__(daemon=True)
        self.nodes, self.chance, self.numbers = nodes, random.Random(5), itertools.count(1)
        self.states: dict[str, set[State]] = {id: {(e["text"], e["n"])} for id, e in known.items()}
        self.texts, self.newest = [each["text"] for each in known.values()], index
        self.index_of = dict.fromkeys(known, index)
        self.acknowledged, self.ended = 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.1):
            changes = [self.change() for _ in range(6)]
            self.send({id: (verb, fields) for id, verb, fields in changes})

    def change(self) -> tuple[str, str, Fields]:
        """Choose a change: the id, the verb, and the fields."""
        number, id = next(self.numbers), self.chance.choice([*self.index_of])
        kind = self.chance.choice(["number", "number", "number", "update", "index", "create"])
        if kind == "create":
            id = f"w{number}"
            self.index_of[id], self.states[id] = self.newest, {None}
            return id, kind, {"text": words(10**6 + number, 12), "n": number}
        if id[0] == "w":
            # It has no duplicate, so no run deletes it: a log can't show who deleted a document.
            return (id, "delete", {}) if kind == "index" else (id, "update", {"n": number})
        if kind == "number":
            return id, "update", {"n": number}
        return id, kind, {"text": self.chance.choice(self.texts), "n": number}

    def send(self, changes: dict[str, tuple[str, Fields]]) -> None:
        lines: list[Any] = []
        for id, (verb, fields) in changes.items():
            lines.append({verb: {"_index": self.index_of[id], "_id": id}})
            lines += {"update": [{"doc": fields}], "delete": []}.get(verb, [fields])
        try:
            url = self.chance.choice(self.nodes).url
            items = call(url, "POST", "/_bulk?timeout=5s", lines)["items"]
            statuses = [each["status"] for item in items for each in item.values()]
        except (AssertionError, OSError, ValueError, HTTPException):
            statuses = [503] * len(changes)
            self.ended.wait(0.3)
        for (id, (verb, fields)), status in zip(changes.items(), statuses, strict=True):
            after = {changed(state, verb, fields) for state in self.states[id]}
            if status < 300:
                self.states[id] = after
                self.acknowledged += 1
            elif status not in (404, 409, 429) or (verb, status) in REPEATED:
                self.states[id] |= after


def changed(state: State, verb: str, fields: Fields) -> State:
    if verb == "delete" or (verb == "update" and state is None):
        return None
    return fields.get("text") or (state[0] if state else ""), fields["n"]

"""Preview which document of a group stays by another keep rule, before groups are found by it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from esdedup.compare.keep_rule import KeepRule, sort_keys
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Groups
from esdedup.models import Document
from esdedup.review.group_search import members_of
from esdedup.review.messages import message
from esdedup.review.pages import Parameters, Review
from esdedup.review.shown.texts import beginning_of, title_of
from esdedup.stores.fields import value_at
from esdedup.text.instants import instant_of
from esdedup.text.strings import Strings

_READ_AT_ONCE = 500
_EXAMPLES = 10
_WORDS = 80
"""Characters of the beginning of a text."""
_LARGEST = 200
"""Documents of a group, of which the page shows who would stay by each rule."""
WORDS_OF_RULES = ("first", "last", "longest", "shortest", "newest", "oldest", "highest", "lowest")
"""The words of the rules that the page offers, the last four of which need a field."""
_IN_WORDS = {
    "first": "the first id",
    "last": "the last id",
    "longest": "the longest text",
    "shortest": "the shortest text",
    "newest": "the newest by {field}",
    "oldest": "the oldest by {field}",
    "highest": "the highest by {field}",
    "lowest": "the lowest by {field}",
}
"""The document that each rule lets stay."""
_BY_FIELD = WORDS_OF_RULES[4:]


class Staying(NamedTuple):
    """A document that stays.

    id: of the document.
    title: the first shown field, or the beginning of its text.
    value: that the rule compares, in words.
    """

    id: str
    title: str
    value: str


class StayingChange(NamedTuple):
    """A group in which another document would stay.

    before, after: the document that stays.
    """

    before: Staying
    after: Staying


@dataclass(frozen=True)
class RulePreview:
    """The groups that another keep rule would change.

    rule: in the form of `keep`.
    groups: number of those that were read, the largest.
    unread: number of the others.
    changed: number of those read in which another document stays.
    examples: of them.
    """

    rule: str
    groups: int
    unread: int
    changed: int
    examples: list[StayingChange]


def rule_of(parameters: Parameters) -> KeepRule | None:
    """Return the rule that a form names; None if it names none. Raises UsageError."""
    word, field = parameters.get("keep", ""), parameters.get("field", "").strip()
    if not word:
        return None
    if word in _BY_FIELD and not field:
        raise UsageError("name the field whose values are compared")
    return KeepRule.parse(f"{word}:{field}" if word in _BY_FIELD else word)


def in_words(rule: KeepRule) -> str:
    """Return the document that a rule lets stay, in words."""
    if rule.by == "field":
        words = {"time": ("oldest", "newest")}.get(rule.compared, ("lowest", "highest"))
        return message(_IN_WORDS[words[rule.last]], {"field": rule.field})
    words = {"id": ("first", "last"), "length": ("shortest", "longest")}[rule.by]
    return message(_IN_WORDS[words[rule.last]])


def preview(review: Review, groups: Groups, rule: KeepRule) -> RulePreview:
    """Return what a rule would change in the largest groups, up to `previewed_documents`.

    Groups whose representative was chosen by hand keep it.
    """
    index = review.index
    chosen = set(index.judgements.read().representatives)
    sizes = groups.sizes
    most = int(np.searchsorted(sizes.cumsum(), review.previewed_documents, "right"))
    heads = groups.heads[: max(1, most)].tolist()
    rows_by_head = {head: [head] for head in heads}
    for row in groups.duplicate_rows.tolist():
        if (rows := rows_by_head.get(int(groups.representative[row]))) is not None:
            rows.append(row)
    rows = [row for members in rows_by_head.values() for row in members]
    paths = [*rule.paths(index.meta.text_fields)]
    documents = _read(review, [groups.ids[row] for row in rows], paths)
    # Of all groups in one call, because each call builds arrays.
    keys = precedence(rule, [*documents.values()], index.meta.text_fields)
    changes: list[tuple[str, str]] = []
    for head, members in rows_by_head.items():
        id = groups.ids[head]
        present = [groups.ids[row] for row in members if groups.ids[row] in keys]
        if id in chosen or not present:
            continue
        if (stays := min(present, key=keys.__getitem__)) != id:
            changes.append((id, stays))
    shown = changes[:_EXAMPLES]
    names = review.group_list.fields[:1]
    ids = [id for change in shown for id in change]
    texts = _read(review, ids, [*index.meta.text_fields, *names, *paths])
    examples = [
        StayingChange(*(staying(review, texts[id], rule) for id in change))
        for change in shown
        if {*change} <= texts.keys()
    ]
    unread = len(groups) - len(heads)
    return RulePreview(str(rule), len(heads), unread, len(changes), examples)


def staying(review: Review, document: Document, rule: KeepRule) -> Staying:
    """Return a document that stays by a rule."""
    text = review.index.meta.shown_text(document.source)
    beginning = beginning_of(text, _WORDS)
    if rule.by == "field":
        compared = value_at(document.source, str(rule.field))
        value = "–" if compared is None else str(compared)
    elif rule.by == "length":
        value = message("{n} character|{n} characters", {"n": len(text)})
    else:
        value = ""
    return Staying(document.id, title_of(document, review.show) or beginning, value)


def precedence(
    rule: KeepRule, documents: Sequence[Document], text_fields: Sequence[str]
) -> dict[str, bytes]:
    """Return bytes by id, of which the least is that of the document that a rule lets stay."""
    ids = [document.id for document in documents]
    keys = [*rule.keys(documents, text_fields).encoded()]
    return dict(zip(ids, sort_keys(rule, Strings.of(ids), keys), strict=True))


def candidates(review: Review, groups: Groups, head: int) -> dict[str, list[str]]:
    """Return the documents of a group that some rule lets stay, each with these rules in words."""
    rows = [head, *members_of(groups, head)]
    if len(rows) > _LARGEST:
        return {}
    text_fields, names = review.index.meta.text_fields, review.group_list.fields
    ids = [groups.ids[row] for row in rows]
    documents = [*_read(review, ids, [*text_fields, *names]).values()]
    if not documents:
        return {}
    rules = [KeepRule.parse(word) for word in ("first", "longest", "shortest")]
    for name in names:
        values = [value_at(document.source, name) for document in documents]
        if any(isinstance(value, str) and instant_of(value) for value in values):
            rules += [KeepRule.parse(f"newest:{name}"), KeepRule.parse(f"oldest:{name}")]
    rules_by_id: dict[str, list[str]] = {}
    for rule in rules:
        keys = precedence(rule, documents, text_fields)
        rules_by_id.setdefault(min(keys, key=keys.__getitem__), []).append(in_words(rule))
    return rules_by_id


def _read(review: Review, ids: Sequence[str], paths: list[str]) -> dict[str, Document]:
    """Return the documents that exist, by id."""
    if not paths:
        return {id: Document(id, {}) for id in ids}
    return {
        document.id: document
        for start in range(0, len(ids), _READ_AT_ONCE)
        for document in review.index.store.get(ids[start : start + _READ_AT_ONCE], paths)
    }

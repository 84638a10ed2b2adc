"""Random sequences of operations leave each store as a plain model of dicts says.

The groups are computed by brute force while no judgement is in force, and by the rules of
judgements otherwise. Policies for duplicates are held to their promises, not to one result.
"""

import contextlib
import copy
import functools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup.groups.groups import Groups
from esdedup.models import FIELD, natural
from esdedup.stores.judgements import PREFIX
from tests.conftest import delete_index
from tests.helpers.places import Place
from tests.helpers.reference import groups_of_edges, jaccard, normalise, shingles, words

THRESHOLD = 0.8
MARKS = ("group", "original", "similarity")
IDS = ["a1", "a2", "a10", "A1", "b", "cé", "d e", "x\ny", "🙂", "7", "07", "z" * 100]
IDS += [f"n{number}" for number in range(12)]
KEEP = ["first", "last", "longest", "shortest", "newest:n"]
WORDS = ["north", "south", "east", "west", "spring", "summer", "autumn", "winter", "red", "green"]

Entry = dict[str, Any]
"""Fields of a document as the caller wrote them, and its marks."""


@functools.cache
def shingles_of(text: str) -> set[int]:
    return set(shingles(words(normalise(text)), 3, 0))


def similarity(left: str, right: str) -> float:
    if normalise(left) == normalise(right):
        return 1.0
    return jaccard(shingles_of(left), shingles_of(right))


class Sequence:
    """One sequence: the index, and the model beside it."""

    def __init__(self, seed: int, place: Place, folder: Path) -> None:
        self.random, self.place, self.folder = random.Random(seed), place, folder
        self.docs: dict[str, Entry] = {}
        self.moved: dict[str, Entry] = {}
        self.judged: dict[frozenset[str], tuple[str, dict[str, str]]] = {}
        self.chosen: set[str] = set()
        self.logs: list[tuple[Path, str, dict[str, Entry]]] = []
        self.done: list[str] = []
        self.texts = ["!!!", "🙂", "one two", "One, two.", "今年 台風"]
        for family in range(4):
            base = [f"{self.random.choice(WORDS)}{family}" for _ in range(40)]
            for changed in (0, 0, 1, 1, 2, 12):
                copied = list(base)
                for _ in range(changed):
                    copied[self.random.randrange(40)] = f"other{self.random.randrange(1000)}"
                self.texts.append(" ".join(copied))
        self.index = esdedup.open(place.target, place.index)

    def run(self, operations: int) -> None:
        self.add()
        every = [self.add, self.arrive, self.update, self.delete, self.judge, self.unjudge]
        every += [self.represent, self.group, self.dedup, self.undo, self.search, self.reopen]
        for operation in self.random.choices(
            every, [6, 3, 2, 2, 2, 1, 1, 3, 5, 4, 2, 1], k=operations
        ):
            if self.docs:
                operation()
            else:
                self.add()
            self.check()

    def check(self) -> None:
        assert self.state_of(self.place.index) == self.docs, self.done
        assert self.state_of(f"{self.place.index}-moved") == self.moved, self.done
        kept = self.index.judgements.read()
        assert {frozenset((each.left, each.right)): each.verdict for each in kept.pairs} == {
            pair: verdict for pair, (verdict, _) in self.judged.items()
        }
        assert {*kept.representatives} == self.chosen

    def state_of(self, index: str) -> dict[str, Entry]:
        """Return each document as it is stored."""
        store = self.index.store.beside(index)
        if store.meta() is None:
            return {}
        found = {}
        for held in store.hold(IDS):
            source = {**held.document.source}
            ours = source.pop(FIELD, {})
            assert (ours.get("digest") is not None) == isinstance(source.get("text"), str)
            marks = {name: ours[name] for name in MARKS if ours.get(name) is not None}
            found[held.document.id] = {"source": source, "marks": marks}
        return found

    def text(self, id: str) -> str:
        return str(self.docs[id]["source"]["text"])

    @property
    def with_text(self) -> list[str]:
        return [id for id in sorted(self.docs) if self.docs[id]["source"].get("text") is not None]

    def new(self) -> list[dict[str, Any]]:
        ids = self.random.sample(IDS, self.random.randint(1, 8))
        made = [{"id": id, "text": self.random.choice(self.texts)} for id in ids]
        for document in made:
            if self.random.random() < 0.6:
                document["n"] = self.random.choice([1, 2, 3, 10, -1])  # type: ignore[assignment]
        return made

    def add(self) -> None:
        documents = self.new()
        if self.random.random() < 0.2:
            documents.append({**documents[0], "text": self.random.choice(self.texts)})
        self.done.append(f"add {documents}")
        self.index.add(documents)
        for document in {each["id"]: each for each in documents}.values():
            before = self.docs.get(document["id"])
            same = before is not None and before["source"].get("text") == document["text"]
            marks = before["marks"] if before is not None and same else {}
            self.docs[document["id"]] = {"source": document, "marks": marks}

    def arrive(self) -> None:
        """Add documents with a policy, which drops only duplicates and changes no others."""
        documents, action = self.new(), self.random.choice(["mark", "skip", "group"])
        self.done.append(f"{action} {documents}")
        self.index.add(documents, on_duplicate=action)  # type: ignore[arg-type]
        before, self.docs = self.docs, self.state_of(self.place.index)
        new = {each["id"]: each for each in documents}
        assert self.docs.keys() <= before.keys() | new.keys()
        for id in before.keys() - new.keys():
            assert self.docs[id] == before[id], self.done
        for id, document in new.items():
            if id in self.docs and self.docs[id]["source"] == document:
                original = self.docs[id]["marks"].get("original")
                named = {mark for each in before.values() for mark in each["marks"].values()}
                assert original in {None, *self.docs, *new, *named}, self.done
                continue
            assert action == "skip", self.done
            assert self.docs.get(id) == before.get(id), self.done
            others = [self.text(other) for other in self.with_text if other != id]
            assert any(similarity(text, document["text"]) >= THRESHOLD for text in others), (
                self.done
            )

    def update(self) -> None:
        id = self.random.choice(sorted(self.docs))
        fields: dict[str, Any] = {"id": id, "extra": {"k": self.random.randrange(3)}}
        if self.random.random() < 0.5:
            fields["text"] = self.random.choice([*self.texts, None])
        self.done.append(f"update {fields}")
        self.index.update([fields])
        former, text = self.docs[id]["source"].get("text"), fields.get("text")
        is_same = None not in (former, text) and normalise(former or "") == normalise(text or "")
        if "text" in fields and not is_same:
            self.docs[id]["marks"] = {"group": id}
        self.docs[id]["source"] = {**self.docs[id]["source"], **fields}

    def delete(self) -> None:
        ids = self.random.sample(IDS, 3)
        self.done.append(f"delete {ids}")
        assert self.index.delete(ids) == len(self.docs.keys() & ids)
        self.docs = {id: entry for id, entry in self.docs.items() if id not in ids}

    def judge(self) -> None:
        ids = self.with_text
        if len(ids) < 2:
            return
        left, right = self.random.sample(ids, 2)
        near = [
            id for id in ids if id != left and similarity(self.text(left), self.text(id)) >= 0.8
        ]
        right = self.random.choice(near or [right])
        verdict = self.random.choice(["duplicate", "different", "different", "unsure"])
        self.done.append(f"judge {left} {right} {verdict}")
        self.index.judgements.judge(left, right, verdict)  # type: ignore[arg-type]
        texts = {id: normalise(self.text(id)) for id in (left, right)}
        self.judged[frozenset(texts)] = verdict, texts

    def unjudge(self) -> None:
        if self.judged:
            pair = self.random.choice(sorted(self.judged, key=sorted))
            self.done.append(f"unjudge {sorted(pair)}")
            self.index.judgements.remove(*pair)
            del self.judged[pair]

    def represent(self) -> None:
        id = self.random.choice(sorted(self.docs))
        self.done.append(f"represent {id}")
        if id in self.chosen:
            self.index.judgements.unrepresent(id)
        else:
            self.index.judgements.represent(id)
        self.chosen ^= {id}

    def search(self) -> None:
        text = self.random.choice(self.texts)
        found = {
            each.id: each.similarity for each in self.index.similar(text, threshold=0.8, k=100)
        }
        values = {id: similarity(text, self.text(id)) for id in self.with_text}
        assert found == pytest.approx({id: v for id, v in values.items() if v >= THRESHOLD})

    def reopen(self) -> None:
        self.index.close()
        self.index = esdedup.open(self.place.target, self.place.index)

    def options(self) -> dict[str, Any]:
        method = self.random.choice(["leader", "leader", "components"])
        keep = self.random.choice(KEEP)
        numbered = any("n" in self.docs[id]["source"] for id in self.with_text)
        return {"keep": keep if numbered else "first", "method": method}

    def groups(self, options: dict[str, Any]) -> tuple[Groups, dict[str, Entry]]:
        """Return the groups, held against the model, and the marks of each document."""
        self.done.append(str(options))
        groups = self.index.groups(**options)
        heads, values = {id: id for id in self.with_text}, {}
        for group in groups:
            for member in group.members:
                heads[member.id] = group.representative
                values[member.id] = member.similarity
        for id, value in values.items():
            assert value == pytest.approx(similarity(self.text(id), self.text(heads[id])))
        acting = self.acting()
        if not acting:
            assert heads == self.by_brute_force(**options), self.done
        for verdict, lefts, rights in acting:
            if verdict == "different":
                meet = {heads[id] for id in lefts} & {heads[id] for id in rights}
                assert not meet, (self.done, verdict, lefts, rights)
        sizes = Counter(heads.values())
        marks: dict[str, Entry] = {id: {} for id in heads}
        for id, head in heads.items():
            if sizes[head] > 1:
                marks[id] = {"group": head}
            if head != id:
                marks[id] |= {"original": head, "similarity": values[id]}
        return groups, marks

    def acting(self) -> list[tuple[str, list[str], list[str]]]:
        """Return the judgements in force: their texts exist, and none is about one text only.

        Of documents of one text that were judged different, other judgements hold for some only.
        """
        of: dict[str, list[str]] = {}
        for id in self.with_text:
            of.setdefault(normalise(self.text(id)), []).append(id)
        found = []
        for pair, (verdict, texts) in self.judged.items():
            left, right = sorted(pair)
            if verdict == "unsure" or not {*texts.values()} <= of.keys():
                continue
            if texts[left] != texts[right]:
                found.append((verdict, of[texts[left]], of[texts[right]]))
            elif {left, right} <= {*of[texts[left]]}:
                found.append((verdict, [left], [right]))
        pairs = [(verdict, {*left, *right}) for verdict, left, right in found]
        split = {
            id for verdict, ids in pairs if verdict == "different" and len(ids) == 2 for id in ids
        }
        return [
            each
            for each in found
            if len(each[1] + each[2]) == 2 or not split & {*each[1], *each[2]}
        ]

    def by_brute_force(self, keep: str, method: str) -> dict[str, str]:
        order = sorted(self.with_text, key=natural, reverse=keep == "last")
        if keep in ("longest", "shortest"):
            order.sort(key=lambda id: len(self.text(id)), reverse=keep == "longest")
        elif keep == "newest:n":
            number = {id: self.docs[id]["source"].get("n", -99) for id in order}
            order.sort(key=lambda id: -number[id])
        order.sort(key=lambda id: id not in self.chosen)
        texts = {id: normalise(self.text(id)) for id in order}
        sets = {id: shingles_of(text) for id, text in texts.items()}
        near = {(a, b): jaccard(sets[a], sets[b]) for a in order for b in order}
        near = {pair: value for pair, value in near.items() if value >= THRESHOLD}
        return groups_of_edges(texts, near, method)

    def group(self) -> None:
        options, ready = self.options(), self.random.random() < 0.3
        _, marks = self.groups(options)
        with contextlib.suppress(esdedup.exceptions.StoreError):
            self.index.group(collapse_ready=ready, **options)
        for id, own in marks.items():
            self.docs[id]["marks"] = own or ({"group": id} if ready else {})

    def dedup(self) -> None:
        options, action = self.options(), self.random.choice(["delete", "mark", "move"])
        log = self.folder / f"{len(self.done)}.jsonl{self.random.choice(['', '.zst'])}"
        groups, marks = self.groups(options)
        to = f"{self.place.index}-moved" if action == "move" else None
        self.done.append(f"dedup {action} {log.name}")
        plan = self.index.dedup(action, to=to, log=log, groups=groups)  # type: ignore[arg-type]
        done = plan.apply().report
        entries: dict[str, Entry] = {}
        for id, own in marks.items():
            before = copy.deepcopy(self.docs[id])
            if action == "mark" and own and own != before["marks"]:
                self.docs[id]["marks"] = own
                entries[id] = {"before": before, "after": own}
            elif action != "mark" and "original" in own:
                if to and id in self.moved and self.moved[id] != before:
                    continue
                entries[id] = {"before": before, "created": id not in self.moved}
                if to:
                    self.moved[id] = before
                del self.docs[id]
        assert done is not None
        assert done.done == len(entries), (self.done, done)
        if log.exists():
            self.logs.append((log, action, entries))

    def undo(self) -> None:
        """Restore what no other operation has changed since."""
        if not self.logs:
            return
        log, action, entries = self.random.choice(self.logs[-4:])
        self.done.append(f"undo {log.name}")
        self.index.undo(log)
        for id, entry in entries.items():
            now, before = self.docs.get(id), entry["before"]
            if action == "mark":
                self.unmark(id, before["marks"], entry["after"])
            elif now is None or now == before:
                self.docs[id] = copy.deepcopy(before)
                if action == "move" and entry["created"] and self.moved.get(id) == before:
                    del self.moved[id]

    def unmark(self, id: str, before: Entry, after: Entry) -> None:
        """Restore the marks that a run changed, if all of these are still as it left them."""
        changed = [name for name in MARKS if before.get(name) != after.get(name)]
        marks = self.docs[id]["marks"] if id in self.docs else {}
        if id in self.docs and all(marks.get(name) == after.get(name) for name in changed):
            kept = {name: value for name, value in marks.items() if name not in changed}
            self.docs[id]["marks"] = kept | {k: v for k, v in before.items() if k in changed}


@pytest.mark.parametrize(
    ("first", "local", "others"),
    [
        (0, 4, 1),
        pytest.param(100, 300, 50, marks=[pytest.mark.nightly, pytest.mark.timeout(3000)]),
    ],
)
def test_sequences(place: Place, tmp_path: Path, first: int, local: int, others: int) -> None:
    for seed in range(first, first + (local if isinstance(place.target, Path) else others)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        target = folder / "a.db" if isinstance(place.target, Path) else place.target
        own = Place(target, f"{place.index}-{seed}")
        sequence = Sequence(seed, own, folder)
        try:
            sequence.run(25)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {sequence.done}") from error
        finally:
            sequence.index.close()
            if not isinstance(target, Path):
                for name in (own.index, f"{own.index}-moved", PREFIX + own.index):
                    delete_index(target, name)

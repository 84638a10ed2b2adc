"""Follow the marks of documents: from a duplicate to its original, to the original of that one.

An original is a duplicate itself if the policy marks the duplicates of duplicates, or if it got
another text. If marks led back to a document, all documents on the way would be hidden.
"""

from collections.abc import Iterable, Iterator, Mapping

from esdedup.models import value_in
from esdedup.stores.base import Store

_MOST_READS = 10
"""Most requests at once: each reads one more link of all chains."""


class Chains:
    """The originals that documents are marked with. Documents are known by their names in marks.

    store: of the documents.
    marks_field: that holds the marks.
    arriving: the names of the documents of a batch.
    stored: the originals of those of them that are stored.
    """

    def __init__(
        self,
        store: Store,
        marks_field: str,
        arriving: Iterable[str],
        stored: Mapping[str, str | None],
    ) -> None:
        self._store, self._path = store, f"{marks_field}.original"
        self._arriving, self._stored = {*arriving}, stored.keys()
        self._originals = {**dict.fromkeys(self._arriving), **stored}
        self._gone = set[str]()
        # Of each document on the way. Chains are long if each follows the one before.
        self._ends = dict[str, str]()

    def mark(self, name: str, original: str | None) -> None:
        """Note the original that a document of the batch gets."""
        if name in self._ends and self._originals.get(name) != original:
            self._ends.clear()
        self._originals[name] = original

    def read(self, stored: Mapping[str, str | None]) -> None:
        """Read where the marks of stored documents lead. stored: the originals of these."""
        self._originals |= {
            name: original for name, original in stored.items() if name not in self._arriving
        }
        self._ends.clear()
        for _ in range(_MOST_READS):
            ends = {self._end(name) for name, original in stored.items() if original is not None}
            unread = sorted(name for name in ends if not self._is_known(name))
            if not unread:
                return
            documents = self._store.get(unread, [self._path])
            originals = {
                document.id: value_in(document.source, self._path) for document in documents
            }
            self._originals |= originals
            self._ends.clear()
            self._gone.update(name for name in unread if name not in originals)

    def lead(self, name: str, other_name: str) -> bool:
        """Return whether a document is the duplicate of another one, maybe by way of others.

        Of a chain that is too long to be read, any stored document may be a part.
        """
        end = self._end(name)
        if end == other_name or (other_name in self._stored and not self._is_known(end)):
            return True
        # Chains go on from a document with an original, so that it is within them.
        has_original = self._originals.get(other_name) is not None
        return has_original and other_name in self._links(name)

    def are_broken(self, name: str) -> bool:
        """Return whether the marks of a document lead to none that is shown."""
        end = self._end(name)
        return end in self._gone or self._originals.get(end) is not None

    def _is_known(self, name: str) -> bool:
        return name in self._originals or name in self._gone

    def _end(self, name: str) -> str:
        """Return the last document of a chain, as far as it is known, or one of a cycle."""
        links, end = list[str](), name
        for link in self._links(name):
            links.append(link)
            end = self._ends.get(link, link)
            if link in self._ends:
                break
        self._ends |= dict.fromkeys(links, end)
        return end

    def _links(self, name: str) -> Iterator[str]:
        """Yield the names of a document, of its original, and so on, each once."""
        passed = set[str]()
        original: str | None = name
        while original is not None and original not in passed:
            yield original
            passed.add(original)
            original = self._originals.get(original)

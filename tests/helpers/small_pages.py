"""Small batches and pages, so that few documents make many requests. Run it in place of cli.py.

These sizes are set, not passed: a command has no option for them, and a whole run of it must end
between two of its pages, also in a process that a test kills.
"""

from functools import partial
from importlib import import_module

from esdedup.cli import main
from esdedup.records.files import ReadSizes, chunks_of_files

SMALL_PAGES = [
    (import_module(f"esdedup.{module}"), name, value)
    for module, name, value in (
        (
            "records.inputs",
            "chunks_of_files",
            partial(chunks_of_files, sizes=ReadSizes(documents=100)),
        ),
        ("groups.marks", "DOCUMENTS_AT_ONCE", 40),
        ("admin.backfilling", "PAGE_DOCUMENTS", 100),
        ("removal.pages", "FIRST_PAGE", 4),
        ("removal.pages", "LARGEST_PAGE", 8),
    )
]

if __name__ == "__main__":
    for page in SMALL_PAGES:
        setattr(*page)
    main()

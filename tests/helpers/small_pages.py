"""Small batches and pages, so that few documents make many requests. Run it in place of cli.py."""

from importlib import import_module

from esdedup.cli import main

SMALL_PAGES = [
    (import_module(f"esdedup.{module}"), name, count)
    for module, name, count in (
        ("records.files", "BATCH_DOCUMENTS", 100),
        ("groups.marks", "DOCUMENTS_AT_ONCE", 40),
        ("admin.backfill", "_PAGE_DOCUMENTS", 100),
        ("removal.remove", "_FIRST_PAGE", 4),
        ("removal.remove", "_PAGE", 8),
    )
]

if __name__ == "__main__":
    for each in SMALL_PAGES:
        setattr(*each)
    main()

"""What jobs and commands on files are built of.

    from esdedup.files import Reading

    reading = Reading(text_fields=["body"], id_field="url")
    texts = [*reading.texts(reading.files(["crawl/*.jsonl.gz"]))]

`Reading` reads files as `esdedup.clean` and `esdedup.decontaminate` do, `DeadLetterFile` keeps
records that can't be read, and `write_table` writes a result to a file as a whole, or not at all.
A request, such as `NearDuplicateRequest`, is a job of several tasks, which the functions do alone.
"""

from typing import TYPE_CHECKING

from esdedup.lazy import import_name

if TYPE_CHECKING:
    from esdedup.cleaning.contained import Evidence
    from esdedup.cleaning.inputs import against_kind
    from esdedup.cleaning.outputs import left_whole_file
    from esdedup.cleaning.requests import (
        ContainmentRequest,
        FileRequest,
        ItemRequest,
        NearDuplicateRequest,
        SpanRequest,
        UnitRequest,
    )
    from esdedup.cleaning.spans.cutting import MIN_WORDS, Cut, SpanRule
    from esdedup.cleaning.tasks import Stage, Waiting
    from esdedup.cleaning.units import Unit
    from esdedup.compare.file_pairs import PairRequest
    from esdedup.ingest.parallel import MOST_PROCESSES, number_of_processes
    from esdedup.records.dead_letters import DeadLetterFile, dead_letter_path
    from esdedup.records.documents import PATH, RepeatedIds
    from esdedup.records.files import BadRecord, Chunk, Format, Record, format_of
    from esdedup.records.inputs import Reading, total_bytes
    from esdedup.records.locations import is_address, written
    from esdedup.records.merge import Merge
    from esdedup.records.table_files import check_result, objects_of, write_table
    from esdedup.records.targets import check_new, check_targets
    from esdedup.records.text_files import STDIN
    from esdedup.runs.run import ShareSizes
    from esdedup.tabular import Tabular

__all__ = [
    "MIN_WORDS", "MOST_PROCESSES", "PATH", "STDIN", "BadRecord", "Chunk", "ContainmentRequest",
    "Cut", "DeadLetterFile", "Evidence", "FileRequest", "Format", "ItemRequest", "Merge",
    "NearDuplicateRequest", "PairRequest", "Reading", "Record", "RepeatedIds", "ShareSizes",
    "SpanRequest", "SpanRule", "Stage", "Tabular", "Unit", "UnitRequest", "Waiting",
    "against_kind", "check_new", "check_result", "check_targets", "dead_letter_path",
    "format_of", "is_address", "left_whole_file", "number_of_processes", "objects_of",
    "total_bytes", "write_table", "written",
]  # fmt: skip

_MODULES = {
    "cleaning.contained": "Evidence",
    "cleaning.inputs": "against_kind",
    "cleaning.outputs": "left_whole_file",
    "cleaning.requests": (
        "ContainmentRequest FileRequest ItemRequest NearDuplicateRequest SpanRequest UnitRequest"
    ),
    "cleaning.spans.cutting": "MIN_WORDS Cut SpanRule",
    "cleaning.tasks": "Stage Waiting",
    "cleaning.units": "Unit",
    "compare.file_pairs": "PairRequest",
    "ingest.parallel": "MOST_PROCESSES number_of_processes",
    "records.dead_letters": "DeadLetterFile dead_letter_path",
    "records.documents": "PATH RepeatedIds",
    "records.files": "BadRecord Chunk Format Record format_of",
    "records.inputs": "Reading total_bytes",
    "records.locations": "is_address written",
    "records.merge": "Merge",
    "records.table_files": "check_result objects_of write_table",
    "records.targets": "check_new check_targets",
    "records.text_files": "STDIN",
    "runs.run": "ShareSizes",
    "tabular": "Tabular",
}


if not TYPE_CHECKING:  # Type checkers would take any name.

    def __getattr__(name: str) -> object:
        """Import what a program uses when it first uses it."""
        return import_name(name, __name__, _MODULES)


def __dir__() -> list[str]:
    return [*__all__]

"""Run a job on files in one process, which resumes where a killed one ended."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

from esdedup.cleaning.document_search import REPORT
from esdedup.cleaning.job import Assignment, CleanJob
from esdedup.cleaning.report import CleanReport
from esdedup.exceptions import InputError, UsageError
from esdedup.records.locations import is_address
from esdedup.records.text_files import STDIN
from esdedup.runs.run import Run, ShareSizes


def run_alone(job: CleanJob, work: str | None, sizes: ShareSizes) -> CleanReport:
    """Do all stages of a job.

    work: the folder to resume from, None for one beside the output. sizes: of shares.
    """
    with _folder_of(job, work, sizes) as run:
        task = Assignment.whole(run)
        job.sketch(task)
        decisions = job.decide(run)
        if job.files.output is not None:
            job.write(task, decisions.retained_records(), decisions.records)
            job.finish(decisions)
    return decisions.report


@contextmanager
def _folder_of(job: CleanJob, work: str | None, sizes: ShareSizes) -> Iterator[Run]:
    """Open the folder of a run that is new, or was killed; remove it when the run is complete.

    The folder of a run to standard output, or without output, is not kept.
    """
    output = job.files.output or STDIN
    # The folder for an address is on this machine.
    place = PurePath(output).name if is_address(output) else output.rstrip("/")
    is_kept = work is not None or output != STDIN
    if is_kept and work is None and not Path(place).absolute().parent.is_dir():
        raise UsageError(f"{output}: {PurePath(place).parent} is no folder: make it first")
    with Run.at(Path(work or f"{place}.work"), sizes) if is_kept else Run.temporary(sizes) as run:
        has_results = run.has(REPORT)
        job.files.check_removed(is_new=not has_results)
        if not has_results:
            job.files.check_absent()
        try:
            run.claim(job.parameters, replace=not has_results)
            yield run
        except (UsageError, InputError):
            # The same command can't complete this.
            if run.claimed and not run.has(REPORT):
                run.clear()
            raise
        run.clear()

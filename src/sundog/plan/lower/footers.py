"""Footers of many files are read by a job on the executors before anything is planned; few are read by the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.operators.scan.footers import FILES_IN_BATCH, JobFooters, footer_scans
from sundog.parquet.prune.access_plan import FilesLeft, files_left
from sundog.plan.logical import Scan
from sundog.plan.stages import Parts, Pipeline, Place

if TYPE_CHECKING:
    from sundog.plan.lower.planner import Planner, Steps


def read_footers_of_many(planner: Planner, scans: list[Scan]) -> Steps[None]:
    """Have executors read the footers of scans with many files; not those that the driver knows already."""
    least = planner.driver_site.costs.footer_job_files
    for scan in scans:
        if not has_many_files(planner, scan) or any(file.deletes for file in scan.table.files):
            continue
        left = files_left(scan.table, scan.columns, scan.predicate, scan.filters, planner.facts.compared)
        if len(left.files) >= least:
            yield from _read(planner, left)


def has_many_files(planner: Planner, scan: Scan) -> bool:
    """Whether a job may read the footers, if statistics of files do not rule out most of them."""
    return len(scan.table.files) >= planner.driver_site.costs.footer_job_files


def _read(planner: Planner, left: FilesLeft) -> Steps[None]:
    asked = (left.reading, left.bounded)
    unknown = planner.facts.footers.unknown(left.files, *asked)
    if len(unknown) < planner.driver_site.costs.footer_job_files:
        return
    slots = planner.executors_site.slots
    tasks = min(len(unknown) // FILES_IN_BATCH + 1, slots * planner.executors_site.costs.scan_tasks_per_slot)
    sources = footer_scans(unknown, *asked, tasks)
    rows = yield from planner.step(Pipeline(Place.EXECUTORS, "Footers", (Parts(sources),)), is_probe=True)
    planner.facts.footers(left.files, *asked, JobFooters(rows or [], left.reading).read)

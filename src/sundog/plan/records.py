"""What the stages of a run did: tasks, time, and what each operator counted."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from sundog.metrics import Metrics, OperatorCounts, OperatorValues, chain_counts
from sundog.plan.stages import Stage


@dataclass
class StageRecord:
    """One stage that ran. `operators` are its input, its operators in order, and its output.

    `inputs`: by number, the counts of each of several inputs, which the first of the operators has together.
    """

    number: int
    purpose: str
    place: str
    tasks: int = 0
    seconds: float = 0.0
    operators: list[OperatorCounts] = field(default_factory=list)
    inputs: dict[int, OperatorCounts] = field(default_factory=dict)

    @property
    def metrics(self) -> Metrics:
        """The metrics of all its operators together."""
        total = Metrics()
        for each in self.operators:
            total.merge(each.all_metrics)
        return total

    def count_input(self, number: int | None, values: OperatorValues) -> None:
        """Add what a task has read of one of the inputs; None if there is only one."""
        if number is not None:
            self.inputs.setdefault(number, OperatorCounts()).merge_values(values)


class StageRecords:
    """The records of one run, by the number of the stage."""

    def __init__(self) -> None:
        self._records: dict[int, StageRecord] = {}

    def of(self, stage: Stage) -> StageRecord:
        """The record of a stage, made at the first request."""
        record = self._records.get(stage.number)
        if record is None:
            counts = chain_counts(len(stage.operators))
            record = StageRecord(stage.number, stage.purpose, stage.place.value, operators=counts)
            self._records[stage.number] = record
        return record

    def in_order(self) -> list[StageRecord]:
        """The records of all stages that ran, in the order in which they were planned."""
        return [self._records[number] for number in sorted(self._records)]

    def total(self, given_up: Container[int] = ()) -> Metrics:
        """The metrics of all stages. `given_up`: numbers of stages of which only metrics of work count."""
        total = Metrics()
        for record in self.in_order():
            total.add("stages")
            metrics = record.metrics.as_dict()
            is_kept = record.number not in given_up
            total.merge({name: value for name, value in metrics.items() if is_kept or name in _WORK})
        return total


# Metrics of work that was done, whether or not its rows are part of the answer.
_WORK = frozenset(["tasks", "bytes_scanned", "bytes_decoded", "row_groups_scanned", "peak_memory_bytes"])

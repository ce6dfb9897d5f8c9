"""What the stages of a run did: tasks, time, and what each operator counted."""

from __future__ import annotations

from dataclasses import dataclass, field

from sundog.metrics import Metrics, OperatorCounts
from sundog.plan.stages import Stage


@dataclass
class StageRecord:
    """One stage that ran. `operators` are its input, its operators in order, and its output."""

    number: int
    purpose: str
    place: str
    tasks: int = 0
    seconds: float = 0.0
    operators: list[OperatorCounts] = field(default_factory=list)
    given_up: str = ""

    @property
    def metrics(self) -> Metrics:
        """Counted by all of its operators together."""
        total = Metrics()
        for each in self.operators:
            total.merge(each.metrics)
        return total


class StageRecords:
    """The records of one run, by the number of the stage."""

    def __init__(self) -> None:
        self._records: dict[int, StageRecord] = {}

    def of(self, stage: Stage) -> StageRecord:
        """The record of a stage, made when first asked for."""
        record = self._records.get(stage.number)
        if record is None:
            counts = [OperatorCounts() for _ in range(len(stage.operators) + 2)]
            record = StageRecord(stage.number, stage.purpose, stage.place.value, operators=counts)
            self._records[stage.number] = record
        return record

    def in_order(self) -> list[StageRecord]:
        """Of all stages that ran, in the order in which they were planned."""
        return [self._records[number] for number in sorted(self._records)]

    def total(self) -> Metrics:
        """Counted by all stages but those that were given up, of which only the work counts."""
        total = Metrics()
        for record in self.in_order():
            total.add("stages")
            metrics = record.metrics.as_dict()
            total.merge({name: value for name, value in metrics.items() if not record.given_up or name in _WORK})
        return total


_WORK = frozenset(["tasks", "bytes_scanned", "bytes_decoded", "row_groups_scanned", "peak_memory_bytes"])

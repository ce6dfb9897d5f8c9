"""A run as a plan for the SQL tab of Spark's UI: a node for each line of explain, with its metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from sundog.metrics import METRICS, Category, Level, OperatorCounts
from sundog.plan.explain import Line, outline
from sundog.plan.records import StageRecord
from sundog.plan.stages import StageGraph
from sundog.report.explain import counts_of

Node = dict[str, Any]
MakeNode = Callable[[str, str, Iterable[Node], Iterable[tuple[str, int, str]]], Node]
_KINDS = {Category.ROWS: "sum", Category.BYTES: "size", Category.TIMING: "timing"}
_OWN = ("rows", "bytes", "time")


class UiPlan:
    """The plan of a run and the values of its metrics. `numbers` returns a number of new accumulator ids; `node` makes
    a node of the UI.
    """

    def __init__(self, numbers: Callable[[int], Iterable[int]], node: MakeNode) -> None:
        self._node = node
        self._numbers = numbers
        self.values: list[tuple[int, int]] = []

    def tree(
        self,
        name: str,
        parts: Sequence[tuple[StageGraph, Sequence[StageRecord]]],
        metrics: Mapping[str, float],
    ) -> Node:
        """The root has the metrics of the run, and a child for each part of the query."""
        children = [child for graph, records in parts for child in self._nodes(outline(graph), records, 0)]
        return self._node("sundog", name, children, self._metrics(metrics))

    def _nodes(self, lines: Sequence[Line], records: Sequence[StageRecord], depth: int) -> list[Node]:
        """The lines of this depth, each with those below it."""
        starts = [number for number, line in enumerate(lines) if line.depth == depth]
        nodes = []
        for start, stop in pairwise([*starts, len(lines)]):
            line = lines[start]
            found = counts_of(line, records)
            metrics = {} if found is None else _counted(*found)
            below = self._nodes(lines[start + 1 : stop], records, depth + 1)
            nodes.append(self._node(line.name, line.text, below, self._metrics(metrics)))
        return nodes

    def _metrics(self, metrics: Mapping[str, float]) -> list[tuple[str, int, str]]:
        """Name, accumulator and kind of each metric that counted anything; their values are kept."""
        shown = {name: value for name, value in metrics.items() if value and _is_shown(name)}
        infos = []
        for (name, value), number in zip(shown.items(), self._numbers(len(shown)), strict=True):
            kind = {"rows": "sum", "bytes": "size", "time": "timing"}.get(name) or _KINDS[METRICS[name].category]
            self.values.append((number, int(value * 1000) if kind == "timing" else int(value)))
            infos.append((name, number, kind))
        return infos


def _is_shown(name: str) -> bool:
    return name in _OWN or METRICS[name].level is Level.SUMMARY


def _counted(counts: OperatorCounts, below: float) -> dict[str, float]:
    own = {"rows": counts.rows, "bytes": counts.bytes, "time": max(counts.seconds - below, 0.0)}
    return own | counts.metrics.as_dict()

"""A stage graph as the lines of a tree, root first: for explain, the report and the tests.

A line refers to the object that it describes, so that no text is parsed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sundog.operators.base import Described
from sundog.plan.outputs import Hold
from sundog.plan.stages import (
    BuildRows,
    CollectedRows,
    FirstSparkKeys,
    Input,
    PairedRows,
    Parts,
    SparkRows,
    Stage,
    StageGraph,
    StageRows,
    Summaries,
)


@dataclass(frozen=True)
class Counter:
    """The place of a step's counts: a position in the chain of a stage.

    Place 0 is the input, the one after the last operator the output. `input`: which of several inputs; `step`: which
    of its steps, from the last that it takes.
    """

    stage: Stage
    place: int
    input: int | None = None
    step: int = 0


@dataclass(frozen=True)
class Line:
    """One step, and the place of its counts. `before`: the places in earlier stages, if a step of the planner's has
    already read these rows."""

    depth: int
    spec: Described
    counters: tuple[Counter, ...] = ()
    before: tuple[Counter, ...] = ()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that took the step."""
        return tuple(each.stage for each in self.before or self.counters)

    @property
    def text(self) -> str:
        return self.spec.describe()

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def details(self) -> str:
        return self.spec.details


@dataclass(frozen=True)
class _SeveralInputs(Described):
    """A stage with several inputs."""

    name = "Union"


def outline(graph: StageGraph) -> list[Line]:
    """The steps from the result down to the files, then those of its subqueries. Of a plan that failed before it was
    complete: from the last stage on."""
    root = graph.result or (graph.stages[-1] if graph.stages else None)
    held: set[int] = set()
    lines = [] if root is None else list(_stage_lines(root, 0, held))
    for stage in graph.subqueries:
        if stage is not root:
            lines += _input_lines(StageRows(stage), stage, 0, None, held)
    return lines


@dataclass(frozen=True)
class _HeldAbove(Described):
    """Rows of a subplan whose steps are shown above, at its first reader."""

    name = "HeldRows"

    number: int

    @property
    def details(self) -> str:
        return f"of the Hold above, stage {self.number}"


def _stage_lines(stage: Stage, depth: int, held: set[int]) -> Iterator[Line]:
    """`held`: the numbers of the stages that hold their rows and are shown already."""
    builds = {each.operator: each.stage for each in stage.inputs if isinstance(each, BuildRows)}
    inputs = [each for each in stage.inputs if not isinstance(each, BuildRows)]
    for number in range(len(stage.operators), 0, -1):
        yield Line(depth, stage.operators[number - 1], (Counter(stage, number),))
        depth += 1
        if number in builds:
            yield from _output_lines(builds[number], depth, held)
    if len(inputs) > 1:
        yield Line(depth, _SeveralInputs())
        depth += 1
    for number, each in enumerate(inputs):
        yield from _input_lines(each, stage, depth, number if len(inputs) > 1 else None, held)


def _input_lines(each: Input, stage: Stage, depth: int, place: int | None, held: set[int]) -> Iterator[Line]:
    match each:
        case Parts(steps=steps, done_by=done_by):
            for number, spec in enumerate(steps):
                taken = [Counter(stage, 0, step=step) for stage, step in done_by[number]] if done_by else []
                yield Line(depth + number, spec, (Counter(stage, 0, place, number),), tuple(taken))
        case SparkRows() | FirstSparkKeys() | CollectedRows():
            yield Line(depth, each, (Counter(stage, 0, place),))
        case StageRows(stage=before):
            yield from _output_lines(before, depth, held)
        case Summaries(stage=before):
            yield Line(depth, each, (Counter(stage, 0, place),))
            yield from _output_lines(before, depth + 1, held)
        case PairedRows(build=build, probe=probe):
            for before in (build, probe):
                yield from _output_lines(before, depth, held)


def _output_lines(stage: Stage, depth: int, held: set[int]) -> Iterator[Line]:
    if stage.number in held:
        yield Line(depth, _HeldAbove(stage.number))
        return
    if isinstance(stage.output, Hold):
        held.add(stage.number)
    yield Line(depth, stage.output, (Counter(stage, len(stage.operators) + 1),))
    yield from _stage_lines(stage, depth + 1, held)


def steps_of(graph: StageGraph) -> list[Stage]:
    """Stages that are not below the result: probes, samples, rounds, strategies that were given up."""
    lines = outline(graph)
    shown = {each.stage.number for line in lines for each in (*line.counters, *line.before)}
    shown |= set() if graph.result is None else {graph.result.number}
    return [stage for stage in graph.stages if stage.number not in shown]


def render_plan(graph: StageGraph) -> str:
    """The tree as text, children indented. Nothing unstable is printed."""
    return "\n".join("  " * line.depth + line.text for line in outline(graph))

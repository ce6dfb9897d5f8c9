"""A stage graph as the lines of a tree, root first: what explain prints, the report draws and tests compare.

A line refers to the object that it describes, so that no text has to be parsed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sundog.plan.stages import (
    BuildRows,
    Described,
    FirstSparkKeys,
    Hold,
    Input,
    PairedRows,
    Parts,
    SparkRows,
    Stage,
    StageGraph,
    StageRows,
)


@dataclass(frozen=True)
class Line:
    """One step: taken by which stages, and at which place in their chains. `input`: of which of several inputs.

    0 is the input, the one after the last operator the output; None for a further step of an input, which is counted
    with the first.
    """

    depth: int
    spec: Described
    stages: tuple[Stage, ...]
    operator: int | None
    input: int | None = None

    @property
    def text(self) -> str:
        return self.spec.describe()


@dataclass(frozen=True)
class _Union:
    """A stage with several inputs."""

    def describe(self) -> str:
        return "Union"


def outline(graph: StageGraph) -> list[Line]:
    """The steps from the result down to the files; of a plan that failed on the way, from the last stage that it
    has. Then those of its subqueries."""
    root = graph.result or (graph.stages[-1] if graph.stages else None)
    held: set[int] = set()
    lines = [] if root is None else list(_stage_lines(root, 0, held))
    for stage in graph.subqueries:
        if stage is not root:
            lines += _input_lines(StageRows(stage), stage, 0, None, held)
    return lines


@dataclass(frozen=True)
class _BuildSide:
    """The build side of a join, above the steps that made it."""

    def describe(self) -> str:
        return "BuildSide"


@dataclass(frozen=True)
class _HeldAbove:
    """Rows of a subplan whose steps are above, at its first reader."""

    number: int

    def describe(self) -> str:
        return f"HeldRows: of the Hold above, stage {self.number}"


def _stage_lines(stage: Stage, depth: int, held: set[int]) -> Iterator[Line]:
    """`held`: the numbers of the stages that hold their rows and are described already."""
    builds = {each.operator: each.stage for each in stage.inputs if isinstance(each, BuildRows)}
    inputs = [each for each in stage.inputs if not isinstance(each, BuildRows)]
    for number in range(len(stage.operators), 0, -1):
        yield Line(depth, stage.operators[number - 1], (stage,), number)
        depth += 1
        if number in builds:
            yield Line(depth, _BuildSide(), (builds[number],), len(builds[number].operators))
            yield from _stage_lines(builds[number], depth + 1, held)
    if len(inputs) > 1:
        yield Line(depth, _Union(), (stage,), None)
        depth += 1
    for number, each in enumerate(inputs):
        yield from _input_lines(each, stage, depth, number if len(inputs) > 1 else None, held)


def _input_lines(each: Input, stage: Stage, depth: int, place: int | None, held: set[int]) -> Iterator[Line]:
    match each:
        case Parts(reads=reads, done_by=done_by):
            for number, spec in enumerate(reads):
                stages = done_by[number] if done_by else (stage,)
                yield Line(depth + number, spec, stages, 0 if done_by or not number else None, place)
        case SparkRows() | FirstSparkKeys():
            yield Line(depth, each, (stage,), 0)
        case StageRows(stage=before):
            yield from _output_lines(before, depth, held)
        case PairedRows(build=build, probe=probe):
            for before in (build, probe):
                yield from _output_lines(before, depth, held)


def _output_lines(stage: Stage, depth: int, held: set[int]) -> Iterator[Line]:
    if stage.number in held:
        yield Line(depth, _HeldAbove(stage.number), (stage,), None)
        return
    if isinstance(stage.output, Hold):
        held.add(stage.number)
    yield Line(depth, stage.output, (stage,), len(stage.operators) + 1)
    yield from _stage_lines(stage, depth + 1, held)


def steps_of(graph: StageGraph) -> list[Stage]:
    """Stages that are not below the result: probes, samples, rounds, strategies that were given up."""
    shown = {stage.number for line in outline(graph) for stage in line.stages}
    shown |= set() if graph.result is None else {graph.result.number}
    return [stage for stage in graph.stages if stage.number not in shown]


def render_plan(graph: StageGraph) -> str:
    """The tree as text, children indented. Nothing unstable is printed."""
    return "\n".join("  " * line.depth + line.text for line in outline(graph))

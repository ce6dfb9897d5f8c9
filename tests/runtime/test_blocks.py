"""One task of a stage on executors, called as Spark calls it: what it reports, and under which number. No JVM."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from sundog.operators.context import TASK_BYTES, MemoryBudget
from sundog.plan.costs import EXECUTORS, Costs
from sundog.plan.sites import task_limits
from sundog.runtime import blocks
from sundog.runtime.blocks import TARGET, StageFunction, block_row
from sundog.runtime.exchange import BlockOrder, encode_block
from sundog.runtime.worker_errors import ErrorChannel
from tests.runtime.test_processes import Reported


def stage_function(costs: Costs = EXECUTORS) -> StageFunction:
    """Passes blocks on."""
    return StageFunction(
        stage=7,
        sources=None,
        columns=None,
        pickled_operators=pickle.dumps(()),
        operator_count=0,
        shared=(),
        partitioner=None,
        result_schema=None,
        limits=task_limits(1 << 20, 1 << 12, costs),
        address=TARGET,
        order=BlockOrder.ANY,
        first_source=0,
        accumulator=Reported(),
        errors=ErrorChannel.open(),
    )


@pytest.mark.parametrize("empty_first", [False, True])
def test_a_task_of_a_union_without_rows_reports_apart_from_all_partitions(
    monkeypatch: pytest.MonkeyPatch, empty_first: bool
) -> None:
    """The second side of an exchanged join: its partition 1, of no rows, is task 3 of the union, behind two of the
    first side. Partition 3, of rows, is task 5. Both have counted something."""
    function = stage_function()
    rows = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})
    inputs: dict[int, list[pa.RecordBatch]] = {3: [], 5: [block_row(3, 0, encode_block([rows], EXECUTORS))]}
    for task in sorted(inputs, reverse=not empty_first):
        monkeypatch.setattr(blocks, "_task_number", lambda number=task: number)
        list(function(iter(inputs[task])))
    values: dict[tuple[int, int], Any] = function.accumulator.values
    assert len(values) == 2
    assert {stage for stage, _ in values} == {7}
    assert [counts[0][0] for (_, number), counts in values.items() if number >= 0] == [3], values
    assert sum(counts[-1][4]["tasks"] for counts in values.values()) == 2


@pytest.mark.parametrize(("min_rows", "is_coded"), [(100, True), (101, False)])
def test_the_blocks_of_a_task_are_made_by_the_costs_of_its_site(min_rows: int, is_coded: bool) -> None:
    costs = replace(EXECUTORS, min_coded_rows=min_rows)
    rows = pa.RecordBatch.from_pydict({"s": ["a string that repeats"] * 100})
    (sent,) = stage_function(costs)(iter([block_row(0, 0, encode_block([rows], costs))]))
    schema = pa.ipc.open_stream(sent.column(2)[0].as_buffer()).schema
    assert pa.types.is_dictionary(schema.field("s").type) == is_coded


@pytest.mark.parametrize("limit", ["small", "address", "user", "default"])
def test_a_worker_with_a_small_budget_gives_freed_memory_back(limit: str) -> None:
    """Unless its address space is limited, or the user has chosen an allocator."""
    budget = 1 << 30 if limit == "default" else 128 << 20
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 35, 1 << 35)); " if limit == "address" else ""
    code += "import pyarrow as pa; from sundog.plan.costs import EXECUTORS; from sundog.plan.sites import task_limits; "
    code += (
        f"from sundog.runtime.blocks import return_freed_memory as free; free(task_limits({budget}, 1, EXECUTORS)); "
    )
    code += "print(pa.default_memory_pool().backend_name)"
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    if limit == "user":
        environment["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    if "jemalloc" in pa.supported_memory_backends():
        assert (done.stdout.strip() == "jemalloc") == (limit == "small")
    assert limit != "user" or done.stdout.strip() == "system"


def test_operators_count_less_than_a_small_budget() -> None:
    """With what they do not count, a task takes at most 1.2 times its budget."""
    for budget in (128 << 20, 256 << 20, 1 << 30):
        counted = MemoryBudget.on_executor(budget).limit
        assert budget // 2 <= counted <= budget
        assert counted + TASK_BYTES <= 1.2 * budget
    assert MemoryBudget.on_executor(1 << 30).limit == 1 << 30
    assert MemoryBudget.on_executor(16 << 20).limit == 8 << 20

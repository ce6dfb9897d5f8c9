"""How many ranges a window gets: for the slots, for the memory of a task, and none for next to nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sundog.runtime.driver import DriverRuntime
from sundog.runtime.prepare import TASK_BYTES, fewest_ranges, window_ranges


@dataclass(frozen=True)
class Leaf:
    column_bytes: int


@pytest.mark.parametrize(
    ("size", "slots", "fewest", "most"),
    [
        (0, 4, 1, 1),
        (3 * TASK_BYTES, 4, 3, 3),
        (100 * TASK_BYTES, 4, 4, 8),
        (20 * TASK_BYTES, 1, 1, 1),
        (1 << 34, 4, 128, 128),  # 16 GiB with 1 GiB a task
    ],
)
def test_ranges(size: int, slots: int, fewest: int, most: int) -> None:
    leaf: Any = Leaf(size)
    runtime = DriverRuntime(slots, 1 << 30)
    assert (fewest_ranges(leaf, runtime), window_ranges(leaf, runtime)) == (fewest, most)

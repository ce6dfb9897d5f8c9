"""How many ranges a window gets: for the slots, for the memory of a task, and none for next to nothing."""

from __future__ import annotations

import pytest

from sundog.plan.costs import DRIVER
from sundog.plan.lower.facts import Size
from sundog.plan.lower.sizes import fewest_ranges, window_ranges
from sundog.plan.stages import Place, Site

TASK_BYTES = DRIVER.task_bytes


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
    site = Site(Place.DRIVER, slots, 1 << 30, DRIVER)
    assert (fewest_ranges(Size(size, 1), site), window_ranges(Size(size, 1), site)) == (fewest, most)

"""What each call needs of other ranges."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from sundog.expr.calls import WindowCall
from sundog.operators.window.frames.frame_need import MAX_EDGE_ROWS, FrameNeed, need_of, needs_of, reach_of
from tests.operators.window.cases import call, column, integer, range_frame, rows_frame


def summed(frame):
    return call("sum", frame, column("i"), dtype=pa.int64())


@pytest.mark.parametrize(
    ("one", "kind", "reaches", "carries"),
    [
        (summed(range_frame(0, 0)), FrameNeed.OWN_ROWS, False, False),
        (summed(range_frame(-5, 0)), FrameNeed.HALO, True, False),
        (summed(range_frame(2, 5)), FrameNeed.HALO, True, False),
        (summed(rows_frame(-3, 1)), FrameNeed.HALO, False, True),
        (summed(rows_frame(0, 0)), FrameNeed.HALO, False, False),
        (summed(range_frame(None, 0)), FrameNeed.CARRIED_STATE, False, True),
        (summed(range_frame(None, 4)), FrameNeed.CARRIED_STATE, True, True),
        (summed(range_frame(-4, None)), FrameNeed.CARRIED_STATE, True, True),
        (summed(rows_frame(None, None)), FrameNeed.CARRIED_STATE, False, True),
        (summed(rows_frame(None, -2)), FrameNeed.ONE_RANGE, False, False),
        (summed(range_frame(3, None)), FrameNeed.ONE_RANGE, True, False),
        (summed(range_frame(-math.inf, 0)), FrameNeed.ONE_RANGE, False, False),
        (summed(rows_frame(-MAX_EDGE_ROWS - 1, 0)), FrameNeed.ONE_RANGE, False, False),
        (call("row_number", rows_frame(None, 0), dtype=pa.int32()), FrameNeed.CARRIED_STATE, False, True),
        (call("ntile", rows_frame(None, 0), integer(3), dtype=pa.int32()), FrameNeed.WHOLE_COUNT, False, True),
        (call("lag", rows_frame(-1, -1), column("i"), integer(1), dtype=pa.int64()), FrameNeed.HALO, False, True),
        (call("lead", rows_frame(0, 0), column("i"), integer(0), dtype=pa.int64()), FrameNeed.HALO, False, False),
    ],
)
def test_need(one: WindowCall, kind: FrameNeed, reaches: bool, carries: bool):
    need = need_of(one)
    assert (need.kind, bool(need.reach), bool(need.carried_calls)) == (kind, reaches, carries)
    assert need.two_passes == (carries and kind is not FrameNeed.ONE_RANGE)


def test_needs_add_up():
    first = call("sum", range_frame(-5, 0), column("i"), dtype=pa.int64(), name="a")
    second = call("sum", range_frame(-5, 0), column("n"), dtype=pa.int64(), name="b")
    third = call("rank", rows_frame(None, 0), dtype=pa.int32(), name="c")
    need = needs_of([first, second, third])
    assert need.kind is FrameNeed.CARRIED_STATE
    assert need.reach == (range_frame(-5, 0),)
    assert need.carried_calls == ("c",)
    assert not need.order_sensitive
    assert needs_of([first, call("lag", rows_frame(0, 0), column("i"), integer(1), dtype=pa.int64())]).order_sensitive


def test_reach_of_rows():
    assert reach_of(rows_frame(-5, -2)) == (5, 0)
    assert reach_of(rows_frame(2, 5)) == (0, 5)
    assert reach_of(rows_frame(None, 3)) == (0, 3)

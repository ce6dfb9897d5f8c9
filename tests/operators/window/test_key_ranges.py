"""Ranges that cut through the keys of PARTITION BY, against one range that holds all rows, row for row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.expr.ordering import SortKey
from sundog.metrics import Metrics
from sundog.operators.window.frames.frame_need import FrameNeed
from sundog.operators.window.ranges.halo import HALO
from sundog.operators.window.ranges.key_ranges import largest_range
from sundog.operators.window.steps import WindowSteps
from sundog.operators.window.window_operator import serial_window
from sundog.plan.costs import DRIVER
from tests.operators.window.cases import (
    KEY_TYPES,
    SETTINGS,
    aggregate_calls,
    call,
    column,
    inputs,
    place_calls,
    range_frame,
    range_frames,
    rows_frame,
    rows_frames,
    tables,
)
from tests.operators.window.driving import cut_up, drive_inside_keys, run
from tests.operators.window.test_halo import check_equal

PARTITION_TYPES = [pa.int32(), pa.float64(), pa.decimal128(30, 5), pa.string(), pa.bool_(), pa.date32()]


def compare(table, calls, partition_by, order_by, ranges, seed=0):
    steps = WindowSteps(table.schema, tuple(calls), tuple(partition_by), tuple(order_by), DRIVER)
    if steps.need.kind is FrameNeed.ONE_RANGE:
        return None
    expected = serial_window(table, calls, partition_by, order_by).sort_by("id")
    driven = drive_inside_keys(steps, cut_up(table, 3, np.random.default_rng(seed)), ranges, seed)
    if driven is not None:
        check_equal(driven.table.sort_by("id"), expected, calls, in_order=steps.need.order_sensitive)
    return driven


@SETTINGS
@given(
    st.data(),
    st.lists(st.sampled_from(PARTITION_TYPES), min_size=1, max_size=2),
    st.sampled_from(KEY_TYPES),
    st.tuples(st.booleans(), st.booleans()),
    st.integers(1, 9),
    st.integers(0, 2**32),
)
def test_range_frames_inside_keys(data, types, dtype, flags, ranges, seed):
    calls = aggregate_calls(data.draw(range_frames(dtype, 12)))
    picked = data.draw(st.lists(st.sampled_from(calls), min_size=1, max_size=4, unique_by=lambda c: c.name))
    keys = [column(f"k{number}", each) for number, each in enumerate(types)]
    order = (SortKey(column(f"k{len(types)}", dtype), *flags),)
    table = data.draw(tables([*types, dtype], inputs(picked), max_rows=40))
    compare(table, picked, keys, order, ranges, seed)


@SETTINGS
@given(
    st.data(),
    st.sampled_from(PARTITION_TYPES),
    st.lists(st.sampled_from([*KEY_TYPES, pa.string(), pa.bool_()]), min_size=1, max_size=2),
    st.integers(1, 6),
    st.integers(0, 2**32),
)
def test_rows_frames_and_places_inside_keys(data, key, types, ranges, seed):
    flags = data.draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=2))
    order = tuple(SortKey(column(f"k{n + 1}", each), *flags[n]) for n, each in enumerate(types))
    calls = [*aggregate_calls(data.draw(rows_frames())), *place_calls()]
    picked = data.draw(st.lists(st.sampled_from(calls), min_size=1, max_size=5, unique_by=lambda c: c.name))
    if len(types) == 1 and types[0] in KEY_TYPES:
        by_key = aggregate_calls(data.draw(range_frames(types[0], 12)))
        picked += [one for one in by_key[:6:2] if one.name not in {other.name for other in picked}]
    table = data.draw(tables([key, *types], inputs(picked), max_rows=40))
    compare(table, picked, [column("k0", key)], order, ranges, seed)


class TestOneHotKey:
    """Nine rows in ten have key 5, between keys of few rows: it spans ranges, and its neighbours end beside it."""

    keys = (column("k0", pa.int32()),)
    order = (SortKey(column("k1", pa.int64())),)

    def table(self, rows=1000, ties=1):
        random = np.random.default_rng(3)
        hot = np.where(random.random(rows) < 0.9, 5, random.integers(0, 10, rows))
        return pa.table(
            {
                "k0": pa.array(hot, pa.int32()),
                "k1": pa.array(random.permutation(rows) // ties, pa.int64()),
                "n": pa.array(random.integers(-9, 9, rows), pa.int32()),
                "i": pa.array(random.integers(-9, 9, rows), pa.int64()),
                "id": pa.array(range(rows), pa.int64()),
            }
        )

    @pytest.mark.parametrize("ties", [1, 7])
    @pytest.mark.parametrize("frame", [(-5, 5), (-300, 0), (2, 40), (None, 0), (0, None), (None, None), (None, 30)])
    @pytest.mark.parametrize("units", [range_frame, rows_frame])
    def test_frames(self, units, frame, ties):
        calls = [call("sum", units(*frame), column("n"), dtype=pa.int64())]
        driven = compare(self.table(ties=ties), calls, self.keys, self.order, 8)
        assert driven is not None
        assert driven.ranges == 8
        owned = [
            sum(b.num_rows - (sum(b.column(HALO).to_pylist()) if HALO in b.schema.names else 0) for b in part)
            for part in driven.received
        ]
        assert max(owned) < 2 * 1000 / 8

    @pytest.mark.parametrize("ties", [1, 7])
    def test_places(self, ties):
        calls = [one for one in place_calls() if inputs([one])[:1] in ([], [column("i")], [column("n")])]
        driven = compare(self.table(ties=ties), calls, self.keys, self.order, 8)
        assert driven is not None
        assert driven.ranges == 8

    def test_a_halo_holds_rows_of_the_cut_key_only(self):
        """k1 of all keys lie within reach of every cut; only rows with the cut's key are borrowed."""
        calls = [call("sum", range_frame(-2000, 2000), column("n"), dtype=pa.int64())]
        driven = compare(self.table(), calls, self.keys, self.order, 4)
        assert driven is not None
        cuts = driven.move.ranges.cuts[0].to_pylist()
        for number, part in enumerate(driven.received):
            borrowed = {
                key for b in part for key, halo in zip(b["k0"].to_pylist(), b[HALO].to_pylist(), strict=True) if halo
            }
            assert borrowed <= set(cuts[max(number - 1, 0) : number + 1])

    def test_the_largest_range_counts_peers_and_halo(self):
        """Rows with one (partition key, order key) stay together however many ranges there are."""
        table = self.table(ties=10_000)
        calls = (call("sum", range_frame(0, 0), column("n"), dtype=pa.int64()),)
        inside = WindowSteps(table.schema, calls, self.keys, self.order, DRIVER).inside_keys
        sampled = run([table.to_batches()], Metrics(), inside.sample())
        sample = inside.read_sample(sampled[0])
        assert largest_range(sample, inside.cut(sample, 16)) > 0.85
        wide = (call("sum", range_frame(-2000, 2000), column("n"), dtype=pa.int64()),)
        spread = self.table()
        inside = WindowSteps(spread.schema, wide, self.keys, self.order, DRIVER).inside_keys
        sample = inside.read_sample(run([spread.to_batches()], Metrics(), inside.sample())[0])
        assert largest_range(sample, inside.cut(sample, 16)) > 0.85

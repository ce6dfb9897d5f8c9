"""Sums of doubles over wide frames, and merging rows of one key before the exchange."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.expr.ordering import SortKey
from sundog.functions.sums.doubles import double_sums
from sundog.operators.window.ranges.halo_reduction import HaloReduction
from sundog.plan.costs import DRIVER
from tests.operators.window.cases import SETTINGS, aggregate_calls, column, inputs, range_frames, tables
from tests.operators.window.test_halo import compare


def in_order(values):
    total = 0.0
    for value in values.tolist():
        total += value
    return total


def sliding(count, width):
    rows = np.arange(count)
    return np.maximum(rows - width + 1, 0).astype(np.int32), (rows + 1).astype(np.int32)


@pytest.mark.parametrize("width", [1, 3, 30, 300, 1500])
@pytest.mark.parametrize("kind", ["positive", "mixed", "cancelling", "tiny and huge", "integers"])
def test_wide_frames_agree_with_a_recomputation(kind, width):
    random = np.random.default_rng(5)
    count = 2000
    values = {
        "positive": random.random(count) * 1000,
        "mixed": random.normal(size=count),
        "cancelling": np.tile([1e16, 1.0, -1e16, 1.0], count // 4),
        "tiny and huge": random.normal(size=count) * 10.0 ** random.integers(-12, 12, count),
        "integers": random.integers(-1000, 1000, count).astype(float),
    }[kind]
    starts, stops = sliding(count, width)
    result = double_sums(values, starts, stops)
    for row in range(count):
        expected = in_order(values[starts[row] : stops[row]])
        assert result[row] == pytest.approx(expected, rel=1e-12, abs=0.0), row


@pytest.mark.parametrize("width", [2, 50, 500])
def test_nan_infinities_and_overflow(width):
    random = np.random.default_rng(6)
    values = random.normal(size=1500)
    strange = [math.nan, math.inf, -math.inf, 1e308, 1e308, -1e308, -1e308]
    values[random.choice(1500, len(strange), replace=False)] = strange
    starts, stops = sliding(1500, width)
    result = double_sums(values, starts, stops)
    with np.errstate(all="ignore"):
        for row in range(1500):
            expected = in_order(values[starts[row] : stops[row]])
            assert result[row] == pytest.approx(expected, rel=1e-12, abs=0.0, nan_ok=True), row


@SETTINGS
@given(st.data(), st.sampled_from([pa.int32(), pa.float64(), pa.date32()]), st.integers(2, 6), st.integers(0, 2**32))
def test_merged_halo_rows_change_nothing(data, dtype, ranges, seed):
    frame = data.draw(range_frames(dtype, 6))
    mergeable = [one for one in aggregate_calls(frame) if one.function not in ("first", "last", "nth_value")]
    calls = data.draw(st.lists(st.sampled_from(mergeable), min_size=1, max_size=4, unique_by=lambda c: c.name))
    table = data.draw(tables([dtype], inputs(calls), max_rows=60, spread=4))
    order = (SortKey(column("k0", dtype), data.draw(st.booleans())),)
    always = replace(DRIVER, min_reduced_halo=-1.0, min_reduced_repetition=0.0)
    driven = compare(table, calls, order, ranges, seed, n_inputs=2, costs=always)
    assert driven.move.reduction is not None
    counted = driven.metrics.as_dict()
    assert counted.get("halo_rows", 0) <= counted.get("halo_rows_unreduced", 0)


def test_rows_of_keys_that_repeat_too_little_stay_as_they_are():
    rows = pa.record_batch({"k": [1, 1, 2, 2, 2]})
    keys = np.array([1, 1, 2, 2, 2], np.int64)
    assert HaloReduction((), ("k",), 2.5).reduce(rows, keys) is not None
    assert HaloReduction((), ("k",), 2.6).reduce(rows, keys) is None

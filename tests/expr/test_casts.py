"""Casts by name: the values at the limits, and what each mode makes of those beyond. Random ones are in
test_evaluate."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sundog.errors import InternalError
from sundog.expr.errors import SparkQueryError
from sundog.expr.evaluation.casts import EXACT_CASTS, cast
from sundog.expr.nodes import EvalMode
from sundog.types import TIMESTAMP, TIMESTAMP_NTZ
from tests.oracle.batches import array_of

ANSI, LEGACY, TRY = EvalMode.ANSI, EvalMode.LEGACY, EvalMode.TRY
NAN, INF = float("nan"), float("inf")


def done(values: list[Any], source: pa.DataType, target: pa.DataType, mode: EvalMode) -> list[Any]:
    result = cast(array_of(values, source), target, mode, None)
    assert result.type == target
    return result.to_pylist()


@pytest.mark.parametrize(
    ("source", "target", "value", "legacy"),
    [
        (pa.int64(), pa.int32(), 2**31, -(2**31)),
        (pa.int32(), pa.int8(), 200, -56),
        (pa.float64(), pa.int32(), 1e10, 2**31 - 1),
        (pa.float64(), pa.int32(), NAN, 0),
        (pa.float64(), pa.int64(), -INF, -(2**63)),
        (pa.float64(), pa.int8(), 300.0, 44),
        (pa.float64(), pa.int16(), 1e10, -1),
        (pa.float32(), pa.int64(), 1e30, 2**63 - 1),
        (pa.decimal128(38, 10), pa.int64(), Decimal(2**63), -(2**63)),
        (pa.decimal128(5, 2), pa.int8(), Decimal("300.99"), 44),
        (pa.string(), pa.int32(), "x", None),
        (pa.string(), pa.int8(), "128", None),
        (pa.string(), pa.bool_(), "maybe", None),
        (pa.decimal128(5, 2), pa.decimal128(4, 2), Decimal("100.00"), None),
        (pa.int32(), pa.decimal128(5, 2), 1000, None),
        (pa.bool_(), pa.decimal128(1, 1), True, None),
    ],
)
def test_what_does_not_fit(source: pa.DataType, target: pa.DataType, value: Any, legacy: Any) -> None:
    assert done([value], source, target, LEGACY) == [legacy]
    assert done([value, None], source, target, TRY) == [None, None]
    with pytest.raises(SparkQueryError):
        done([None, value], source, target, ANSI)


@pytest.mark.parametrize("mode", [ANSI, LEGACY, TRY])
@pytest.mark.parametrize(
    ("source", "target", "value", "expected"),
    [
        (pa.float64(), pa.int32(), 2147483647.9, 2147483647),
        (pa.float64(), pa.int64(), 2.0**63, 2**63 - 1),  # Java compares with the double nearest to the limit
        (pa.float64(), pa.int8(), -128.9, -128),
        (pa.decimal128(5, 2), pa.int32(), Decimal("-1.99"), -1),
        (pa.decimal128(5, 2), pa.decimal128(4, 1), Decimal("0.05"), Decimal("0.1")),
        (pa.decimal128(5, 2), pa.decimal128(4, 1), Decimal("-0.05"), Decimal("-0.1")),
        (pa.int64(), pa.float32(), 2**53 + 1, float(2**53)),
        (pa.decimal128(38, 10), pa.float64(), Decimal("0.1000000000"), 0.1),
        (pa.float64(), pa.bool_(), NAN, True),
        (pa.float64(), pa.bool_(), -0.0, False),
        (pa.string(), pa.int32(), " \t+12\n", 12),
        (pa.string(), pa.int64(), "-9223372036854775808", -(2**63)),
        (pa.string(), pa.bool_(), " Yes ", True),
        (pa.string(), pa.bool_(), "0", False),
        (pa.int64(), pa.string(), -5, "-5"),
        (pa.bool_(), pa.string(), True, "true"),
        (pa.date32(), pa.string(), -719162, "0001-01-01"),
        (pa.date32(), pa.string(), 3_789_392, "+12345-01-02"),
        (pa.date32(), pa.string(), -719_562, "-0001-11-28"),
        (TIMESTAMP, pa.string(), 1_500_000, "1970-01-01 00:00:01.5"),
        (TIMESTAMP_NTZ, pa.string(), -1, "1969-12-31 23:59:59.999999"),
        (TIMESTAMP, pa.int64(), -1, -1),
    ],
)
def test_what_fits(mode: EvalMode, source: pa.DataType, target: pa.DataType, value: Any, expected: Any) -> None:
    assert done([value, None], source, target, mode) == [expected, None]


def test_strings_with_a_point_are_integers_in_legacy_mode_only() -> None:
    assert done(["1.9", ".", "-.5", "+", ""], pa.string(), pa.int32(), LEGACY) == [1, 0, 0, None, None]
    assert done(["1.9", "1"], pa.string(), pa.int32(), TRY) == [None, 1]


def test_decimals_are_printed_plainly_except_in_legacy_mode() -> None:
    tiny = [Decimal("1E-10"), Decimal("0E-10"), Decimal("12.5000000000")]
    assert done(tiny, pa.decimal128(38, 10), pa.string(), ANSI) == ["0.0000000001", "0.0000000000", "12.5000000000"]
    assert done(tiny, pa.decimal128(38, 10), pa.string(), LEGACY) == ["1E-10", "0E-10", "12.5000000000"]


def test_seconds_saturate_as_timestamps() -> None:
    micros = cast(pa.array([2**63 - 1, -(2**63), -1]), TIMESTAMP, LEGACY, None).view(pa.int64())
    assert micros.to_pylist() == [2**63 - 1, -(2**63), -1_000_000]


@pytest.mark.parametrize("mode", [ANSI, LEGACY])
def test_a_date_outside_of_the_timestamps_raises_in_every_mode_but_try(mode: EvalMode) -> None:
    far = array_of([200_000_000], pa.date32())
    with pytest.raises(SparkQueryError):
        cast(far, TIMESTAMP, mode, None)
    assert cast(far, TIMESTAMP, TRY, None).null_count == 1


def test_bytes_and_strings_share_memory() -> None:
    texts = pa.array(["é", None])
    assert cast(texts, pa.binary(), ANSI, None).to_pylist() == ["é".encode(), None]
    assert cast(texts, pa.binary(), ANSI, None).buffers()[2].address == texts.buffers()[2].address


@pytest.mark.parametrize("pair", [("double", "string"), ("float", "string"), ("string", "double"), ("string", "date")])
def test_casts_that_depend_on_the_java_release_are_not_there(pair: tuple[str, str]) -> None:
    assert pair not in EXACT_CASTS
    with pytest.raises(InternalError):
        cast(pa.array([1.5]), pa.string(), ANSI, None)

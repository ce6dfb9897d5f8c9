"""The random data has the requested type and contains the edge values that it should."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from tests.oracle.batches import ALL_TYPES, arrow_arrays, record_batches

QUICK = settings(max_examples=2000, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("dtype", ALL_TYPES, ids=str)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_type_is_drawn_whole(dtype: pa.DataType, data: st.DataObject) -> None:
    array = data.draw(arrow_arrays(dtype, 3, 30))
    array.validate(full=True)
    assert array.type == dtype
    assert 3 <= len(array) <= 30


def _numpy(array: pa.Array) -> np.ndarray:
    return array.drop_null().to_numpy(zero_copy_only=False)


@pytest.mark.parametrize(
    "wanted",
    [
        lambda a: len(a) == 0,
        lambda a: len(a) > 0 and a.null_count == len(a),
        lambda a: np.isnan(_numpy(a)).any(),
        lambda a: (np.isnan(_numpy(a)) & np.signbit(_numpy(a))).any(),
        lambda a: ((_numpy(a) == 0) & np.signbit(_numpy(a))).any(),
        lambda a: np.isinf(_numpy(a)).any(),
    ],
    ids=["empty", "all null", "nan", "negative nan", "negative zero", "infinity"],
)
def test_doubles_hold_the_hard_values(wanted: object) -> None:
    find(arrow_arrays(pa.float64(), max_size=5), wanted, settings=QUICK)  # type: ignore[arg-type]


@settings(max_examples=20, deadline=None)
@given(record_batches(pa.schema([(str(i), dtype) for i, dtype in enumerate(ALL_TYPES)]), max_size=1000))
def test_batches_have_equal_columns(batch: pa.RecordBatch) -> None:
    batch.validate(full=True)
    assert batch.schema.types == ALL_TYPES

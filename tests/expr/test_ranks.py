from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey, sort_indices
from sundog.expr.ranks import NAN_RANK, array_of_ranks, float_rank, rank_at, rank_float, ranks_of, ranks_of_values
from tests.oracle.batches import ALL_TYPES, arrow_arrays

arrays = st.sampled_from(ALL_TYPES).flatmap(lambda dtype: arrow_arrays(dtype, max_size=30))


@settings(max_examples=80, deadline=None)
@given(arrays)
def test_ranks_sort_as_values_sort(array):
    ranks = ranks_of(array)
    values = [rank for rank in ranks if rank is not None]
    key = SortKey(Column("c", array.type), nulls_first=False)
    order = sort_indices([array], [key])
    assert [ranks[i] for i in order][: len(values)] == sorted(values)


@settings(max_examples=80, deadline=None)
@given(arrays)
def test_ranks_turn_back_into_values(array):
    ranks = ranks_of(array)
    again = array_of_ranks(ranks, array.type)
    assert again.type == array.type
    assert ranks_of(again) == ranks
    assert [rank_at(array, i) for i in range(len(array))] == ranks


def test_floats():
    assert float_rank(-0.0) == float_rank(0.0) == 0
    assert float_rank(float("-nan")) == NAN_RANK > float_rank(float("inf"))
    assert float_rank(-1.0) < float_rank(-1e-300) < 0 < float_rank(5e-324)
    assert rank_float(float_rank(-2.5)) == -2.5


def test_python_values():
    assert ranks_of_values(["é", None], pa.string()) == ["é".encode(), None]
    assert ranks_of_values([18262, None], pa.date32()) == [18262, None]
    assert ranks_of_values([True], pa.bool_()) == [1]

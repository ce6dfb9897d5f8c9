"""Both dynamic filters keep their contract: no slot and no row that brute force finds worth keeping is dropped."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.columns.key_sets import key_set, rows_passing
from sundog.expr.buffers import Bools
from sundog.expr.dynamic_filters.contract import DynamicFilter
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.dynamic_filters.threshold import Threshold, order_place
from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.expr.rank_columns import RankColumn, text_bounds
from sundog.expr.ranks import Rank, ranks_of
from sundog.plan.costs import DRIVER

LONGS = [-(2**63), 2**63 - 1, -1, 0, 1]
TEXTS = ["", "a", "b", "a" * 70, "a" * 70 + "b", "\U0010ffff" * 20]  # longer than the 64 bytes that bounds keep
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "long": (pa.int64(), st.one_of(st.sampled_from(LONGS), st.integers(-20, 20))),
    "int": (pa.int32(), st.integers(-20, 20)),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, float("nan"), float("inf"), -1.5, 2.0])),
    "decimal": (pa.decimal128(12, 2), st.decimals(-100, 100, places=2)),
    "wide decimal": (pa.decimal128(38, 0), st.sampled_from([Decimal(10) ** 30, Decimal(-5), Decimal(0)])),
    "string": (pa.string(), st.sampled_from(TEXTS)),
}


@dataclass(frozen=True)
class Slots:
    """`SlotBounds` of some rows each, as a file would have them."""

    low: RankColumn
    high: RankColumn
    nulls: Bools
    values: Bools

    def __len__(self) -> int:
        return len(self.low)


def slots_of(parts: list[pa.Array], known: list[bool]) -> Slots:
    ranks = [[rank for rank in ranks_of(part) if rank is not None] for part in parts]
    ends = [
        (min(each), max(each)) if each and is_known else (None, None)
        for each, is_known in zip(ranks, known, strict=True)
    ]
    lows: list[Rank | None] = [low for low, _ in ends]
    highs: list[Rank | None] = [high for _, high in ends]
    if pa.types.is_string(parts[0].type):
        low, high = text_bounds(lows, highs)  # type: ignore[arg-type]
    else:
        low, high = (RankColumn.of(each, parts[0].type) for each in (lows, highs))
    nulls = np.array([part.null_count > 0 for part in parts], np.bool_)
    return Slots(low, high, nulls, np.array([len(part) > part.null_count for part in parts], np.bool_))


def check(found: DynamicFilter, parts: list[pa.Array], known: list[bool], worth: Any) -> None:
    """`worth` says of a rank, or None for NULL, whether a row with it may matter."""
    held = found.may_hold(slots_of(parts, known))
    for part, is_held in zip(parts, held.tolist(), strict=True):
        ranks = ranks_of(part)
        assert is_held or not any(map(worth, ranks))
        for form in (part, part.dictionary_encode(), part.slice(1)):
            passing = rows_passing(found, form)
            for rank, passes in zip(ranks_of(part)[len(part) - len(form) :], passing.tolist(), strict=True):
                assert passes or not worth(rank)
    again: DynamicFilter = pickle.loads(pickle.dumps(found))
    assert again.may_hold(slots_of(parts, known)).tolist() == held.tolist()


def parts_of(name: str) -> Any:
    dtype, values = VALUES[name]
    part = st.lists(st.one_of(st.none(), values), min_size=1, max_size=6).map(lambda rows: pa.array(rows, dtype))
    return st.lists(part, min_size=1, max_size=4)


@pytest.mark.parametrize("name", sorted(VALUES))
@given(data=st.data(), bits=st.sampled_from([1, DRIVER.key_bits]), strings=st.sampled_from([1, DRIVER.key_strings]))
def test_no_row_with_a_partner_is_dropped(name: str, data: st.DataObject, bits: int, strings: int) -> None:
    parts = data.draw(parts_of(name))
    known = [data.draw(st.booleans()) for _ in parts]
    keys = pa.concat_arrays(data.draw(parts_of(name)))
    found = KeyFilter("x", key_set(keys, replace(DRIVER, key_bits=bits, key_strings=strings)))
    present = {rank for rank in ranks_of(keys) if rank is not None}
    check(found, parts, known, present.__contains__)
    check(KeyFilter("x"), parts, known, lambda _: True)
    assert (KeyFilter("x").generation, found.generation) == (0, 1)


@pytest.mark.parametrize("name", sorted(VALUES))
@given(data=st.data(), descending=st.booleans(), nulls_first=st.booleans(), is_bounded=st.booleans())
def test_no_row_that_can_win_is_dropped(
    name: str, data: st.DataObject, descending: bool, nulls_first: bool, is_bounded: bool
) -> None:
    parts = data.draw(parts_of(name))
    known = [data.draw(st.booleans()) for _ in parts]
    key = SortKey(Column("x", VALUES[name][0]), descending, nulls_first)
    lead = data.draw(st.sampled_from(ranks_of(pa.concat_arrays(parts))))
    found = Threshold(key, True, is_bounded, lead if is_bounded else None)
    check(found, parts, known, lambda rank: not is_bounded or order_place(rank, key) <= order_place(lead, key))

"""`lineitem` as the top-k benchmark of the row-group pruning proposal has it: 3 files of 20 row groups each.

Every row group covers its own range of `l_orderkey`, and the ranges are in random order over all files. The best rows
may be anywhere in file order; statistics tell exactly where. Growing the table adds row groups, not rows to a row
group, so that a top-k's cost can be watched against their number.

The columns and their values follow TPC-H: 16 columns, orders of one to seven lines, sparse order keys, prices from part
keys, ship dates within seven years, commit and receipt dates near them, and a comment that makes `SELECT *` wide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sundog.benchmarks.data import text
from sundog.benchmarks.data.draws import Draws, Indexes, key_of, permute
from sundog.benchmarks.data.layout import Layout

ROWS_PER_GROUP = 100_000
GROUPS_PER_FILE = 20
SMALLEST_GROUP_COUNT = 3 * GROUPS_PER_FILE
SINGLE_FILE_GROUPS = 300

MONEY = pa.decimal128(15, 2)
SCHEMA = pa.schema(
    [
        ("l_orderkey", pa.int64()),
        ("l_partkey", pa.int64()),
        ("l_suppkey", pa.int64()),
        ("l_linenumber", pa.int32()),
        ("l_quantity", MONEY),
        ("l_extendedprice", MONEY),
        ("l_discount", MONEY),
        ("l_tax", MONEY),
        ("l_returnflag", pa.string()),
        ("l_linestatus", pa.string()),
        ("l_shipdate", pa.date32()),
        ("l_commitdate", pa.date32()),
        ("l_receiptdate", pa.date32()),
        ("l_shipinstruct", pa.string()),
        ("l_shipmode", pa.string()),
        ("l_comment", pa.string()),
    ]
)

_FIRST_SHIP_DAY = 8037  # 1992-01-03
_SHIP_DAYS = 2520
_CURRENT_DAY = 9298  # 1995-06-17: what was received before it may have been returned
_INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
_MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")

# 28 lines are seven orders with one to seven lines each, in a fixed order of sizes.
_ORDER_SIZES = np.array([4, 1, 6, 3, 7, 2, 5])
_LINES_PER_CYCLE = int(_ORDER_SIZES.sum())
_ORDER_IN_CYCLE = np.repeat(np.arange(7), _ORDER_SIZES)
_LINE_IN_ORDER = np.concatenate([np.arange(1, size + 1) for size in _ORDER_SIZES])


def lineitem(rows: int, seed: int = 0) -> Lineitem:
    """Several files of 20 row groups; at least 60 row groups, so that a small table keeps the shape."""
    per_group = max(1, min(ROWS_PER_GROUP, -(-rows // SMALLEST_GROUP_COUNT)))
    return Lineitem(rows, seed, per_group, GROUPS_PER_FILE)


def lineitem_single(rows: int, seed: int = 0) -> Lineitem:
    """One file of 300 row groups: nothing can be skipped as a file."""
    per_group = max(1, -(-rows // SINGLE_FILE_GROUPS))
    return Lineitem(rows, seed, per_group, SINGLE_FILE_GROUPS)


@dataclass(frozen=True)
class Lineitem:
    rows: int
    seed: int
    rows_per_group: int
    groups_per_file: int

    @property
    def layout(self) -> Layout:
        return Layout(self.rows, self.rows_per_group, self.groups_per_file)

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def key_range(self, group: int) -> int:
        """Which range of order keys, counted from the lowest, the row group holds."""
        key = key_of(self.seed, "row group order")
        return int(permute(np.array([group], dtype=np.int64), self.layout.group_count, key)[0])

    def row_group(self, group: int) -> pa.RecordBatch:
        rows = np.arange(*self.layout.bounds(group), dtype=np.int64)
        draws = Draws(self.seed, "lineitem")
        line = rows - rows[:1]
        orders_per_range = 7 * -(-self.rows_per_group // _LINES_PER_CYCLE)
        order = self.key_range(group) * orders_per_range + line // _LINES_PER_CYCLE * 7
        order = order + _ORDER_IN_CYCLE[line % _LINES_PER_CYCLE]
        order_key = order // 8 * 32 + order % 8 + 1

        parts = max(1, self.rows // 30)
        part = draws.integers("part", rows, 1, parts)
        suppliers = max(1, parts // 20)
        quantity = draws.integers("quantity", rows, 1, 50)
        retail_cents = 90_000 + part // 10 % 20_001 + 100 * (part % 1000)
        ship = _FIRST_SHIP_DAY + draws.integers("order day", order, 0, _SHIP_DAYS - 122)
        ship = ship + draws.integers("ship delay", rows, 1, 121)
        receipt = ship + draws.integers("receipt delay", rows, 1, 30)
        returned = text.pick_one(("R", "A"), draws.integers("returned", rows, 0, 1))

        columns: list[pa.Array] = [
            pa.array(order_key),
            pa.array(part),
            pa.array((part + draws.integers("supplier", rows, 0, 3) * (suppliers // 4 + 1)) % suppliers + 1),
            pa.array(_LINE_IN_ORDER[line % _LINES_PER_CYCLE].astype(np.int32)),
            _money(quantity * 100),
            _money(quantity * retail_cents),
            _money(draws.integers("discount", rows, 0, 10)),
            _money(draws.integers("tax", rows, 0, 8)),
            text.choose(receipt <= _CURRENT_DAY, returned, "N"),
            text.choose(ship > _CURRENT_DAY, "O", pa.scalar("F")),
            _dates(ship),
            _dates(ship - 30 + draws.integers("commit delay", rows, 0, 60)),
            _dates(receipt),
            text.pick_one(_INSTRUCTIONS, draws.integers("instruction", rows, 0, 3)),
            text.pick_one(_MODES, draws.integers("mode", rows, 0, 6)),
            _comments(draws, rows),
        ]
        return pa.record_batch(columns, schema=SCHEMA)


def _money(cents: Indexes) -> pa.Array:
    """Decimals straight from their 16-byte little-endian form: the low word is the number of cents."""
    words = np.zeros((len(cents), 2), dtype=np.int64)
    words[:, 0] = cents
    return pa.Array.from_buffers(MONEY, len(cents), [None, pa.py_buffer(words)])


def _dates(days: Indexes) -> pa.Array:
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def _comments(draws: Draws, rows: Indexes) -> pa.Array:
    words = [text.pick(text.LATIN_WORDS, draws.bits(f"comment {place}", rows)) for place in range(4)]
    tails: NDArray[np.int64] = draws.integers("comment tail", rows, 0, 999)
    return text.join(*words, text.number_text(tails), separator=" ")

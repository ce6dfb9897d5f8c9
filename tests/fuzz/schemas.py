"""Tables of every type that sundog reads, with the values that break things: nulls, NaN, both zeros, ends of types,
ties.

A table is a `pa.Table` plus what the generator of queries must know of each column: its type in SQL, and whether sums
over it are exact in any order (so that they can be compared bit by bit). `id` is unique and never NULL; it makes orders
total.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

DECIMALS = ((1, 0), (4, 2), (9, 4), (10, 0), (18, 6), (19, 3), (38, 10), (38, 0), (38, 38))
ROWS = (0, 1, 2, 7, 7, 40, 40, 40, 150, 150, 150, 400, 400, 400, 400, 1500, 1500)


@dataclass(frozen=True)
class Column:
    """What a query needs to know of a column."""

    name: str
    dtype: str  # in SQL
    style: str
    exact_sum: bool = True  # of a float: sums are exact in any order
    tame: bool = True  # sums and products stay far from the ends of the type

    @property
    def family(self) -> str:
        return self.dtype.split("(")[0]


@dataclass(frozen=True)
class Data:
    """One table: its columns, in order, and its rows."""

    columns: tuple[Column, ...]
    rows: pa.Table

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def take(self, keep: Sequence[int]) -> Data:
        return Data(self.columns, self.rows.take(pa.array(keep, pa.int64())))

    def drop(self, name: str) -> Data:
        return Data(tuple(column for column in self.columns if column.name != name), self.rows.drop_columns([name]))

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{column.name.replace('`', '``')}` {column.dtype}" for column in self.columns)


def draw_data(rng: Random) -> Data:
    count = rng.choice(ROWS)
    ids = list(range(count))
    if rng.random() < 0.6:
        rng.shuffle(ids)
    columns = [Column("id", "bigint", "spread", tame=False)]
    arrays = [pa.array(ids, pa.int64())]
    names = draw_names(rng, rng.randint(4, 9))
    for name in names:
        column, array = draw_column(rng, name, count)
        columns.append(column)
        arrays.append(array)
    return Data(tuple(columns), pa.table(arrays, names=[column.name for column in columns]))


def draw_names(rng: Random, count: int) -> list[str]:
    odd = ["Größe", "a b", "x.y", "SELECT", "Mixed", "tick`", "_day", "key=1"]
    names = [f"c{number}" for number in range(count)]
    if rng.random() < 0.25:
        names[rng.randrange(count)] = rng.choice(odd)
    return names


# --- columns ---------------------------------------------------------------------------------------------------------

STYLES = ("few", "few", "skew", "spread", "sorted", "clustered", "extreme", "constant")

FAMILIES = (
    "boolean", "tinyint", "smallint", "int", "int", "bigint", "bigint", "float", "double", "double", "decimal",
    "decimal", "string", "string", "string", "binary", "date", "timestamp", "timestamp", "timestamp_ntz", "interval",
)  # fmt: skip


def draw_column(rng: Random, name: str, count: int) -> tuple[Column, pa.Array]:
    family = rng.choice(FAMILIES) if rng.random() < 0.96 else rng.choice(("array<int>", "struct<a:int,b:string>"))
    dtype = "decimal({},{})".format(*rng.choice(DECIMALS)) if family == "decimal" else family
    if family == "interval":
        dtype = "interval day to second"
    style = rng.choice(STYLES)
    arrow = arrow_type(dtype)
    one = _DRAWS[family](rng, dtype, style)
    values = arrange(rng, style, one, count)
    null_share = rng.choice((0.0, 0.0, 0.1, 0.1, 0.5, 1.0 if rng.random() < 0.3 else 0.0))
    values = [None if rng.random() < null_share else value for value in values]
    exact = family not in ("float", "double") or _is_quarters(values)
    return Column(name, dtype, style, exact, style != "extreme"), to_array(values, arrow)


def to_array(values: list[Any], arrow: pa.DataType) -> pa.Array:
    """Strings come as bytes, so that they may be no valid UTF-8."""
    if pa.types.is_string(arrow):
        return pa.array(values, pa.binary()).cast(pa.string(), safe=False)
    return pa.array(values, arrow)


def arrow_type(dtype: str) -> pa.DataType:
    if dtype.startswith("decimal"):
        precision, scale = (int(number) for number in dtype[8:-1].split(","))
        return pa.decimal128(precision, scale)
    return _ARROW[dtype]


_ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "array<int>": pa.list_(pa.int32()),
    "struct<a:int,b:string>": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    "interval day to second": pa.int64(),  # as Spark stores it, in microseconds; read by a schema that says so
}


def arrange(rng: Random, style: str, one: Callable[[], Any], count: int) -> list[Any]:
    """`count` values in the order and with the repetition that the style says."""
    if style == "constant":
        return [one()] * count
    if style == "few":
        few = [one() for _ in range(rng.randint(2, 8))]
        return [rng.choice(few) for _ in range(count)]
    if style == "skew":
        hot = one()
        return [hot if rng.random() < 0.8 else one() for _ in range(count)]
    values = [one() for _ in range(count)]
    if style in ("sorted", "clustered"):
        values.sort(key=_sortable)
    if style == "clustered":
        for place in range(0, count, 16):
            block = values[place : place + 16]
            rng.shuffle(block)
            values[place : place + 16] = block
    return values


def _sortable(value: Any) -> tuple[bool, Any]:
    if isinstance(value, list | dict):
        return (False, repr(value))
    return (True, 0) if value != value else (False, value)


def _is_quarters(values: list[Any]) -> bool:
    return all(
        value is None or (value == value and abs(value) < 2**20 and value * 4 == int(value * 4)) for value in values
    )


# --- values ----------------------------------------------------------------------------------------------------------

Draw = Callable[[Random, str, str], Callable[[], Any]]


def _boolean(rng: Random, dtype: str, style: str) -> Callable[[], bool]:
    return lambda: rng.random() < 0.5


def _integer(bits: int) -> Draw:
    def draw(rng: Random, dtype: str, style: str) -> Callable[[], int]:
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        if style == "extreme":
            ends = [low, low + 1, -1, 0, 1, high - 1, high]
            return lambda: rng.choice(ends) if rng.random() < 0.5 else rng.randint(low, high)
        reach = min(high, rng.choice((9, 100, 10**4, 10**9)))
        return lambda: rng.randint(-reach, reach)

    return draw


def _float(bits: int) -> Draw:
    largest = 3.4028234663852886e38 if bits == 32 else 1.7976931348623157e308
    smallest = 1.401298464324817e-45 if bits == 32 else 5e-324
    odd = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, largest, -largest, smallest, -smallest, 0.1, 1e-7]

    def draw(rng: Random, dtype: str, style: str) -> Callable[[], float]:
        if style == "extreme":
            return lambda: rng.choice(odd) if rng.random() < 0.5 else rng.uniform(-1e6, 1e6)
        quarters = rng.random() < 0.6
        odds = (
            []
            if quarters and rng.random() < 0.5
            else [0.0, -0.0]
            if quarters
            else [float("nan"), float("inf"), -0.0, 0.0]
        )

        def one() -> float:
            if odds and rng.random() < 0.2:
                return rng.choice(odds)
            return rng.randint(-4000, 4000) / 4 if quarters else round(rng.uniform(-1000, 1000), 2)

        return one

    return draw


def _decimal(rng: Random, dtype: str, style: str) -> Callable[[], decimal.Decimal]:
    precision, scale = (int(number) for number in dtype[8:-1].split(","))
    high = 10**precision - 1
    if style == "extreme":
        ends = [-high, 1 - high, -1, 0, 1, high - 1, high]

        def whole() -> int:
            return rng.choice(ends) if rng.random() < 0.5 else rng.randint(-high, high)

    else:
        reach = min(high, rng.choice((9, 10**4, 10 ** max(1, precision - 3))))

        def whole() -> int:
            return rng.randint(-reach, reach)

    return lambda: decimal.Decimal(whole()).scaleb(-scale, context=decimal.Context(prec=60))


WORDS = (
    "", "a", "A", "ab", "b", " b ", "0", "1", "-7", "12.50", "1e3", "true", "2024-02-29", "2024-03-31 02:30:00",
    "NaN", "null", "Zürich", "zebra", "日本語", "straße", "İstanbul", "ǅ", "ﬃ", "😀😀", "e\u0301", "%_x\\", "it's",
    "<b>&amp;</b>", "two\nlines", "nul\0in", "\ufeffbom", "a" * 80, "a" * 80 + "b", "\uffff", "\U0010ffff",
    "SUNDOG-ERROR:gASVAAAA", "SUNDOG-ERROR:" + "A" * 40,
)  # fmt: skip
BROKEN = (b"\xff", b"ab\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\x80z", b"\xc0\xaf")


def _string(rng: Random, dtype: str, style: str) -> Callable[[], bytes]:
    if style == "extreme":
        pool = [*BROKEN, b"x" * 3000, *(word.encode() for word in WORDS)]
        return lambda: rng.choice(pool)
    if style in ("few", "skew", "constant"):
        return lambda: rng.choice(WORDS).encode()
    alphabet = "ab1 éß日"
    return lambda: "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 9))).encode()


def _binary(rng: Random, dtype: str, style: str) -> Callable[[], bytes]:
    return lambda: rng.randbytes(rng.choice((0, 1, 1, 2, 5, 40)) if style == "extreme" else rng.randint(0, 2))


EPOCH = dt.date(1970, 1, 1)
EDGE_DATES = [
    dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(1582, 10, 15), dt.date(1899, 12, 31), dt.date(1969, 12, 31), EPOCH,
    dt.date(2000, 2, 29), dt.date(2024, 12, 30), dt.date(9999, 12, 31),
]  # fmt: skip


def _date(rng: Random, dtype: str, style: str) -> Callable[[], dt.date]:
    if style == "extreme":
        return lambda: rng.choice(EDGE_DATES) if rng.random() < 0.6 else dt.date.fromordinal(rng.randint(2, 3652000))
    reach = rng.choice((10, 400, 9000))
    return lambda: dt.date(2020, 1, 1) + dt.timedelta(days=rng.randint(0, reach))


# Around clock changes of Europe/Berlin and America/New_York (2024), of a zone with half an hour, and of a calendar.
EDGE_INSTANTS = [
    dt.datetime(1, 1, 2), dt.datetime(1582, 10, 4, 23, 59, 59), dt.datetime(1582, 10, 15),
    dt.datetime(1883, 11, 18, 17), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1),
    dt.datetime(2024, 3, 31, 0, 59, 59, 999999), dt.datetime(2024, 3, 31, 1), dt.datetime(2024, 10, 27, 0, 30),
    dt.datetime(2024, 10, 27, 1), dt.datetime(2024, 3, 10, 7), dt.datetime(2024, 11, 3, 5, 30),
    dt.datetime(2024, 11, 3, 6, 30), dt.datetime(9999, 12, 30, 23, 59, 59, 999999),
]  # fmt: skip


def _instant(rng: Random, dtype: str, style: str) -> Callable[[], dt.datetime]:
    zone = dt.timezone.utc if dtype == "timestamp" else None
    if style == "extreme":
        return lambda: rng.choice(EDGE_INSTANTS).replace(tzinfo=zone)
    start = dt.datetime(2024, rng.choice((1, 3, 10)), 25, tzinfo=zone)
    reach, unit = rng.choice(((10, 86_400_000_000), (900_000, 1_000_000), (10**12, 1), (900, 3_600_000_000)))
    return lambda: start + dt.timedelta(microseconds=rng.randint(0, reach) * unit)


def _interval(rng: Random, dtype: str, style: str) -> Callable[[], int]:
    """Microseconds. Python's timedelta is narrower than Spark's type: the ends are those that collect can show."""
    if style == "extreme":
        return lambda: rng.choice((0, 1, -1, 86_399_999_999, -86_400_000_000, 10**15, -(10**15)))
    return lambda: rng.randint(-100, 100) * rng.choice((1, 10**6, 86_400_000_000))


def _array(rng: Random, dtype: str, style: str) -> Callable[[], list[int | None]]:
    return lambda: [rng.choice((None, 1, 2, 7)) for _ in range(rng.randint(0, 3))]


def _struct(rng: Random, dtype: str, style: str) -> Callable[[], dict[str, Any]]:
    return lambda: {"a": rng.choice((None, 1, 2)), "b": rng.choice((None, "", "x"))}


_DRAWS: dict[str, Draw] = {
    "array<int>": _array,
    "struct<a:int,b:string>": _struct,
    "boolean": _boolean,
    "tinyint": _integer(8),
    "smallint": _integer(16),
    "int": _integer(32),
    "bigint": _integer(64),
    "float": _float(32),
    "double": _float(64),
    "decimal": _decimal,
    "string": _string,
    "binary": _binary,
    "date": _date,
    "timestamp": _instant,
    "timestamp_ntz": _instant,
    "interval": _interval,
}

"""Sums and averages of decimals near 38 digits, over frames and groups, with Spark's rounding and overflow checks."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.against_spark import check

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """13 rows with the sum 5, of 34 places, whose average goes on at the 39th place; and sums that leave 38 digits and
    come back."""
    folder = Path(tmp_path_factory.mktemp("decimals"))
    large = [6 * 10**37, 6 * 10**37, -6 * 10**37, -6 * 10**37] + [1] * 9
    table = pa.table(
        {
            "id": range(13),
            "k": [1] * 12 + [2],
            "fine": pa.array([Decimal("0.5")] * 10 + [Decimal(0)] * 3, pa.decimal128(38, 34)),
            "price": pa.array([Decimal("0.05")] + [Decimal("0.01")] * 12, pa.decimal128(20, 2)),
            "large": pa.array([Decimal(value) for value in large], pa.decimal128(38, 0)),
        }
    )
    pq.write_table(table, folder / "a.parquet", row_group_size=2)
    enabled.read.parquet(str(folder)).createOrReplaceTempView("decimals")
    return enabled


@pytest.mark.parametrize("name", ["fine", "price"])
def test_an_average_is_rounded_once(session: Any, name: str) -> None:
    whole = "ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    check(session, f"SELECT id, avg({name}) OVER ({whole}), avg({name}) OVER (ORDER BY id) FROM decimals")
    check(session, f"SELECT k, avg({name}), sum({name}) FROM decimals GROUP BY k")
    check(session, f"SELECT avg({name}), sum({name}) FROM decimals", accelerated=name == "price")


def test_a_sum_without_keys_may_leave_its_type_and_come_back(session: Any) -> None:
    theirs = check(session, "SELECT sum(large), try_sum(large), avg(large) FROM decimals", accelerated=False)
    assert theirs.column(0).to_pylist() == [Decimal(9)]
    check(session, "SELECT sum(large) FROM decimals WHERE id < 2", accelerated=None)


def test_a_sum_over_a_frame_is_held_against_its_type_at_the_end(session: Any) -> None:
    check(session, "SELECT id, try_sum(large) OVER (ORDER BY id) FROM decimals")
    check(session, "SELECT id, sum(large) OVER (ORDER BY id) FROM decimals", accelerated=None)


@pytest.fixture(scope="module")
def prices(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Prices as TPC-H has them and numbers of 18 digits, stored as integers; some are NULL."""
    folder = Path(tmp_path_factory.mktemp("prices"))
    rows = 4000
    cents, share, full = pa.decimal128(15, 2), pa.decimal128(4, 2), pa.decimal128(18, 4)
    most = Decimal(10**18 - 1).scaleb(-4)
    table = pa.table(
        {
            "k": pa.array([f"key {row % 3}" for row in range(rows)]).dictionary_encode(),
            "price": pa.array([None if row % 11 == 5 else Decimal(row * 977).scaleb(-2) for row in range(rows)], cents),
            "discount": pa.array([Decimal(row % 11).scaleb(-2) for row in range(rows)], share),
            "most": pa.array([most if row % 2 else -most for row in range(rows)], full),
            "same": pa.array([most] * rows, full),
        }
    )
    pq.write_table(table, folder / "a.parquet", row_group_size=1000, store_decimal_as_integer=True)
    enabled.read.parquet(str(folder)).createOrReplaceTempView("prices")
    return enabled


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("keys", ["", "k,"])
def test_sums_of_expressions_in_one_word_a_value(prices: Any, keys: str, ansi: str) -> None:
    """Sums, averages and products that fit a word for the rows at hand, some that do not, and one that may overflow."""
    group = "GROUP BY k" if keys else ""
    before = prices.conf.get("spark.sql.ansi.enabled")
    prices.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        check(
            prices,
            f"""SELECT {keys} sum(price), avg(price), sum(discount), avg(discount), sum(price * (1 - discount)),
            sum(price * (1 - discount) * (1 + discount)), avg(price * (1 - discount)), max(price), count(price)
            FROM prices {group}""",
        )
        check(prices, f"SELECT {keys} sum(most), avg(most), sum(same), avg(same) FROM prices {group}")
        check(prices, f"SELECT {keys} sum(most + most), sum(most - same), avg(same + price) FROM prices {group}")
        check(prices, f"SELECT {keys} sum(most * most), sum(same * discount) FROM prices {group}", accelerated=None)
        check(prices, f"SELECT {keys} sum(same * same * same) FROM prices {group}", accelerated=None)
        check(prices, f"SELECT {keys} sum(price) FILTER (WHERE discount > 0.05), sum(price) FROM prices {group}")
        check(prices, f"SELECT {keys} sum(price) FROM prices WHERE price > 100 AND discount < 0.1 {group}")
    finally:
        prices.conf.set("spark.sql.ansi.enabled", before)

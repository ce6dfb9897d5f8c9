"""One side of a join as rows of Spark's: which side is built, what it may cost, and what the plan is. Without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sundog.expr.calls import JoinKey, JoinKind
from sundog.expr.nodes import Compare, CompareOp, Literal
from sundog.plan.costs import DRIVER
from sundog.plan.logical import Filter, Foreign, Join, LogicalPlan, RowsEstimate, Scan
from sundog.plan.lower.facts import Facts, Size
from sundog.plan.rules.order import optimize
from sundog.plan.spark_rows import why_collecting_loses, why_not_collected
from sundog.support import Code, Declined
from tests.plan.test_joins import (
    ANYWHERE,
    CLUSTERED,
    LONG,
    TEXT,
    column,
    dimension,
    fact,
    joined,
    totals,
)
from tests.plan.test_lower import explain

__all__ = ["dimension", "fact"]  # fixtures
KEY, REGION = column("k#50"), column("region#51", TEXT)


def spark_side(rows: float | None = 1000, counted: bool = True, conditions: int = 0) -> Foreign:
    estimate = None if rows is None else RowsEstimate(rows, conditions, counted)
    fields = ((KEY.name, LONG), (REGION.name, TEXT))
    return Foreign(3, fields, "Filter, CSV", estimate, moves_rows=False, collected=True)


def test_rows_of_sparks_are_collected_on_the_driver_and_their_keys_filter_the_scan(fact: Scan) -> None:
    for place in ("driver", "executors"):
        text = explain(totals(joined(fact, spark_side(), CLUSTERED, KEY)), place)
        assert (
            """\
      HashJoin: inner, clustered#1 = k#50
        BuildSide
          SparkInput: Filter, CSV, columns=[k#50, region#51], collected once
        ParquetScan: fact, files=4, columns=[clustered#1, value#3], join_filters=[clustered#1]"""
            in text
        )


def test_their_size_is_that_of_their_columns() -> None:
    assert Facts(True, DRIVER).size(spark_side(10)) == Size(10 * (DRIVER.number_bytes + DRIVER.string_bytes), 10)
    assert Facts(True, replace(DRIVER, string_bytes=2)).size(spark_side(10)) == Size(100, 10)


@pytest.mark.parametrize(
    "kind", [JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI, JoinKind.NULL_AWARE_ANTI]
)
def test_they_are_built_and_never_exchanged(fact: Scan, kind: JoinKind) -> None:
    few = Filter(fact, Compare(CompareOp.EQ, ANYWHERE, Literal(1, LONG)))
    for probe in (fact, few):
        tree = totals(joined(probe, spark_side(100_000), CLUSTERED, KEY, kind))
        text = explain(tree, hand_over_ns_per_row=0.001, hand_over_ns_per_number=0.001, hand_over_ns_per_string=0.001)
        assert f"HashJoin: {kind.value}" in text
        assert "BuildSide\n" in text
        assert "PartitionedJoin" not in text
        assert "Hold" not in text


def test_an_inner_join_builds_them_from_the_left_as_well(fact: Scan) -> None:
    tree = totals(Join(spark_side(), fact, JoinKind.INNER, (JoinKey(KEY, CLUSTERED),)))
    assert "HashJoin: inner, clustered#1 = k#50" in explain(tree)


def test_what_rules_put_above_them_changes_nothing(fact: Scan) -> None:
    side = Filter(spark_side(), Compare(CompareOp.GT, KEY, Literal(5, LONG)))
    text = explain(optimize(totals(joined(fact, side, CLUSTERED, KEY))), broadcast_bytes=1 << 20)
    assert "SparkInput: Filter, CSV" in text
    assert "PartitionedJoin" not in text


def test_two_sides_of_sparks_and_one_table_are_probed_in_one_pass(fact: Scan, dimension: Scan) -> None:
    other = replace(spark_side(), handle=4, fields=(("k#60", LONG), ("region#61", TEXT)))
    tree: LogicalPlan = joined(fact, spark_side(), CLUSTERED, KEY)
    tree = joined(tree, dimension, ANYWHERE, column("id#11"))
    text = explain(totals(joined(tree, other, ANYWHERE, column("k#60"))))
    assert text.count("HashJoin") == 3
    assert text.count("collected once") == 2
    assert "join_filters=[anywhere#2, anywhere#2, clustered#1]" in text


def test_a_side_goes_back_to_spark_by_its_figures(fact: Scan) -> None:
    """100 kB are few, 100 MB are not; and of few rows to probe there is little to win."""
    join = joined(fact, spark_side(), CLUSTERED, KEY)
    assert why_not_collected(join, DRIVER) is None
    reasons = [
        why_not_collected(replace(join, right=side), DRIVER)
        for side in (spark_side(None), spark_side(10_000_000), spark_side(1_000_000, counted=False))
    ]
    for reason, words in zip(reasons, ("does not know", "10,000,000 rows", "160,000,000 bytes at most"), strict=True):
        assert reason is not None
        assert reason.code is Code.COST
        assert words in reason.sentence
    assert why_collecting_loses(spark_side(1_000_000), 5_000_000, DRIVER) is None
    assert why_collecting_loses(spark_side(1_000_000, conditions=3), 1000, DRIVER) is None  # an eighth is left
    lost = why_collecting_loses(spark_side(1_000_000), 100_000, DRIVER)
    assert lost is not None
    assert "would take 0.39 s to hand over, and 0.08 s would be won with the 100,000 rows" in lost.sentence
    with pytest.raises(Declined) as declined:
        explain(totals(joined(fact, spark_side(1_000_000), CLUSTERED, KEY)))
    assert declined.value.reasons[0].code is Code.COST


def test_rows_that_are_collected_have_a_size(fact: Scan) -> None:
    """So that `auto` reads a small fact table on the driver."""
    tree = totals(joined(fact, spark_side(), CLUSTERED, KEY))
    assert explain(tree, "auto") == explain(tree, "driver") != explain(tree, "executors")

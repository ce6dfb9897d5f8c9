"""Plans as the SQL tab of Spark's UI shows them. No JVM; `tests/spark/test_spark_ui.py` has one."""

from __future__ import annotations

from itertools import count

import pyarrow as pa

from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.operators.topk.topk import TopKOperator
from sundog.plan.costs import DRIVER
from sundog.report.spark_ui import UiPlan
from sundog.versions.parts.sql_executions import plan_node
from tests.report.samples import Text, graph_of, record


def test_each_line_of_explain_is_a_node_with_its_metrics_below_the_line_above() -> None:
    key = SortKey(Column("id", pa.int64()))
    operator = TopKOperator(pa.schema([("id", pa.int64())]), (key,), 5, costs=DRIVER)
    graph = graph_of([operator, Text("Scan: of", "events")], None)
    ran = record(0, "Scan", 2, 0.5, {"row_groups_scanned": 3, "tasks": 2}, {"compute_seconds": 0.25}, {})
    ran.operators[0].rows, ran.operators[0].batches, ran.operators[0].seconds = 70, 1, 1.5
    ran.operators[1].rows, ran.operators[1].batches, ran.operators[1].seconds = 5, 1, 2.0
    numbers = count(100)
    plan = UiPlan(lambda wanted: [next(numbers) for _ in range(wanted)], plan_node)

    root = plan.tree("collect", [(graph, [ran])], {"row_groups_pruned_dynamic_filter": 9, "spill_count": 0})

    assert (root["nodeName"], root["simpleString"]) == ("sundog", "collect")
    (topk,) = root["children"]
    (scan,) = topk["children"]
    assert [topk["nodeName"], scan["nodeName"], scan["simpleString"]] == ["TopK", "Scan: of", "Scan: of: events"]
    values = dict(plan.values)
    shown = [
        {metric["name"]: (values[metric["accumulatorId"]], metric["metricType"]) for metric in node["metrics"]}
        for node in (root, topk, scan)
    ]
    assert shown == [
        {"row_groups_pruned_dynamic_filter": (9, "sum")},  # what is 0, and what is for developers, is left out
        {"rows": (5, "sum"), "time": (500, "timing")},
        {"rows": (70, "sum"), "time": (1500, "timing"), "row_groups_scanned": (3, "sum")},
    ]

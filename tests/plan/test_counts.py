"""Metrics belong to the step that counted them, wherever they are shown; the totals are sums over the steps."""

from __future__ import annotations

import re
import time
from itertools import count
from typing import Any

import pytest

from sundog.metrics import METRICS, Metrics
from sundog.operators.join.build_side import BuildSide
from sundog.plan.explain import outline
from sundog.plan.logical import Filter, Scan
from sundog.report.explain import analyzed_text, counts_of
from sundog.report.html import plan_lines
from sundog.report.spark_ui import Node, UiPlan
from sundog.versions.parts.sql_executions import plan_node
from tests.plan import test_joins, test_lower
from tests.plan.test_joins import CLUSTERED, ID, PART, Planned, equals, joined, metric, run, totals

scan, fact, dimension = test_lower.scan, test_joins.fact, test_joins.dimension

PRUNED = {"files_total", "row_groups_total", "row_groups_scanned", "row_groups_pruned_join_filter"}
OF_FACT = {"files_total": 4, "row_groups_total": 64, "row_groups_scanned": 10, "row_groups_pruned_join_filter": 54}
OF_DIMENSION = {"files_total": 1, "row_groups_total": 1, "row_groups_scanned": 1}


@pytest.fixture(scope="module")
def join(fact: Scan, dimension: Scan) -> Planned:
    """A scan below the build side, and one that its keys prune."""
    return run(totals(joined(fact, Filter(dimension, equals(PART, 1)), CLUSTERED, ID)))


def test_explain_shows_of_each_scan_what_it_counted(join: Planned) -> None:
    text = analyzed_text([(join.graph, join.records)], (), {}, "driver", 1.0)
    scans = [line for line in text.splitlines() if "ParquetScan" in line]
    found = [{name: int(value) for name, value in re.findall(r"(\w+)=(\d+)[],]", line)} for line in scans]
    assert [{name: each[name] for name in each if name in PRUNED} for each in found] == [OF_DIMENSION, OF_FACT]


def test_the_report_shows_of_each_scan_what_it_counted(join: Planned) -> None:
    scans = [dict(line.counted) for line in plan_lines(join.graph, join.records) if line.name == "ParquetScan"]
    assert [{name: int(each[name]) for name in each if name in PRUNED} for each in scans] == [OF_DIMENSION, OF_FACT]


def test_the_entry_in_sparks_ui_shows_of_each_scan_what_it_counted(join: Planned) -> None:
    numbers = count()
    plan = UiPlan(lambda wanted: [next(numbers) for _ in range(wanted)], plan_node)
    root = plan.tree("collect", [(join.graph, join.records)], {})
    values = dict(plan.values)

    def scans(node: Node) -> list[dict[str, int]]:
        own = {each["name"]: values[each["accumulatorId"]] for each in node["metrics"] if each["name"] in PRUNED}
        below = [found for child in node["children"] for found in scans(child)]
        return [own, *below] if node["nodeName"] == "ParquetScan" else below

    assert scans(root) == [OF_DIMENSION, OF_FACT]


def test_the_totals_are_the_sum_over_the_steps(join: Planned) -> None:
    shown = Metrics()
    for line in outline(join.graph):
        found = counts_of(line, join.records)
        shown.merge(found[0].metrics if found is not None else {})
    assert shown.get("row_groups_total") == 65
    names = [name for name in METRICS if metric(join, name) and name not in ("tasks", "peak_memory_bytes")]
    assert {name: shown.get(name) for name in names} == {name: metric(join, name) for name in names}


def test_every_step_says_what_left_it_and_how_long_it_took(join: Planned) -> None:
    for line in outline(join.graph):
        found = counts_of(line, join.records)
        assert found is not None, line.text
        counts, below = found
        assert counts.rows > 0, line.text
        assert counts.bytes > 0, line.text
        assert counts.seconds >= below, line.text


def test_a_search_on_threads_says_what_it_and_its_scan_did(scan: Scan) -> None:
    found = test_lower.run(test_lower.topk(scan))
    late, best, below = (counts_of(line, found.records) for line in outline(found.graph))
    assert late is not None
    assert best is not None
    assert below is not None
    assert [each[0].rows for each in (late, best)] == [3, 3]
    assert below[0].rows >= 3, "what the threshold left of each row group"
    for counts, seconds_below in (late, best, below):
        assert counts.bytes > 0
        assert counts.seconds > seconds_below
    assert below[0].metrics.get("row_groups_total") == 16
    assert below[0].metrics.get("row_groups_scanned") >= 1
    assert best[0].metrics.get("row_groups_scanned") == 0, "the scan below has counted them"
    assert best[0].metrics.get("threshold_updates") >= 1
    assert late[0].metrics.get("row_groups_materialized") == 1


def test_a_build_side_has_the_time_and_the_bytes_of_its_index(
    fact: Scan, dimension: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[BuildSide] = []

    def slow(*given: Any) -> BuildSide:
        time.sleep(0.05)
        made.append(indexed(*given))
        return made[-1]

    indexed = BuildSide.of
    monkeypatch.setattr(BuildSide, "of", slow)
    found = run(totals(joined(fact, Filter(dimension, equals(PART, 1)), CLUSTERED, ID)))
    above, below = (counts_of(line, found.records) for line in outline(found.graph)[4:6])
    assert [line.name for line in outline(found.graph)[4:6]] == ["BuildSide", "ParquetScan"]
    assert above is not None
    assert below is not None
    assert above[0].rows == made[0].rows == 10
    assert above[0].bytes == made[0].nbytes > below[0].bytes
    assert above[0].seconds - above[1] > 0.05 > below[0].seconds
    assert above[0].metrics.get("input_rows") == 0, "the scan has counted them"


def test_a_stage_says_rows_and_bytes_of_its_output(join: Planned) -> None:
    text = analyzed_text([(join.graph, join.records)], (), {}, "driver", 1.0)
    stages = text.partition("-- stages --\n")[2].splitlines()
    assert len(stages) == len(join.records) == 3
    assert re.match(r"1\. Build side on driver: 1 task, 10 rows, [\d.]+ KiB, ", stages[0])
    assert all(re.search(r"task.*, [\d,]+ rows?, [\d.,]+ (bytes|KiB), ", stage) for stage in stages)


def test_stages_that_were_given_up_count_no_planned_metrics(fact: Scan, dimension: Scan) -> None:
    found = run(totals(joined(fact, Filter(dimension, equals(PART, 1)), CLUSTERED, ID)), max_build_share=0)
    assert found.graph.given_up
    assert found.graph.planned_metrics().get("files_total") == 5

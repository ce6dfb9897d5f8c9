"""The report's content, read back from the HTML without a browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sundog.plan.stages import StageGraph
from sundog.report.details import (
    AggregateDetails,
    KeyPoint,
    RangeMark,
    RowGroupMark,
    RowGroupState,
    ScanDetails,
    ThresholdStep,
    TopKDetails,
    WindowDetails,
)
from sundog.report.html import Section, Timing, plan_lines, render_report, run_fragment
from sundog.run import Run
from sundog.support import Code, Reason
from tests.report.samples import Text, aggregate_run, graph_of, record, spark_run, topk_details, topk_run, window_run

VOID = {"meta", "br", "img", "link", "input", "hr"}
EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)>\'"&'


class Element:
    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.text = ""

    def has_class(self, name: str) -> bool:
        return name in self.attributes.get("class", "").split()


class Page(HTMLParser):
    """All elements in order, with the text inside each; complains of tags that do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {[element.tag for element in self._open]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, tag: str, with_class: str | None = None) -> list[Element]:
        return [
            element
            for element in self.elements
            if element.tag == tag and (with_class is None or element.has_class(with_class))
        ]

    @property
    def text(self) -> str:
        return " ".join(self.all("body")[0].text.split())

    def bars(self) -> list[Element]:
        return [element for element in self.elements if element.attributes.get("role") == "listitem"]


def page_of(*runs: Run) -> Page:
    return Page(render_report([Section(run) for run in runs]))


def all_samples() -> list[Run]:
    return [topk_run(), window_run(), aggregate_run(), spark_run()]


def test_the_file_needs_no_network() -> None:
    text = render_report([Section(run) for run in all_samples()])
    assert not re.search(r"(https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text)
    page = Page(text)
    assert not page.all("link")
    assert not page.all("img")
    assert all("src" not in element.attributes for element in page.elements)
    hrefs = [element.attributes["href"] for element in page.elements if "href" in element.attributes]
    assert all(href.startswith("#") for href in hrefs)
    policy = next(element for element in page.all("meta") if "http-equiv" in element.attributes)
    assert "default-src 'none'" in policy.attributes["content"]
    assert "'unsafe-inline'; script" not in policy.attributes["content"].split("script-src")[1]


def test_the_page_has_one_script_and_its_hash_is_allowed() -> None:
    import base64
    import hashlib

    text = render_report([Section(topk_run())])
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text


def test_ids_are_unique_and_labels_point_to_them() -> None:
    page = page_of(*all_samples())
    ids = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    for name in ("aria-labelledby", "href"):
        for element in page.elements:
            if name in element.attributes:
                assert element.attributes[name].lstrip("#") in ids


def test_headline_says_where_how_long_and_what_was_skipped() -> None:
    page = page_of(topk_run())
    assert page.all("span", "verdict")[0].text == "Accelerated on the driver"
    assert "Read 3 of 20 row groups (15 %)" in page.all("p", "summary")[0].text
    assert "the other 17" in page.all("p", "summary")[0].text
    tiles = dict(zip((dt.text for dt in page.all("dt")), (dd.text for dd in page.all("dd")), strict=True))
    assert tiles["Total time"] == "80 ms"
    assert tiles["of it, planning"] == "30 ms"
    assert tiles["Row groups read"] == "3 of 20 15 %"


def test_headlines_of_the_other_shapes() -> None:
    window, aggregate, spark = (page_of(run).all("p", "summary")[0].text for run in all_samples()[1:])
    assert "4 ranges" in window
    assert "borrowed 36 rows (0.08 % of the input)" in window
    assert "5 million rows into 1.52 million groups" in aggregate
    assert "1.2 million rows the partial aggregation was left out" in aggregate
    assert "Spark ran this query unchanged, because: column name has the collation UTF8_LCASE." in spark
    assert "1 more reason below" in spark


def test_a_row_group_that_was_read_twice_is_one() -> None:
    run = window_run()
    run.metrics.update(row_groups_total=8, row_groups_scanned=16, input_rows=92_000)
    page = page_of(run)
    tiles = dict(zip((dt.text for dt in page.all("dt")), (dd.text for dd in page.all("dd")), strict=True))
    assert tiles["Row groups read"] == "8 of 8 100 %"
    assert "borrowed 36 rows (0.08 % of the input)" in page.all("p", "summary")[0].text


def test_every_row_group_is_a_bar_with_its_fate_in_words() -> None:
    page = page_of(topk_run())
    bars = page.bars()
    assert len(bars) == 20
    kinds = [bar.attributes["class"] for bar in bars]
    assert kinds[:5] == ["bar k-statistics"] * 2 + ["bar k-read"] * 2 + ["bar k-read k-unknown"]
    assert kinds[-2:] == ["bar k-initial", "bar k-never"]
    assert bars[2].attributes["aria-label"] == (
        "read: part-00004.parquet, row group 1, 2026-03-03 03:00:00 to 2026-03-03 07:00:00, 1,000 rows, "
        "number 3 of 20 in the queue"
    )
    assert "no minimum and maximum in the file" in bars[4].attributes["aria-label"]
    legend = " ".join(page.all("ul", "legend")[0].text.split())
    assert legend == (
        "3 read (15 %) 2 pruned by statistics (10 %) 1 pruned by the initial threshold (5 %) "
        "13 pruned dynamically (65 %) 1 never reached (5 %) threshold, at the end 2026-03-03 06:00:00"
    )


def test_bars_and_threshold_lie_inside_the_picture() -> None:
    page = page_of(topk_run(), window_run(), aggregate_run())
    for rect in page.all("rect", "bar"):
        if rect.attributes["x"].endswith("%"):
            left, width = (float(rect.attributes[name].rstrip("%")) for name in ("x", "width"))
            assert left >= 0
            assert width > 0
            assert left + width <= 100.001
    lines = page.all("line", "threshold")
    vertical = [
        line for line in lines if line.attributes["x1"] == line.attributes["x2"] and "%" in line.attributes["x1"]
    ]
    assert len(vertical) == 3
    places = [float(line.attributes["x1"].rstrip("%")) for line in vertical]
    assert places == sorted(places), "for a descending order the threshold only moves up"


def test_picture_of_an_ascending_order_loses_on_the_right() -> None:
    marks = tuple(
        RowGroupMark("a.parquet", index, 5, RowGroupState.READ, KeyPoint(index, str(index)), KeyPoint(index + 1, "x"))
        for index in range(4)
    )
    details = TopKDetails("n ASC", 3, False, row_groups=marks, thresholds=(ThresholdStep(1, KeyPoint(1, "1")),))
    losing = page_of(topk_run(details)).all("rect", "losing")
    assert [(rect.attributes["x"], rect.attributes["width"]) for rect in losing] == [("25.0%", "75.0%")]


def test_each_picture_has_a_table_with_the_same_facts() -> None:
    page = page_of(topk_run(), window_run())
    captions = [element.text for element in page.all("caption")]
    assert "Row groups in the order of the queue." in captions
    assert "Ranges in the order of their keys." in captions
    rows = [" ".join(row.text.split()) for row in page.all("tr")]
    assert any("part-00004.parquet" in row and "pruned by statistics" in row for row in rows)
    cells = [cell.text for cell in page.all("td")]
    assert "13,000" in cells
    assert all("scope" in head.attributes for head in page.all("th"))


def test_thousands_of_row_groups_are_drawn_as_few_bars_and_counted_in_full() -> None:
    page = page_of(topk_run(topk_details(20_000)))
    bars = page.bars()
    assert 100 < len(bars) <= 240
    assert "Neighbours in the queue that have the same outcome are drawn as one bar." in page.text
    assert "2,000 pruned by statistics" in page.text
    drawn = sum(
        int(found[1].replace(",", ""))
        if (found := re.search(r"([\d,]+) row groups", bar.attributes["aria-label"]))
        else 1
        for bar in bars
    )
    assert drawn == 20_000


def test_a_queue_whose_neighbours_all_differ_is_cut_off_and_says_so() -> None:
    states = (RowGroupState.READ, RowGroupState.PRUNED_DYNAMIC)
    marks = tuple(
        RowGroupMark("a.parquet", index, 1, states[index % 2], KeyPoint(index, str(index)), KeyPoint(index, str(index)))
        for index in range(1000)
    )
    page = page_of(topk_run(TopKDetails("n ASC", 1, row_groups=marks)))
    assert len(page.bars()) == 240
    assert "The last 760 row groups of the queue are not drawn, but counted above." in page.text
    assert "500 read (50 %)" in page.text


def test_row_groups_without_any_bounds_are_drawn_as_unknown() -> None:
    marks = tuple(RowGroupMark("a.parquet", index, 7, RowGroupState.READ) for index in range(3))
    page = page_of(topk_run(TopKDetails("n ASC", 1, row_groups=marks)))
    assert len(page.all("rect", "k-unknown")) == 3
    assert "could not be judged" in page.text
    assert not page.all("line", "threshold-edge")


def test_huge_numbers_do_not_break_the_axis() -> None:
    points = [KeyPoint(-1.7e308, "low"), KeyPoint(0, "0"), KeyPoint(1.7e308, "9" * 400)]
    marks = tuple(
        RowGroupMark("a.parquet", index, 10**18, RowGroupState.READ, points[index], points[index + 1])
        for index in range(2)
    )
    page = page_of(topk_run(TopKDetails("n ASC", 1, row_groups=marks)))
    assert [(bar.attributes["x"], bar.attributes["width"]) for bar in page.bars()] == [
        ("0.0%", "50.0%"),
        ("50.0%", "50.0%"),
    ]
    for bar in page.bars():
        assert "1,000,000 trillion rows" in bar.attributes["aria-label"]
    assert max(len(element.text) for element in page.all("span")) < 200


@pytest.mark.parametrize(
    "notes",
    [
        [TopKDetails("n ASC", 1)],
        [ScanDetails("facts", "d", ("d (3 keys)",))],
        [WindowDetails("n ASC")],
        [WindowDetails("n ASC", ranges=(RangeMark(0), RangeMark(5)))],
        [AggregateDetails("", 0, 0, 0, 0, 0, 0)],
        [AggregateDetails("a", 5, 5, 0, 5, 10, 5), AggregateDetails("b", 9, 0, 9, 9, 9, 2)],
        [object()],
        [],
    ],
)
def test_runs_with_nothing_to_draw(notes: list[object]) -> None:
    page = page_of(Run(action="collect", accelerated=True, graphs=[StageGraph(notes=notes)], stages=[[]]))
    assert page.all("span", "verdict")[0].text == "Accelerated"


def test_the_scan_under_a_join_shows_what_its_keys_ruled_out() -> None:
    states = [RowGroupState.PRUNED_JOIN_FILTER] * 126 + [RowGroupState.READ, RowGroupState.PRUNED_STATISTICS]
    marks = tuple(
        RowGroupMark(
            "a.parquet", number, 1000, state, KeyPoint(number, str(number)), KeyPoint(number + 1, str(number + 1))
        )
        for number, state in enumerate(states)
    )
    details = ScanDetails("facts", "d", ("d (3 keys)",), row_groups=marks, pages=7, rows=600)
    page = page_of(Run(accelerated=True, graphs=[StageGraph(notes=[details])], stages=[[]]))
    assert "Join: which row groups of facts were read" in page.text
    assert "126 pruned by the keys of a join" in page.text
    assert "1 pruned by statistics" in page.text
    assert "the same keys ruled out 7 pages and 600 rows" in page.text
    labels = [bar.attributes["aria-label"] for bar in page.bars()]
    assert labels[126] == "read: a.parquet, row group 126, 126 to 127, 1,000 rows, number 127 of 128 in the table"


def test_an_empty_run_and_an_empty_page() -> None:
    assert "Ran on plain Spark" in page_of(Run()).text
    assert "There is no run on this page." in page_of().text


def test_a_run_that_stayed_on_spark_lists_every_reason() -> None:
    page = page_of(spark_run())
    assert page.all("span", "verdict")[0].text == "Ran on plain Spark"
    reasons = page.all("ul", "reasons")[0].text
    assert "COLLATION" in reasons
    assert "the data comes from CSV files" in reasons
    assert Code.SOURCE.value in reasons
    assert "sundog took no part of this query" in page.text


def test_ranges_show_their_own_rows_and_their_halo() -> None:
    page = page_of(window_run())
    labels = [bar.attributes["aria-label"] for bar in page.bars()]
    assert (
        labels[0]
        == "range 1: 2026-03-01 00:00:00 to 2026-03-01 04:00:00, 10,000 rows of its own, nothing borrowed, 100 ms"
    )
    assert any("12 rows borrowed from 2026-03-01 03:59:50 on" in label for label in labels)
    assert len(page.all("rect", "k-halo")) == 2 * 3 + 1, "three ranges in two pictures, and the legend"
    assert "The cut points came from row-group statistics." in page.text


def test_ranges_whose_halo_is_known_for_all_together_only() -> None:
    low, cut, high = (KeyPoint(place, str(place)) for place in (0, 5, 10))
    ranges = (RangeMark(7, low, cut, halo_high=KeyPoint(6, "6")), RangeMark(8, cut, high, halo_low=KeyPoint(4, "4")))
    details = WindowDetails("n ASC", ranges=ranges, is_estimate=True)
    run = Run(accelerated=True, graphs=[StageGraph(notes=[details])])
    page = page_of(run)
    assert page.bars()[0].attributes["aria-label"] == "range 1: 0 to 5, about 7 rows of its own, borrowed up to 6"
    assert len(page.all("rect", "k-halo")) == 2 + 1, "on the key axis, and in the legend; not among the counted rows"
    assert "estimated from a sample, not counted" in page.text


def test_aggregate_shows_the_reduction_of_each_phase() -> None:
    page = page_of(aggregate_run())
    phases = next(
        element for element in page.all("ul", "bars") if element.attributes["aria-label"].startswith("Rows after")
    )
    assert " ".join(phases.text.split()) == (
        "Rows in 5 million After the partial aggregation 4.3 million 1.2 to 1 Exchanged 4.3 million as many, 83.9 MiB "
        "Groups out 1.52 million 2.8 to 1"
    )
    assert "1.2 million rows (24 %) skipped the partial aggregation" in page.text
    assert "3 temporary files with 114 MiB" in page.text
    assert len(page.bars()) == 4


def test_stages_add_up_to_the_total() -> None:
    page = page_of(topk_run())
    stages = next(
        element for element in page.all("ul", "bars") if element.attributes["aria-label"] == "Seconds by stage"
    )
    assert " ".join(stages.text.split()) == (
        "Planning 30 ms 1. TopK search 30 ms 2 tasks 2. Materialize 10 ms 1 task The rest 10 ms handing rows over"
    )


def test_metrics_stand_beside_the_operator_that_counted_them() -> None:
    run = topk_run()
    lines = plan_lines(run.graphs[0], run.stages[0])
    assert [line.name for line in lines] == ["TopK", "ParquetScan"]
    assert [line.depth for line in lines] == [0, 1]
    assert lines[0].counted == (("topk_rounds", "1"),)
    assert ("row_groups_total", "20") in lines[1].counted
    assert ("bytes_scanned", "4.77 MiB") in lines[1].counted


def test_every_metric_is_listed_with_its_meaning() -> None:
    page = page_of(topk_run())
    rows = ["".join(row.text.split()) for row in page.all("tr")]
    assert "row_groups_total20Rowgroupsofthefiles." in rows
    assert "compute_seconds20msTimeinoperators." in rows


def test_comparison_with_other_engines() -> None:
    timings = (Timing("plain Spark", 3.2), Timing("sundog, driver", 0.08))
    page = Page(render_report([Section(topk_run(), "Newest", "Why.", "SELECT 1 < 2", timings)], "Demo", "Two runs."))
    engines = next(
        element for element in page.all("ul", "bars") if element.attributes["aria-label"].startswith("Seconds by e")
    )
    assert " ".join(engines.text.split()) == "plain Spark 3.20 s sundog, driver 80 ms 40× as fast"
    assert page.all("pre", "query")[0].text == "SELECT 1 < 2"
    assert page.all("title")[0].text == "Demo"


def evil_run() -> Run:
    point = KeyPoint(1.0, EVIL)
    marks = (RowGroupMark(f"{EVIL}.parquet", 0, 1, RowGroupState.READ, point, KeyPoint(2.0, EVIL)),)
    return Run(
        action=EVIL,
        accelerated=True,
        reasons=[Reason(Code.UNKNOWN_EXPRESSION, EVIL, EVIL)],
        placement=EVIL,
        graphs=[
            graph_of([Text("TopK", f"order=[{EVIL}]"), Text(EVIL, EVIL)], note)
            for note in (
                TopKDetails(EVIL, 1, row_groups=marks, thresholds=(ThresholdStep(0, point),)),
                WindowDetails(EVIL, (EVIL,), ranges=(RangeMark(1, point, point),), cut_by=EVIL, moved_by=EVIL),
                AggregateDetails(EVIL, 1, 1, 0, 1, 1, 1),
                ScanDetails(EVIL, EVIL, (EVIL,), row_groups=marks),
            )
        ],
        metrics={EVIL: 1.0},
        stages=[[record(0, EVIL, 1, 0.1, {}, {})]],
    )


@pytest.mark.parametrize("whole_page", [True, False])
def test_text_of_users_is_escaped_everywhere(whole_page: bool) -> None:
    run = evil_run()
    timings = (Timing(EVIL, 1.0), Timing(EVIL, 2.0))
    text = render_report([Section(run, EVIL, EVIL, EVIL, timings)] * 2, EVIL, EVIL) if whole_page else run_fragment(run)
    assert "alert(" in text
    assert "<script>alert" not in text
    assert "<img" not in text
    elements = Page(f"<body>{text}</body>" if not whole_page else text).elements
    assert [element.tag for element in elements].count("script") == (1 if whole_page else 0)
    assert not any(name.startswith("on") for element in elements for name in element.attributes)
    assert any(EVIL in element.attributes.get("aria-label", "") for element in elements)


def test_keyboard_reaches_each_picture_with_one_stop() -> None:
    page = page_of(topk_run())
    stops = [bar.attributes["tabindex"] for bar in page.bars()]
    assert stops == ["0"] + ["-1"] * 19
    picture = next(element for element in page.all("svg") if element.attributes.get("role") == "list")
    assert "arrow keys" in picture.attributes["aria-label"]


def test_decoration_is_hidden_from_screen_readers() -> None:
    for svg in page_of(*all_samples()).all("svg"):
        assert svg.attributes.get("aria-hidden") == "true" or "aria-label" in svg.attributes


def test_a_notebook_shows_the_run_without_scripts() -> None:
    text = topk_run()._repr_html_()
    assert "<script" not in text
    page = Page(f"<body>{text}</body>")
    assert "Read 3 of 20 row groups" in page.text
    assert page.bars()[0].text.startswith("pruned by statistics"), "a title shows on hover where no script does"
    styles = page.all("style")[0].text
    without_media = re.sub(r"@media[^{]*\{", "", styles)
    selectors = [part for rule in re.findall(r"([^{}]+)\{", without_media) for part in rule.split(",")]
    assert all(part.strip().startswith(".sundog") for part in selectors), "styles must not leak into the notebook"


def test_to_html_writes_the_file(tmp_path: Path) -> None:
    topk_run().to_html(tmp_path / "run.html")
    topk_run().to_html(str(tmp_path / "again.html"))
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert Page(text).all("title")[0].text == "sundog run"
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == text

"""The report in a real browser: mouse, keyboard, phone and dark mode.

Needs Chromium and its driver (Debian: `apt-get install chromium chromium-driver`) and selenium; skipped without.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.report.html import Section, Timing, run_fragment, write_report
from tests.report.samples import aggregate_run, spark_run, topk_details, topk_run, window_run
from tests.report.test_html import EVIL, evil_run

pytestmark = pytest.mark.browser

Browse = Callable[..., Any]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (pip install -e .[dev])")
    from selenium.webdriver.chrome.service import Service

    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=Service(driver))
    yield session
    session.quit()


@pytest.fixture
def browse(chromium: Any, tmp_path: Path) -> Browse:
    def open_page(*sections: Section, width: int = 1100, dark: bool = False, html: str | None = None) -> Any:
        path = tmp_path / "report.html"
        if html is None:
            write_report(path, sections, "A report")
        else:
            path.write_text(html, encoding="utf-8")
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        chromium.get(path.as_uri())
        chromium.execute_script("try { localStorage.clear() } catch (error) { }")
        chromium.get(path.as_uri())
        return chromium

    return open_page


def all_sections() -> list[Section]:
    timings = (Timing("plain Spark", 3.0), Timing("sundog, auto", 0.1))
    return [
        Section(topk_run(), "Top-k", "Newest first.", "SELECT *\nFROM events", timings),
        Section(window_run(), "Window"),
        Section(aggregate_run(), "Aggregate"),
        Section(spark_run(), "Spark"),
    ]


def css(page: Any, selector: str) -> list[Any]:
    found: list[Any] = page.find_elements("css selector", selector)
    return found


def luminance(page: Any, selector: str, prop: str) -> float:
    color = page.execute_script(f"return getComputedStyle(document.querySelector({selector!r})).{prop}")
    channels = [int(part) / 255 for part in color[color.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(page: Any, selector: str, behind: str) -> float:
    pair = sorted((luminance(page, selector, "color"), luminance(page, behind, "backgroundColor")))
    return (pair[1] + 0.05) / (pair[0] + 0.05)


def press(page: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    for key in keys:
        ActionChains(page).send_keys(key).perform()
    settle(page)


def settle(page: Any) -> None:
    """Scrolling is reported to the page a frame later."""
    page.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
    )


def test_loads_without_complaints_or_requests(browse: Browse) -> None:
    page = browse(*all_sections())
    assert page.title == "A report"
    assert [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("width", [320, 390, 768, 1100])
def test_nothing_runs_over_the_edge(browse: Browse, width: int) -> None:
    page = browse(*all_sections(), Section(evil_run(), "x" * 300, "y" * 300, "z" * 300), width=width)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    for svg in css(page, ".plot svg"):
        assert svg.rect["width"] <= width


def test_bars_are_where_their_values_are(browse: Browse) -> None:
    page = browse(Section(topk_run()))
    bars = css(page, "[data-bars] [role=listitem]")
    assert len(bars) == 20
    tops = [bar.rect["y"] for bar in bars]
    assert tops == sorted(tops), "the queue runs from top to bottom"
    newest, oldest = bars[0].rect, bars[-1].rect
    assert newest["x"] > oldest["x"] + oldest["width"]
    line = css(page, "line.threshold[y1]")[-1].rect
    pruned = bars[6].rect
    assert pruned["x"] + pruned["width"] <= line["x"] + 2, "what was pruned lies wholly on the losing side"


def test_hover_shows_what_a_bar_is(browse: Browse) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    page = browse(Section(topk_run()))
    tip = css(page, ".tip")[0]
    assert not tip.is_displayed()
    bar = css(page, "[data-bars] [role=listitem]")[2]
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", bar)
    settle(page)
    ActionChains(page).move_to_element(bar).perform()
    assert tip.is_displayed()
    assert tip.text.startswith("read: part-00004.parquet, row group 1, 2026-03-03 03:00:00 to 2026-03-03 07:00:00")
    ActionChains(page).move_to_element(css(page, "h1")[0]).perform()
    assert not tip.is_displayed()


def test_the_keyboard_walks_through_a_picture(browse: Browse) -> None:
    from selenium.webdriver.common.keys import Keys

    page = browse(Section(topk_run()))
    label = "return document.activeElement.getAttribute('aria-label') || ''"
    for _ in range(10):
        press(page, Keys.TAB)
        if "in the queue" in page.execute_script(label):
            break
    assert "number 1 of 20" in page.execute_script(label)
    assert "number 1 of 20" in css(page, ".tip")[0].text
    press(page, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert "number 3 of 20" in page.execute_script(label)
    assert "number 3 of 20" in css(page, ".tip")[0].text
    press(page, Keys.END)
    assert "number 20 of 20" in page.execute_script(label)
    press(page, Keys.ARROW_DOWN)
    assert "number 20 of 20" in page.execute_script(label)
    press(page, Keys.HOME, Keys.PAGE_DOWN)
    assert "number 11 of 20" in page.execute_script(label)
    press(page, Keys.ESCAPE)
    assert not css(page, ".tip")[0].is_displayed()
    press(page, Keys.TAB)
    assert "in the queue" not in page.execute_script(label), "one stop for the whole picture"


def test_the_tip_stays_on_the_screen_of_a_phone(browse: Browse) -> None:
    page = browse(Section(topk_run()), width=320)
    for bar in css(page, "[data-bars] [role=listitem]")[::6]:
        page.execute_script("arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", bar)
        settle(page)
        assert css(page, ".tip")[0].is_displayed()
        box = css(page, ".tip")[0].rect
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 320


@pytest.mark.parametrize("dark", [False, True])
def test_follows_the_system_by_day_and_night_with_enough_contrast(browse: Browse, dark: bool) -> None:
    page = browse(*all_sections(), dark=dark)
    assert (luminance(page, "html", "backgroundColor") < 0.1) == dark
    for text, behind in (
        ("h1", "html"),
        (".muted", ".card"),
        (".headline .summary", ".card"),
        (".accelerated .verdict", ".accelerated .verdict"),
        (".headline:not(.accelerated) .verdict", ".headline:not(.accelerated) .verdict"),
        ("details summary", ".card"),
        (".plan code", ".card"),
        (".ticks span", ".card"),
        (".tiles dt", ".tiles > div"),
    ):
        assert contrast(page, text, behind) >= 4.5, f"{text} on {behind}"


@pytest.mark.parametrize("dark", [False, True])
def test_shapes_stand_out_from_what_is_behind_them(browse: Browse, dark: bool) -> None:
    page = browse(*all_sections(), dark=dark)
    behind = luminance(page, ".card", "backgroundColor")
    for kind in ("read", "statistics", "initial", "dynamic", "never", "halo"):
        shape = luminance(page, f".k-{kind}", "stroke")
        low, high = sorted((shape, behind))
        assert (high + 0.05) / (low + 0.05) >= 3, kind


def test_the_theme_can_be_chosen(browse: Browse) -> None:
    page = browse(Section(topk_run()))
    button = css(page, "button.theme")[0]
    assert button.is_displayed()
    assert button.text == "Theme: auto"
    button.click()
    button.click()
    assert button.text == "Theme: dark"
    assert luminance(page, "html", "backgroundColor") < 0.1
    page.refresh()
    assert css(page, "button.theme")[0].text == "Theme: dark", "it is remembered"
    css(page, "button.theme")[0].click()
    assert luminance(page, "html", "backgroundColor") > 0.8


def test_light_can_be_chosen_at_night(browse: Browse) -> None:
    page = browse(Section(topk_run()), dark=True)
    css(page, "button.theme")[0].click()
    assert css(page, "button.theme")[0].text == "Theme: light"
    assert luminance(page, "html", "backgroundColor") > 0.8


def test_patterns_are_drawn_so_that_colour_is_not_all(browse: Browse) -> None:
    page = browse(Section(topk_run()))
    fills = {
        kind: page.execute_script(f"return getComputedStyle(document.querySelector('.k-{kind}')).fill")
        for kind in ("statistics", "initial", "dynamic")
    }
    assert len(set(fills.values())) == 3
    for fill in fills.values():
        anchor = fill.split("#")[1].split('"')[0].rstrip(")")
        assert css(page, f"pattern#{anchor}")


def test_the_table_opens_and_has_a_row_for_each_row_group(browse: Browse) -> None:
    page = browse(Section(topk_run()))
    summary = next(element for element in css(page, "summary") if element.text == "Show as a table")
    table = summary.find_element("xpath", "..").find_element("css selector", "table")
    assert not table.is_displayed()
    summary.click()
    assert table.is_displayed()
    assert len(table.find_elements("css selector", "tbody tr")) == 20


def test_a_screen_reader_is_told_what_a_picture_is(browse: Browse) -> None:
    page = browse(*all_sections())
    tree = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    names = {
        (node.get("role", {}).get("value"), node.get("name", {}).get("value"))
        for node in tree
        if not node.get("ignored")
    }
    assert ("list", "Row groups in the order of the queue; arrow keys move between them") in names
    assert any(role == "listitem" and (name or "").startswith("pruned by statistics: part-") for role, name in names)
    assert ("heading", "Top-k: which row groups were read") in names
    assert ("navigation", "Runs on this page") in names
    assert any(role == "main" for role, _ in names)


def test_text_of_users_runs_nothing(browse: Browse) -> None:
    page = browse(Section(evil_run(), EVIL, EVIL, EVIL, (Timing(EVIL, 1.0),)))
    assert css(page, "img") == []
    assert css(page, "h2")[0].text == EVIL
    assert [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_twenty_thousand_row_groups_open_quickly(browse: Browse) -> None:
    page = browse(Section(topk_run(topk_details(20_000))))
    assert len(css(page, "[data-bars] [role=listitem]")) <= 240
    loaded = page.execute_script("return performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert loaded < 5000


def test_a_notebook_cell_shows_the_pictures_without_scripts(browse: Browse) -> None:
    page = browse(
        html=f"<!DOCTYPE html><body style='background:#fff'><p class='other'>x</p>{run_fragment(topk_run())}</body>"
    )
    assert len(css(page, "[data-bars] [role=listitem]")) == 20
    assert css(page, ".plot svg")[1].rect["width"] > 300
    other = page.execute_script("return getComputedStyle(document.querySelector('.other')).fontFamily")
    assert "system-ui" not in other

"""A benchmark run as Markdown: a table of times, and further tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sundog.benchmarks.compare import kept_rows, kept_speed_ups
from sundog.benchmarks.engines.catalog import plain_spark_beside
from sundog.benchmarks.results import Measurement, Results, Status
from sundog.benchmarks.summary import summarize, summary_rows

_KEY_METRICS = (
    "row_groups_total",
    "row_groups_scanned",
    "row_groups_pruned_statistics",
    "row_groups_pruned_initial_threshold",
    "row_groups_pruned_dynamic_filter",
    "ranges",
    "halo_rows",
    "groups",
    "partial_aggregation_skipped",
    "spill_count",
)


def markdown(results: Results) -> str:
    """The whole report. Times are medians in seconds; the fastest of a row is bold; ± is half of the spread."""
    parts = [
        f"`{results.command}`",
        _setting(results),
        _grid(results, _time_cell, "Seconds (median of the measured runs)"),
        _ratios(results),
        _cpu_ratios(results),
        _suites(results),
        _kept(results),
        _floors(results),
        _grid(results, _first_cell, "First run in a new process (seconds)"),
        _grid(results, _cpu_cell, "Processor seconds (median, all processes)"),
        _grid(results, _first_cpu_cell, "Processor seconds of the first run (all processes)"),
        _grid(results, _memory_cell, "Peak memory of all processes (MiB)"),
        _sundog_facts(results),
        _remarks(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def time_text(measurement: Measurement | None) -> str:
    """A time with its spread, or why there is none."""
    if measurement is None:
        return ""
    if measurement.median is None:
        return measurement.status.value
    spread = "" if measurement.spread is None else f" ±{measurement.spread / 2:.0%}"
    wrong = " ≠" if measurement.agrees is False else ""
    return f"{_seconds(measurement.median)}{spread}{wrong}"


def _seconds(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 0.1 else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def _setting(results: Results) -> str:
    machine, settings = results.machine, results.settings
    memory = f", {machine['memory_bytes'] / 2**30:.0f} GiB" if machine.get("memory_bytes") else ""
    versions = sorted({f"{name} {number}" for found in results.versions.values() for name, number in found.items()})
    data = ", ".join(f"{name} ({folder})" for name, folder in results.data.items())
    return "\n".join(
        (
            f"- {results.created}; {machine['processor']}, {machine['cores_used']} cores used{memory}",
            f"- {', '.join(versions)}",
            f"- data: {data}",
            f"- {settings['warmup']} warm-up after the first run (more for short ones), up to {settings['repeat']} "
            f"measured runs",
        )
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _grid(results: Results, cell: Callable[[Measurement, Results], str], title: str) -> str:
    rows = []
    for case in results.cases:
        found = [results.of(case, engine) for engine in results.engines]
        rows.append([case, *("" if m is None else cell(m, results) for m in found)])
    if not any(text for row in rows for text in row[1:]):
        return ""
    return f"### {title}\n\n{_table(['case', *results.engines], rows)}"


def _time_cell(measurement: Measurement, results: Results) -> str:
    text = time_text(measurement)
    times = [m.median for e in results.engines if e != "decode" and (m := results.of(measurement.case, e)) and m.median]
    is_fastest = measurement.median is not None and measurement.engine != "decode" and measurement.median == min(times)
    return f"**{text}**" if is_fastest and len(times) > 1 else text


def _first_cell(measurement: Measurement, results: Results) -> str:
    return "" if measurement.first_seconds is None else _seconds(measurement.first_seconds)


def _cpu_cell(measurement: Measurement, results: Results) -> str:
    return "" if measurement.median_cpu is None else _seconds(measurement.median_cpu)


def _first_cpu_cell(measurement: Measurement, results: Results) -> str:
    return "" if measurement.first_cpu_seconds is None else _seconds(measurement.first_cpu_seconds)


def _memory_cell(measurement: Measurement, results: Results) -> str:
    return "" if measurement.peak_bytes is None else f"{measurement.peak_bytes / 2**20:,.0f}"


def _ratios(results: Results) -> str:
    """How many times faster than plain Spark each engine is, where plain Spark was measured."""
    return _against(results, plain_spark_beside, "Times faster than plain Spark", lambda base, time: base / time)


def _cpu_ratios(results: Results) -> str:
    """How many times fewer processor seconds than plain Spark: what counts where slots share cores, on a cluster."""
    title = "Times fewer processor seconds than plain Spark"
    if not results.settings.get("cluster"):
        return ""
    return _against(results, plain_spark_beside, title, lambda base, used: base / used, lambda m: m.median_cpu)


def _suites(results: Results) -> str:
    """A line for each engine and suite, where plain Spark was measured."""
    rows = summary_rows(one for one in summarize(results) if one.warm.compared)
    title = "### Suites against plain Spark"
    return f"{title}\n\n{_table(list(rows[0]), [list(row.values()) for row in rows])}" if rows else ""


def _floors(results: Results) -> str:
    """How many times as long as pyarrow takes only to decode the columns, where that was measured."""
    title = "Times as long as only decoding the columns"
    return _against(results, lambda engine: "decode", title, lambda base, time: time / base)


def _against(
    results: Results,
    base_of: Callable[[str], str],
    title: str,
    ratio: Callable[[float, float], float],
    value: Callable[[Measurement], float | None] = lambda m: m.median,
) -> str:
    others = [engine for engine in results.engines if engine != base_of(engine)]
    rows = []
    for case in results.cases:
        found = [(results.of(case, base_of(engine)), results.of(case, engine)) for engine in others]
        pairs = [tuple(None if m is None else value(m) for m in pair) for pair in found]
        if any(base for base, _ in pairs):
            cells = (f"{ratio(base, taken):.1f}" if base and taken else "" for base, taken in pairs)
            rows.append([case, *cells])
    return f"### {title}\n\n{_table(['case', *others], rows)}" if rows and others else ""


def _kept(results: Results) -> str:
    """How much of its speed-up an engine keeps in other interpreters, where it was measured in several."""
    rows = kept_rows(kept_speed_ups(results))
    title = "### Speed-up in other interpreters"
    return f"{title}\n\n{_table(list(rows[0]), [list(row.values()) for row in rows])}" if rows else ""


def _sundog_facts(results: Results) -> str:
    rows = []
    for m in results.measurements:
        if m.facts:
            metrics = m.facts.get("metrics", {})
            counts = ", ".join(f"{name} {metrics[name]:,.0f}" for name in _KEY_METRICS if metrics.get(name))
            rows.append(
                [
                    m.case,
                    m.engine,
                    _taken_cell(m),
                    m.facts.get("placement") or "",
                    _seconds(m.facts.get("planning_seconds", 0.0)),
                    _seconds(m.facts.get("execution_seconds", 0.0)),
                    counts,
                ]
            )
    header = ["case", "engine", "taken", "placement", "planning s", "execution s", "counts"]
    return f"### What sundog did\n\n{_table(header, rows)}" if rows else ""


def _taken_cell(measurement: Measurement) -> str:
    """`whole`, or `part` or `spark` with the first reason against more."""
    taken, reason = measurement.taken, _cell(measurement.facts.get("fallback_reason") or "")
    word = taken.value if taken is not None else "yes" if measurement.facts.get("accelerated") else "no"
    return f"{word}: {reason}" if reason else word


def _remarks(results: Results) -> str:
    lines = ["- The run was interrupted: not all was measured."] if results.interrupted else []
    lines += [f"- {engine} is not available: {_cell(why)}" for engine, why in results.unavailable.items()]
    skipped: dict[tuple[str, str], list[str]] = {}
    for m in results.measurements:
        if m.status is Status.SKIPPED:
            skipped.setdefault((m.engine, m.note or ""), []).append(m.case)
        elif m.note:
            lines.append(f"- {m.case} on {m.engine}: {_cell(m.note)}")
    lines += [f"- {engine} skipped {', '.join(cases)}: {_cell(note)}" for (engine, note), cases in skipped.items()]
    return "### Remarks\n\n" + "\n".join(lines) if lines else ""


def _cell(text: str) -> str:
    """Text of engines must not break a table: one line, no pipes."""
    return " ".join(text.split()).replace("|", "\\|")

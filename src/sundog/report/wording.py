"""Numbers as text for users, in one place, so that the report, the demo and the notebook agree."""

from __future__ import annotations

import math

from sundog.metrics import METRICS, Category

_BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNT_UNITS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def count_text(number: float) -> str:
    """12,345 up to a million, then 1.23 million: three significant digits."""
    if not math.isfinite(number):
        return str(number)
    for size, unit in _COUNT_UNITS:
        if abs(number) >= size:
            return f"{number / size:,.3g} {unit}" if abs(number) < 1000 * size else f"{number / size:,.0f} {unit}"
    return f"{number:,.0f}"


def plural(number: float, singular: str, several: str | None = None) -> str:
    """`1 row group`, `12 row groups`."""
    return f"{count_text(number)} {singular if number == 1 else several or singular + 's'}"


def seconds_text(seconds: float) -> str:
    if seconds < 0.0005:
        return "0 ms" if seconds <= 0 else "under 1 ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def bytes_text(size: float) -> str:
    power = 0
    while abs(size) >= 1024 and power < len(_BYTE_UNITS) - 1:
        size /= 1024
        power += 1
    if power == 0:
        return f"{size:.0f} {'byte' if size == 1 else 'bytes'}"
    return f"{size:,.0f} {_BYTE_UNITS[power]}" if size >= 99.95 else f"{size:.3g} {_BYTE_UNITS[power]}"


def share_text(part: float, whole: float) -> str:
    """A percentage that is 0 % only for nothing, and 100 % only for everything."""
    if whole <= 0:
        return "0 %"
    percent = 100 * part / whole
    if 0 < percent < 0.01:
        return "under 0.01 %"
    if 99.9 < percent < 100:
        return "over 99.9 %"
    return f"{percent:.2f} %" if percent < 1 and percent > 0 else f"{percent:.3g} %"


def ratio_text(ratio: float) -> str:
    """How many times faster."""
    return f"{ratio:,.0f}×" if ratio >= 9.95 else f"{ratio:.1f}×"


def metric_text(name: str, value: float) -> str:
    """A metric's value by its category."""
    category = METRICS[name].category if name in METRICS else Category.ROWS
    if category is Category.BYTES:
        return bytes_text(value)
    return seconds_text(value) if category is Category.TIMING else f"{value:,.0f}"

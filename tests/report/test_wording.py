"""Numbers are written in the same form everywhere, at every size."""

from __future__ import annotations

import pytest

from sundog.report.wording import bytes_text, count_text, metric_text, plural, ratio_text, seconds_text, share_text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999_999, "999,999"),
        (1_000_000, "1 million"),
        (1_234_567, "1.23 million"),
        (123_456_789, "123 million"),
        (5e9, "5 billion"),
        (2**63, "9,223,372 trillion"),
        (float("inf"), "inf"),
    ],
)
def test_counts(number: float, text: str) -> None:
    assert count_text(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.0001, "under 1 ms"),
        (0.0834, "83 ms"),
        (0.9996, "1.00 s"),
        (9.994, "9.99 s"),
        (12.34, "12.3 s"),
        (125, "2 min 5 s"),
    ],
)
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_seconds_near_a_full_minute() -> None:
    assert seconds_text(119.9) == "2 min 0 s"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (3.3e6, "3.15 MiB"), (2**60, "1,024 PiB")],
)
def test_bytes(size: float, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 0, "0 %"),
        (0, 5, "0 %"),
        (1, 10**9, "under 0.01 %"),
        (1, 1000, "0.10 %"),
        (1, 3, "33.3 %"),
        (99_999, 100_000, "over 99.9 %"),
        (7, 7, "100 %"),
    ],
)
def test_shares(part: float, whole: float, text: str) -> None:
    assert share_text(part, whole) == text


def test_the_rest() -> None:
    assert plural(1, "row group") == "1 row group"
    assert plural(0, "entry", "entries") == "0 entries"
    assert ratio_text(1234.5) == "1,234×"
    assert ratio_text(0.97) == "1.0×"
    assert metric_text("spilled_bytes", 2048) == "2 KiB"
    assert metric_text("compute_seconds", 0.25) == "250 ms"
    assert metric_text("groups", 12_345_678) == "12,345,678"
    assert metric_text("of another version", 3) == "3"

"""Why sundog does not take a query, or a part of it.

A reason is a code from the table below, a sentence about this query, and the Spark node that it is about. A matcher,
the planner or a runtime that cannot take a part of a query raises `Declined` with its reasons. Whoever catches it
(`front/match.py`, `query.py`, `run.py`, `actions/lifecycle.py`) leaves the part to Spark and keeps the reasons on the
run. The matcher goes on after the first reason, so that a user sees every subtree that stands in the way.
`docs/reference/fallback-reasons.md` is generated from the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Code(Enum):
    """Each value is the sentence for the documentation."""

    DISABLED = "Acceleration is switched off by a spark.sundog.* setting."
    NOT_A_SHAPE = (
        "The query holds no top-k, window or aggregate, and is no ORDER BY of a table whose rows come to the driver."
    )
    STREAMING = "Streaming DataFrames stay on Spark."
    CONNECT = (
        "Spark Connect: the request holds something that its server runs by itself, such as observed metrics or "
        "a model."
    )
    UNKNOWN_NODE = "The plan holds a Spark operator that sundog does not know."
    UNKNOWN_EXPRESSION = "The plan holds an expression that sundog does not compute."
    UNSUPPORTED_TYPE = "A column has a type that sundog does not handle."
    COLLATION = "A string has a collation other than UTF8_BINARY, so bytes tell neither order nor equality."
    INEXACT_CAST = "A cast is not known to be exactly Spark's."
    NONDETERMINISTIC = "An expression gives another value each time it is evaluated."
    CAN_RAISE = "An expression may raise an error for rows that sundog would not look at."
    SOURCE = "The data does not come from Parquet files that sundog can read."
    FILE_SYSTEM = "The files are on a file system that sundog cannot open."
    READ_OPTION = "A read option changes the meaning of the files in a way that sundog does not implement."
    SETTING = (
        "A setting of Spark changes a meaning in a way that sundog does not implement, or sundog does not know it."
    )
    FILE_SCHEMA = "A file's own schema differs from Spark's in a way that sundog does not implement."
    FILE_CHANGED = "A file was changed after Spark listed or wrote it: which of its rows count is Spark's to say."
    FRAME = "A window frame that sundog does not compute exactly as Spark does."
    FUNCTION = "An aggregate or window function that sundog does not compute."
    COST = "Spark would be as fast or faster here."
    LEARNED = "Spark was faster than sundog at this query earlier in the session, or is tried once to compare."
    PLAN_VERSION = "The plan has a form that this version of sundog has not seen."
    TOO_DEEP = "The plan has more operators above each other than sundog plans; the parts further down are still tried."
    RANGE_OVERFLOW = (
        "A frame boundary leaves the range of the order key's type, where Spark's answer depends on row order."
    )
    FLOATING_POINT = (
        "spark.sundog.floatingPoint is `spark`, and the order in which Spark adds these doubles is not kept here."
    )
    EXECUTION = "Something failed while sundog ran the query, so Spark ran it instead."
    INTERNAL = (
        "A bug of sundog's own: Spark ran the query instead. The stack is in `Run.internal_error`; please report it."
    )
    WRITE = (
        "A write that Spark checks and runs itself: it reads its own target, or is of a form that sundog does not know."
    )
    CANCELLED = "The user cancelled the action, which ended with Spark's error and was not started again."
    TOO_LARGE = (
        "More comes together than fits: the share of the driver's memory for the rows of one stage, or the 2 GiB of "
        "strings of one Arrow array."
    )
    SHADOW = "Shadow mode: Spark answered the query, and sundog ran it too, to compare."
    PLACEMENT = "The plan needs executors or the driver, and settings forbid it."


@dataclass(frozen=True)
class Reason:
    """Why a part of a query stays on Spark. `node` is the name of a class of Catalyst's."""

    code: Code
    sentence: str
    node: str = ""

    def __str__(self) -> str:
        where = f" (at {self.node})" if self.node else ""
        return f"{self.code.name}: {self.sentence}{where}"


class Declined(Exception):
    """A part of a query stays on Spark, for these reasons. Never reaches the user as an exception."""

    def __init__(self, *reasons: Reason) -> None:
        super().__init__("; ".join(map(str, reasons)))
        self.reasons = reasons

    @classmethod
    def because(cls, code: Code, sentence: str, node: str = "") -> Declined:
        return cls(Reason(code, sentence, node))


class TooManyBytes(Declined):
    """The rows of a stage take more bytes than they may: the planner plans without them, or the part stays on Spark."""

    @classmethod
    def than(cls, max_bytes: int) -> TooManyBytes:
        return cls(Reason(Code.TOO_LARGE, f"the rows of one step take more than {max_bytes:,} bytes"))

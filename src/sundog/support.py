"""Why sundog does not take a query, or a part of it.

A reason is a code from the table below, a sentence about this query, and the Spark node that it is about. Whatever
cannot take a part of a query, a matcher or the planner, raises `Declined` with its reasons. Where that is caught
(`front/match.py`, `query.py`, `actions/lifecycle.py`), the part is Spark's and the reasons are kept on the run. All of
them are gathered, not only the first, so that a user sees at once everything that stands in the way.
`docs/reference/fallback-reasons.md` is generated from the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Code(Enum):
    """Each value is the sentence for the documentation."""

    DISABLED = "Acceleration is switched off by a spark.sundog.* setting."
    NOT_A_SHAPE = "The query holds none of the three shapes: top-k, window, aggregate."
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
    TOO_LARGE = "More bytes of strings come together than one Arrow array can hold (2 GiB)."
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

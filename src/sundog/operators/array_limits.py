"""Limits of Arrow that a query may run into: the query is then left to Spark.

A string column of Arrow has 32-bit offsets, so one array holds 2 GiB of bytes. sundog cuts batches of many long strings
smaller (`operators/aggregate/grouping/states.py`, `parquet/decode/reader.py`). Where Arrow itself joins or repeats
rows, they cannot be cut, and Arrow's error tells.
"""

from __future__ import annotations

import pyarrow as pa

from sundog.support import Code, Declined

_TELLING = ("offset overflow while concatenating arrays", "overflowed binary array capacity")


def limit_met(error: BaseException) -> Declined | None:
    """The reason to leave the query to Spark, if the error is that of an array that would be too large; else None."""
    full = isinstance(error, pa.ArrowCapacityError)
    if full or (isinstance(error, pa.ArrowInvalid) and any(words in str(error) for words in _TELLING)):
        return Declined.because(Code.TOO_LARGE, str(error).splitlines()[0][:200])
    return None

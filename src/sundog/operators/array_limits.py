"""Limits of Arrow that a query may run into: the query is then left to Spark.

A string column of Arrow has 32-bit offsets, so one array holds 2 GiB of bytes. Where many long strings come together,
batches are cut smaller (`operators/aggregate/grouping/states.py`, `parquet/decode/reader.py`). Where they cannot be,
because rows are joined or repeated by Arrow itself, its error says so.
"""

from __future__ import annotations

import pyarrow as pa

from sundog.support import Code, Declined

_TELLING = ("offset overflow while concatenating arrays", "overflowed binary array capacity")


def limit_met(error: BaseException) -> Declined | None:
    """The reason to leave the query to Spark, if the error says that an array would be too large; else None."""
    full = isinstance(error, pa.ArrowCapacityError)
    if full or (isinstance(error, pa.ArrowInvalid) and any(words in str(error) for words in _TELLING)):
        return Declined.because(Code.TOO_LARGE, str(error).splitlines()[0][:200])
    return None

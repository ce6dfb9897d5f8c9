"""starts_with, ends_with and contains (also Spark's `LIKE` with a `%` at one end or both), compared by bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sundog.expr.buffers import array_from, string_parts, validity_of
from sundog.expr.nodes import StringTest
from sundog.kernels.substring import mark_substring

_SAMPLE_BYTES = 4096  # bytes of the column from which the rarest bytes of a needle are estimated


def matches(test: StringTest, array: pa.Array, needle: str | bytes) -> pa.Array:
    """Whether each string passes the test; NULL for NULL."""
    match test:
        case StringTest.STARTS_WITH:
            return pc.starts_with(array, needle)
        case StringTest.ENDS_WITH:
            return pc.ends_with(array, needle)
        case StringTest.CONTAINS:
            return _contains(array, needle)


def _contains(array: pa.Array, needle: str | bytes) -> pa.Array:
    """Search for the two bytes of the needle that are rarest in the column, and compare the rest only there."""
    wanted = np.frombuffer(needle.encode() if isinstance(needle, str) else needle, np.uint8)
    if len(wanted) == 0:
        return pc.match_substring(array, needle)
    bounds, data = string_parts(array)
    for part in (bounds, data):  # else the kernel is compiled twice, for read-only and for other arrays
        part.flags.writeable = False
    seen = np.bincount(data[bounds[0] : bounds[-1]][:_SAMPLE_BYTES], minlength=256)
    rarest = np.argsort(seen[wanted], kind="stable")
    found = np.zeros(len(array), np.uint8)
    mark_substring(bounds, data, wanted, int(rarest[0]), int(rarest[min(1, len(wanted) - 1)]), found)
    return array_from(found.view(np.bool_), validity_of(array), pa.bool_())

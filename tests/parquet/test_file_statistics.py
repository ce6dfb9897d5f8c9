"""Statistics that are read here must be those that Arrow reads, for every writer that it trusts or does not."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sundog.parquet.meta.footer import parsed
from sundog.parquet.meta.thrift import read_struct, write_struct
from tests.fuzz.files.seeds import seed_files

WRITERS = [
    b"",
    b"parquet-mr version 1.13.1 (build 0)",
    b"parquet-mr version 1.10.0",
    b"parquet-mr version 1.9.1-SNAPSHOT (build abc)",
    b"parquet-mr version 1.7.0",
    b"parquet-mr",
    b"parquet-cpp version 1.2.9",
    b"parquet-cpp version 1.3.0",
    b"parquet-cpp-arrow version 7.0.0",
    b"impala version 2.0",
]
FILES = ["numbers-none-v1", "texts-none-v1", "texts-none-v1-plain", "int96", "all-null", "no-statistics"]


def _rewritten(content: bytes, created_by: bytes, deprecated: bool) -> bytes:
    """The file as if of another writer; with the old bounds alone, and no order, if those are wanted."""
    length = int.from_bytes(content[-8:-4], "little")
    footer, _ = read_struct(content[-8 - length : -8])
    footer[6] = (8, created_by)
    if not created_by:
        del footer[6]
    for group in footer[4][1][1] if deprecated else []:
        for column in group[1][1][1]:
            statistics = column[3][1].get(12, (0, {}))[1]
            for new, old in ((5, 1), (6, 2)):
                if new in statistics:
                    statistics[old] = statistics.pop(new)
    if deprecated:
        footer.pop(7, None)
    raw = write_struct(footer)
    return content[: -8 - length] + raw + len(raw).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize("created_by", WRITERS)
@pytest.mark.parametrize("deprecated", [False, True])
def test_no_bound_is_believed_that_arrow_does_not_believe(created_by, deprecated):
    trusted = 0
    for name in FILES:
        content = _rewritten(seed_files()[name], created_by, deprecated)
        footer = parsed(pa.BufferReader(content), name, (len(content),))
        metadata = pq.read_metadata(pa.BufferReader(content))
        for leaf in range(metadata.num_columns):
            ours = footer.raw_statistics(leaf)
            for group in range(metadata.num_row_groups):
                theirs = metadata.row_group(group).column(leaf).statistics
                low, high = (theirs.min_raw, theirs.max_raw) if theirs and theirs.has_min_max else (None, None)
                if ours.lows[group] is not None:
                    assert (ours.lows[group], ours.highs[group]) == (low, high), (name, leaf)
                    trusted += 1
                elif not deprecated and b"1.7" not in created_by and created_by != b"parquet-mr":
                    assert low is None, (name, leaf)
                nulls = theirs.null_count if theirs and theirs.has_null_count else None
                assert ours.null_counts[group] == nulls or (nulls is None and ours.null_counts[group] is not None)
    assert trusted > 10

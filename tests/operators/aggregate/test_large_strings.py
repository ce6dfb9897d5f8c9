"""More bytes of strings than one Arrow array can hold: batches are cut, or Spark runs the query; sundog never raises.

The limit is 2 GiB. Most tests lower it, one meets it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sundog.columns import text
from sundog.columns.arrow import from_arrow, to_arrow
from sundog.columns.key_layout import KeyLayout
from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.nodes import Column
from sundog.metrics import Metrics
from sundog.operators.aggregate.inputs import sized_batches
from sundog.operators.aggregate.keys.group_table import GroupTable
from sundog.operators.array_limits import limit_met
from sundog.parquet.decode.reader import FileReader
from sundog.parquet.meta.file_schema import ColumnSource, Reading, to_query_type
from sundog.parquet.problems import TooLargeForOneArray
from sundog.plan.costs import DRIVER
from sundog.runtime.worker_errors import _decode, _encode
from sundog.support import Code, Declined
from tests.operators.aggregate.runner import Setup, rows_by_key, run_phases
from tests.parquet.files import relation, write_file

LIMIT = 3000
LONG = "a string that is not inside of its view, number "
MEGABYTES = "x" * (10 << 20)


@pytest.fixture
def low_limit(monkeypatch):
    monkeypatch.setattr(text, "LARGEST_STRING_BYTES", LIMIT)


def rows(count: int) -> pa.RecordBatch:
    names = [f"{LONG}{at % 150}" for at in range(count)]
    return pa.record_batch({"name": names, "n": pa.array(np.arange(count))})


@pytest.mark.usefixtures("low_limit")
@pytest.mark.parametrize("in_process", [True, False])
@pytest.mark.parametrize("memory", [1 << 40, 1 << 14])
def test_groups_whose_strings_are_too_many_for_one_array(tmp_path, in_process, memory):
    keys = [NamedExpr("name", Column("name", pa.string()))]
    calls = [
        AggregateCall("most", "max", (Column("name", pa.string()),), pa.string()),
        AggregateCall("sum", "sum", (Column("n", pa.int64()),), pa.int64()),
    ]
    tasks = [[rows(600)], [rows(300), rows(450)]]
    setup = Setup(partitions=2, in_process=in_process, memory=memory, batch_rows=200)
    table, _ = run_phases(keys, calls, tasks, setup, spill_root=tmp_path)
    expected: dict[tuple[str], list[object]] = {}
    for batch in (batch for task in tasks for batch in task):
        for name, n in zip(batch["name"].to_pylist(), batch["n"].to_pylist(), strict=True):
            expected.setdefault((name,), [name, 0])[1] += n  # type: ignore[operator]
    assert {key: list(row) for key, row in rows_by_key(table, 1).items()} == expected
    assert max(chunk.nbytes for chunk in table["name"].chunks) < 2 * LIMIT


@pytest.mark.usefixtures("low_limit")
def test_keys_of_one_batch_are_kept_in_as_many_blocks_as_they_need():
    table = GroupTable(KeyLayout.of([pa.string()]), DRIVER)
    names = [f"{LONG}{at}" for at in range(200)]
    ids = table.assign([from_arrow(pa.array(names))], 200)
    assert ids.tolist() == list(range(200))
    key = table.group_keys()[0]
    assert len(key.blocks) > 3
    assert max(block.size for block in key.blocks) <= LIMIT
    assert to_arrow(key.slice(0, 30)).to_pylist() == names[:30]
    assert table.assign([from_arrow(pa.array(names[::-1]))], 200).tolist() == list(range(200))[::-1]


@pytest.mark.usefixtures("low_limit")
def test_an_array_that_cannot_be_cut_leaves_the_query_to_spark():
    vector = from_arrow(pa.array([LONG] * 100))
    with pytest.raises(Declined) as declined:
        to_arrow(vector)
    assert [reason.code for reason in declined.value.reasons] == [Code.TOO_LARGE]
    assert to_arrow(vector, pa.string_view()).to_pylist() == [LONG] * 100


def test_few_rows_of_long_strings_are_not_joined():
    batches = [pa.record_batch({"s": [LONG] * 8}) for _ in range(8)]
    found = list(sized_batches(iter(batches), replace(DRIVER, max_joined_bytes=32 * len(LONG))))
    assert [batch.num_rows for batch in found] == [32, 32]


def test_what_arrow_says_when_an_array_is_full_is_a_reason_also_from_a_worker():
    """Concatenating looks at the lengths first: the 2.3 GB are never made."""
    array = pa.array([MEGABYTES])
    with pytest.raises(pa.ArrowInvalid) as problem:
        pa.concat_arrays([array] * 230)
    found = limit_met(problem.value)
    assert found is not None
    travelled = _decode(_encode(problem.value))
    assert isinstance(travelled, Declined)
    for declined in (found, travelled):
        assert [reason.code for reason in declined.reasons] == [Code.TOO_LARGE]
    assert limit_met(pa.ArrowInvalid("anything else")) is None
    assert limit_met(ValueError("offset overflow while concatenating arrays")) is None


def test_chunks_that_do_not_fit_one_array_are_told():
    source = ColumnSource("s", pa.string(), 0, Reading.AS_IS)
    with pytest.raises(TooLargeForOneArray):
        to_query_type(pa.chunked_array([pa.array([MEGABYTES])] * 230), source, "/file")


@pytest.mark.matrix
def test_two_gigabytes_out_of_a_small_dictionary(tmp_path):
    """One string of 10 MB in 230 rows: 10 MB in the file, 2.3 GB as plain strings."""
    coded = pa.DictionaryArray.from_arrays(pa.array(np.zeros(230, np.int32)), pa.array([MEGABYTES]))
    path = write_file(tmp_path / "a.parquet", [pa.table({"s": coded})], store_schema=False)
    described = relation([path], pa.schema([("s", pa.string())]))
    reader = FileReader.open(described, described.files[0], Metrics())
    assert reader is not None
    with reader:
        found = 0
        for (part,) in reader.pieces(0, ["s"], DRIVER.max_whole_bytes):
            assert part.type == pa.string()
            found += len(part)
        assert found == 230
        del part
    with pytest.raises(pa.ArrowInvalid) as problem:
        pa.array([MEGABYTES]).take(pa.array(np.zeros(230, np.int64)))
    assert limit_met(problem.value) is not None

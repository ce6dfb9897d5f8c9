"""One small query of each kind, so that kernels are compiled before a user waits for them.

A kernel is compiled when it first meets arguments of new types, which takes 0.2 s, and is then in the cache folder for
all processes that share it. `sundog doctor --warm-up` does that for what most queries need: for an image of a cluster's
nodes, or after an update.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sundog.columns.arrow import from_arrow
from sundog.columns.key_sets import key_set, rows_passing
from sundog.columns.key_words import BUCKET_LEVEL, EXCHANGE_LEVEL, KeyEncoder
from sundog.expr.calls import AggregateCall, Bound, BoundKind, Frame, JoinKind, NamedExpr, WindowCall
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.evaluation.decimals import decimal_arithmetic, to_decimal, to_double
from sundog.expr.evaluation.matching import matches
from sundog.expr.nodes import ArithOp, Column, EvalMode, StringTest
from sundog.expr.ordering import SortKey
from sundog.kernels.compile import WarmUp, register_warmup, warm_up
from sundog.operators.aggregate.grouping.buckets import Spread, spread_chunks
from sundog.operators.aggregate.grouping.states import Chunk, StateLayout
from sundog.operators.aggregate.phases import aggregate_phases
from sundog.operators.base import Partitioner
from sundog.operators.join.hash_join import HashJoin, JoinSpec
from sundog.operators.sources import HeldBatches
from sundog.operators.topk.topk import TopKOperator
from sundog.operators.window.ranges.carry import carries_of, read_summaries
from sundog.operators.window.ranges.cuts import KeySample
from sundog.operators.window.steps import WindowSteps
from sundog.parquet.decode.own_decoder import OwnDecoder
from sundog.parquet.meta.file_schema import ColumnSource, Reading
from sundog.parquet.meta.footer import parsed
from sundog.plan.costs import DRIVER
from sundog.plan.outputs import Gather
from sundog.plan.stages import Parts, Pipeline, Place, StageGraph
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.execute import StageRunner

_ROWS = 200
_NUMBERS = ("tiny", "small", "int", "long", "float", "double")
_TIMES = ("date", "time")


def prepare_kernels() -> WarmUp:
    """Compile or load the kernels that top-ks, windows, aggregates and joins over the common types need."""
    return warm_up()


def _rows() -> pa.RecordBatch:
    numbers = np.arange(_ROWS) * 7 % 50
    return pa.record_batch(
        {
            "tiny": pa.array(numbers, pa.int8()),
            "small": pa.array(numbers, pa.int16()),
            "int": pa.array(numbers, pa.int32()),
            "long": pa.array(numbers, pa.int64(), mask=numbers == 3),
            "float": pa.array(numbers, pa.float32()),
            "double": pa.array(numbers / 3, pa.float64()),
            "date": pa.array(numbers, pa.int32()).cast(pa.date32()),
            "time": pa.array(numbers, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "text": pa.array([f"text {number}" for number in numbers]),
        }
    )


@register_warmup
def _decode() -> None:
    for use_dictionary in (True, False):
        stored = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_batches([_rows()]), stored, use_dictionary=use_dictionary, store_schema=False)
        source = pa.BufferReader(stored.getvalue())
        footer = parsed(source, "", (source.size(),))
        fields = list(enumerate(_rows().schema))
        columns = [ColumnSource(field.name, field.type, leaf, Reading.AS_IS) for leaf, field in fields]
        decoder = OwnDecoder(source, footer, switched_on=True)
        decoder.numbers([0], columns)
        for column in columns:
            decoder.text(0, column)


@register_warmup
def _decimals() -> None:
    """Kernels for prices: arithmetic, casts, averages as doubles."""
    cents = pa.decimal128(9, 2)
    numbers = to_decimal(_rows().column("int"), cents, EvalMode.ANSI)
    for op in (ArithOp.ADD, ArithOp.MUL, ArithOp.DIV, ArithOp.MOD):
        decimal_arithmetic(op, numbers, numbers, pa.decimal128(20, 4 if op is ArithOp.MUL else 2), EvalMode.LEGACY)
    to_decimal(numbers, pa.decimal128(9, 1), EvalMode.ANSI)
    to_double(numbers)


class _Plan:
    """Stages over two partitions of the sample rows, run on this thread."""

    def __init__(self) -> None:
        self.graph = StageGraph()
        self._runner = StageRunner(DriverRuntime(1, 64 << 20))
        sources = (HeldBatches([_rows()]), HeldBatches([_rows()]))
        self.rows = Pipeline(Place.DRIVER, "Warm up", (Parts(sources),))

    def exchange(self, rows: Pipeline, partitioner: Partitioner) -> Pipeline:
        return self.graph.exchange(rows, partitioner, "Warm up")

    def run(self, rows: Pipeline) -> list[pa.RecordBatch]:
        return self._runner.rows(self.graph.end(rows, Gather()))


def _column(name: str) -> Column:
    return Column(name, _rows().schema.field(name).type)


@register_warmup
def _group() -> None:
    calls = tuple(_aggregates())
    for names in (("long",), ("int",), ("small",), ("text",), ("long", "text"), ("int", "date"), ()):
        for in_process in (True, False):
            keys = tuple(NamedExpr(name, _column(name)) for name in names)
            plan = _Plan()
            rows = plan.rows
            for phase in aggregate_phases(keys, calls, 2, DRIVER, in_process=in_process):
                rows = rows.then(phase.operator)
                rows = rows if phase.partitioner is None else plan.exchange(rows, phase.partitioner)
            plan.run(rows)


@register_warmup
def _spread_keys() -> None:
    """Kernels that only many rows need, and those for strings as stored."""
    rows = _rows()
    types = [rows.schema.field(name).type for name in ("long", "int", "text")]
    layout = StateLayout(tuple(zip(("long", "int", "text"), types, strict=True)), (), in_process=True)
    text = rows.column("text")
    for form in (text, text.dictionary_encode()):
        keys = [from_arrow(column) for column in (rows.column("long"), rows.column("int"), form)]
        pieces = spread_chunks(layout, [Chunk(_ROWS, keys, ())], EXCHANGE_LEVEL, 2)
        chunks = [piece.keys for _, piece in pieces]
        spread = Spread.by_hash([layout.key_layout.hashes(keys, keys[0].length) for keys in chunks], BUCKET_LEVEL, 2)
        KeyEncoder.over(layout.key_layout, chunks).scatter(chunks, spread.targets, spread.starts)


def _aggregates() -> Iterator[AggregateCall]:
    yield AggregateCall("count", "count", (), pa.int64())
    for name in _NUMBERS:
        column = _column(name)
        floating = pa.types.is_floating(column.dtype)
        yield AggregateCall(f"sum {name}", "sum", (column,), pa.float64() if floating else pa.int64())
        yield AggregateCall(f"avg {name}", "avg", (column,), pa.float64())
    for name in (*_NUMBERS, *_TIMES, "text"):
        for function in ("min", "max"):
            yield AggregateCall(f"{function} {name}", function, (_column(name),), _column(name).dtype)


@register_warmup
def _slide() -> None:
    here, before = Bound(BoundKind.CURRENT_ROW), Bound(BoundKind.OFFSET, -2)
    for name in ("int", "long", "double", "time"):
        bounded = Frame("range", Bound(BoundKind.OFFSET, -2, "us" if name == "time" else None), here)
        running = Frame("range", Bound(BoundKind.UNBOUNDED_PRECEDING), here)
        for frame in (bounded, running, Frame("rows", before, here)):
            plan, order = _Plan(), (SortKey(_column(name)),)
            steps = WindowSteps(_rows().schema, tuple(_window_calls(frame)), (), order, DRIVER)
            move = steps.repartition(KeySample.from_batches(plan.run(plan.rows.then(steps.sample())), order), 2)
            in_order = plan.graph.hold(plan.exchange(plan.rows, move).then(steps.sort(move)))
            summaries = plan.run(in_order.then(steps.summarize(move))) if steps.need.two_passes else []
            carries = carries_of(read_summaries(summaries), steps.calls) if summaries else ()
            plan.run(in_order.then(steps.window(move, carries or ()), steps.drop()))
            for key in ("int", "text"):
                steps = WindowSteps(_rows().schema, tuple(_window_calls(frame)), (_column(key),), order, DRIVER)
                moved = plan.exchange(plan.rows, steps.by_key(2))
                plan.run(moved.then(steps.sort(None), steps.window(None), steps.drop()))


def _window_calls(frame: Frame) -> Iterator[WindowCall]:
    yield WindowCall("count", "count", (_column("long"),), pa.int64(), frame)
    for name in _NUMBERS:
        column = _column(name)
        floating = pa.types.is_floating(column.dtype)
        yield WindowCall(f"sum {name}", "sum", (column,), pa.float64() if floating else pa.int64(), frame)
        for function in ("min", "max"):
            yield WindowCall(f"{function} {name}", function, (column,), column.dtype, frame)


@register_warmup
def _join() -> None:
    rows = _rows()
    build = pa.record_batch({f"{name} of build": rows.column(name) for name in rows.schema.names})
    for name in ("int", "long", "date", "text"):
        probe_key, build_key = _column(name), Column(f"{name} of build", _column(name).dtype)
        output = pa.schema([rows.schema.field("double"), build.schema.field("text of build")])
        for null_safe in (False, True):  # by value, and by hash
            for kind in (JoinKind.INNER, JoinKind.LEFT):
                spec = JoinSpec(kind, (probe_key,), (build_key,), (null_safe,), None, output, costs=DRIVER)
                side = spec.build_side([build], build.schema, sets_of=(0,))
                plan = _Plan()
                plan.run(plan.rows.then(HashJoin(spec, side)))
        rows_passing(KeyFilter(name, side.key_sets[0]), rows.column(name))
    scattered = pa.array(np.arange(_ROWS) * 10**12)
    rows_passing(KeyFilter("", key_set(scattered, DRIVER)), scattered)


@register_warmup
def _best() -> None:
    for name in (*_NUMBERS, *_TIMES, "text"):
        plan, order = _Plan(), (SortKey(_column(name)), SortKey(_column("long")))
        plan.run(plan.rows.then(TopKOperator(_rows().schema, order, 10, costs=DRIVER)))


@register_warmup
def _substring() -> None:
    matches(StringTest.CONTAINS, _rows().column("text"), "text 1")

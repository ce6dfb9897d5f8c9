"""Cut points of the order key: ranges with about equally many rows, and no key in two of them.

Equal width would not do: data is skewed, and a range is a task. So the data gives the cuts:

    a sample      each task sends a few thousand of its keys, and the extremes of all of them
                  (`SampleKeys` -> `KeySample`, with `PartitionExtremes`)
    statistics    least and greatest key and number of rows of each row group (`KeySample.from_statistics`)

A cut is between distinct keys: rows with equal keys are peers and stay together. A hot key gets a range of its own, and
if there are fewer keys than ranges wanted, there are fewer ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.expr.buffers import is_narrow, validity_of
from sundog.expr.calls import Frame
from sundog.expr.ordering import SortKey, sort_indices
from sundog.expr.printing import render_order
from sundog.expr.rank_columns import RankColumn
from sundog.expr.ranks import Rank, array_of_ranks, rank_at
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.costs import WindowCosts
from sundog.operators.window.frames.order_key import RangeKey, reach_overflows
from sundog.operators.window.frames.range_columns import RangeColumns
from sundog.operators.window.frames.sorted_rows import changes_of
from sundog.operators.window.ranges.routes import RowRanges, WordRanges

Longs = npt.NDArray[np.int64]
_SAMPLED, _LEAST, _GREATEST, _PROBED, _DISTINCT = range(5)


@dataclass(frozen=True)
class PartitionExtremes:
    """The leading order key of a task's rows: number of rows, NULLs, and the least and greatest value as ranks.

    The ranks (`expr/ranks.py`) ignore the key's direction; they are None if there is no value.
    """

    rows: int = 0
    nulls: int = 0
    low: Rank | None = None
    high: Rank | None = None

    @classmethod
    def merge(cls, parts: Sequence[PartitionExtremes]) -> PartitionExtremes:
        lows = [part.low for part in parts if part.low is not None]
        highs = [part.high for part in parts if part.high is not None]
        return cls(
            sum(part.rows for part in parts),
            sum(part.nulls for part in parts),
            min(lows, default=None),
            max(highs, default=None),
        )

    @classmethod
    def of_row_groups(cls, lows: RankColumn, highs: RankColumn, rows: Longs, nulls: Longs) -> PartitionExtremes:
        """From the statistics of a key of one word; `nulls` is -1 if their number is unknown."""
        low, high = lows.extreme(np.min), highs.extreme(np.max)
        return cls(int(rows.sum()), int(np.maximum(nulls, 0).sum()), low, high)

    def overflows(self, frames: Sequence[Frame], key: SortKey) -> bool:
        """Whether a frame's bound can leave the key's type for one of these rows: then Spark runs the query."""
        if not isinstance(self.low, int) or not isinstance(self.high, int):
            return False
        low, high, dtype = self.low, self.high, key.expr.dtype
        return any(reach_overflows(low, high, frame, dtype, key.descending) for frame in frames)


@dataclass(frozen=True)
class KeySample:
    """Some rows' order keys; each stands for `weights[i]` rows. `repetition` is rows per distinct key among
    neighbours."""

    keys: tuple[pa.Array, ...]
    weights: Longs
    extremes: PartitionExtremes
    repetition: float = 1.0

    @classmethod
    def from_batches(cls, batches: Sequence[pa.RecordBatch], order_by: Sequence[SortKey]) -> KeySample:
        """The samples of all tasks, together."""
        table = pa.Table.from_batches(batches, sample_schema(order_by)).combine_chunks()
        kinds = table.column("kind").to_numpy()
        counts = table.column("rows").to_numpy()
        sampled = table.filter(pa.array(kinds == _SAMPLED))
        parts = []
        for row in np.flatnonzero(kinds == _LEAST):
            leading = table.column(2)
            low, high = (rank_at(leading.slice(row + n, 1).combine_chunks(), 0) for n in (0, 1))
            parts.append(PartitionExtremes(int(counts[row]), int(counts[row + 1]), low, high))
        keys = tuple(column.combine_chunks() for column in sampled.columns[2:])
        probed, distinct = (int(counts[kinds == kind].sum()) for kind in (_PROBED, _DISTINCT))
        weights = sampled.column("rows").to_numpy()
        return cls(keys, weights, PartitionExtremes.merge(parts), probed / max(distinct, 1))

    def standing_for(self, times: float, extremes: PartitionExtremes) -> KeySample:
        """A sample of some rows as a sample of all, which are `times` as many and have these extremes."""
        return replace(self, weights=np.rint(self.weights * times).astype(np.int64), extremes=extremes)

    @classmethod
    def from_statistics(
        cls, lows: RankColumn, highs: RankColumn, rows: Longs, nulls: Longs, key: SortKey, costs: WindowCosts
    ) -> KeySample | None:
        """Row groups as if their keys were spread evenly; None if a row group with values has no bounds.

        `nulls` is -1 if their number is unknown.
        """
        dtype = key.expr.dtype
        if not is_narrow(dtype) or lows.words is None or highs.words is None:
            return None
        nulls = np.maximum(nulls, 0)
        values = rows - nulls
        there = np.flatnonzero(values > 0)
        if not (lows.known & highs.known)[there].all():
            return None
        most = min(max(costs.max_places // max(len(there), 1), 1), costs.places_of_row_group)
        low, high = lows.words[there], highs.words[there]
        places, owners = _spread(low, high, np.minimum(values[there], most), pa.types.is_floating(dtype))
        steps = np.bincount(owners, minlength=len(there))
        nth = np.arange(len(owners)) - np.repeat(np.cumsum(steps) - steps, steps)
        own, own_steps = values[there][owners], steps[owners]
        weights = own // own_steps + (nth < own % own_steps)
        keys, extremes = (
            RankColumn.all_known(places).to_array(dtype),
            PartitionExtremes.of_row_groups(lows, highs, rows, nulls),
        )
        if nulls.any():
            keys, weights = pa.concat_arrays([keys, pa.nulls(1, dtype)]), np.append(weights, nulls.sum())
        return cls((keys,), weights, extremes)


def _spread(low: Longs, high: Longs, most: Longs, floating: bool) -> tuple[Longs, Longs]:
    """Ranks at even distances between two (of floats: at even distances of the values), at most `most` for each pair;
    and the pair of each."""
    distance = high.view(np.uint64) - low.view(np.uint64)
    steps = np.minimum(most - 1, distance.astype(np.float64)).astype(np.int64) + 1
    owners = np.repeat(np.arange(len(low)), steps)
    nth = np.arange(len(owners)) - np.repeat(np.cumsum(steps) - steps, steps)
    last = np.maximum(steps - 1, 1)[owners]
    if floating:
        ends = [RankColumn.all_known(each).to_array(pa.float64()).to_numpy() for each in (low, high)]
        with np.errstate(over="ignore", invalid="ignore"):
            values = ends[0][owners] + (ends[1] - ends[0])[owners] * (nth / last)
        finite = np.isfinite(values)
        words = RankColumn.of_array(pa.array(np.where(finite, values, 0.0))).words
        assert words is not None, "floats have words"
        return np.where(finite, words, np.where(nth == 0, low[owners], high[owners])), owners
    whole, rest = distance[owners] // last.astype(np.uint64), distance[owners] % last.astype(np.uint64)
    moved = whole * nth.astype(np.uint64) + rest * nth.astype(np.uint64) // last.astype(np.uint64)
    return (low[owners].view(np.uint64) + moved).view(np.int64), owners


def sample_schema(order_by: Sequence[SortKey]) -> pa.Schema:
    keys = [pa.field(f"key{number}", key.expr.dtype) for number, key in enumerate(order_by)]
    return pa.schema([pa.field("kind", pa.int8()), pa.field("rows", pa.int64()), *keys])


@dataclass(frozen=True)
class SampleKeys(Operator):
    """A few thousand of a task's order keys, and its extremes. Thinned out during the task, so its size is bounded."""

    order_by: tuple[SortKey, ...]
    costs: WindowCosts
    finds_extremes: bool = True  # false where statistics know them

    @property
    def schema(self) -> pa.Schema:
        return sample_schema(self.order_by)

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(context.partition)
        sample = pa.table([pa.array([], key.expr.dtype) for key in self.order_by], names=self.schema.names[2:])
        stride, limit = 1, self.costs.sample_rows_per_task
        extremes = PartitionExtremes()
        probe = 0, 0
        for batch in batches:
            if not batch.num_rows:
                continue
            columns = RangeColumns(pa.Table.from_batches([batch]))
            arrays = [columns.values(key.expr) for key in self.order_by]
            if not probe[0]:
                few = arrays[0].slice(0, self.costs.repetition_probe_rows)
                probe = len(few), pc.count_distinct(few, mode="all").as_py()
            if self.finds_extremes:
                extremes = PartitionExtremes.merge([extremes, extremes_of(arrays[0])])
            while batch.num_rows > stride * limit:
                stride, sample = stride * 2, _thinned(sample, random)
            picked = pa.array(_one_of_each(batch.num_rows, stride, random))
            chosen = pa.table([array.take(picked) for array in arrays], schema=sample.schema)
            sample = pa.concat_tables([sample, chosen])
            while sample.num_rows > 2 * limit:
                stride, sample = stride * 2, _thinned(sample, random)
        if sample.num_rows:
            yield self._batch(sample, stride, extremes, probe)

    def _batch(
        self, sample: pa.Table, stride: int, extremes: PartitionExtremes, probe: tuple[int, int]
    ) -> pa.RecordBatch:
        count = sample.num_rows
        leading = array_of_ranks([extremes.low, extremes.high, None, None], self.order_by[0].expr.dtype)
        keys = [pa.concat_arrays([leading, *sample.column(0).chunks])]
        keys += [pa.concat_arrays([pa.nulls(4, column.type), *column.chunks]) for column in sample.columns[1:]]
        kinds = pa.array([_LEAST, _GREATEST, _PROBED, _DISTINCT] + [_SAMPLED] * count, pa.int8())
        rows = pa.array([extremes.rows, extremes.nulls, *probe] + [stride] * count, pa.int64())
        return pa.RecordBatch.from_arrays([kinds, rows, *keys], schema=self.schema)

    name = "SampleKeys"

    @property
    def details(self) -> str:
        return f"[{render_order(self.order_by)}]"


def _one_of_each(count: int, stride: int, random: np.random.Generator) -> Longs:
    """One random row of every `stride` rows."""
    starts = np.arange(0, count, stride, dtype=np.int64)
    picked: Longs = np.minimum(starts + random.integers(0, stride, len(starts)), count - 1)
    return picked


def _thinned(sample: pa.Table, random: np.random.Generator) -> pa.Table:
    return sample.take(pa.array(_one_of_each(sample.num_rows, 2, random)))


def extremes_of(array: pa.Array) -> PartitionExtremes:
    """Rows, NULLs, least and greatest value of a column."""
    if array.null_count == len(array):
        return PartitionExtremes(len(array), array.null_count)
    if not is_narrow(array.type):
        found = pc.min_max(array)
        low, high = (rank_at(pa.array([found[name]], array.type), 0) for name in ("min", "max"))
        return PartitionExtremes(len(array), array.null_count, low, high)
    words = RangeKey(array.type).words(array)
    valid = validity_of(array)
    if valid is not None:
        words = words[valid]
    return PartitionExtremes(len(array), array.null_count, int(words.min()), int(words.max()))


def cut_ranges(
    sample: KeySample, order_by: Sequence[SortKey], frames: Sequence[Frame], ranges: int
) -> WordRanges | RowRanges:
    """At most `ranges` ranges of about equal weight, and how far the frames reach beyond each."""
    keys = tuple(order_by)
    rows, weights = distinct_keys(sample, keys)
    starts = cut_places(weights, ranges)
    if len(keys) != 1 or not is_narrow(keys[0].expr.dtype):
        cuts = tuple(array.take(pa.array(rows[starts])) for array in sample.keys)
        return RowRanges.reaching(keys, cuts, frames)
    leading = sample.keys[0].take(pa.array(rows[starts]))
    nulls_apart = bool(len(leading)) and not leading[-1].is_valid and not keys[0].nulls_first
    words = RangeKey(leading.type, keys[0].descending).words(leading.drop_null())
    return WordRanges.reaching(keys, tuple(words.tolist()), nulls_apart, frames)


def distinct_keys(sample: KeySample, order_by: Sequence[SortKey]) -> tuple[Longs, Longs]:
    """One sampled row for each distinct key, in order, and the weight of the key."""
    if not len(sample.weights):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = sort_indices(sample.keys, order_by)
    sorted_keys = [array.take(pa.array(order)) for array in sample.keys]
    firsts = np.flatnonzero(changes_of(len(order), sorted_keys))
    return order[firsts], np.add.reduceat(sample.weights[order], firsts)


def cut_places(weights: Longs, ranges: int) -> Longs:
    """The places at which to cut a list of weights into at most `ranges` parts of similar weight.

    A part ends where the next weight would take it further above its fair share of the rest than it now is below it. So
    a weight of several shares is a part of its own, and the rest is divided among the other parts.
    """
    behind = np.cumsum(weights)
    before = behind - weights
    middles = before + weights / 2
    places: list[int] = []
    cut, total = 0, int(behind[-1]) if len(behind) else 0
    for parts in range(ranges, 1, -1):
        fair = np.searchsorted(middles, cut + (total - cut) / parts, side="right")
        place = int(max(fair, np.searchsorted(before, cut, side="right")))
        if place >= len(weights):
            break
        places.append(place)
        cut = int(before[place])
    return np.array(places, np.int64)


def estimated_halo(sample: KeySample, ranges: WordRanges | RowRanges) -> float:
    """Halo rows over rows, by routing the sample."""
    total = int(sample.weights.sum())
    if not total:
        return 0.0
    routes = ranges.routes(sample.keys)
    return float(((routes.lasts - routes.firsts) * sample.weights).sum()) / total

"""`HashJoin`: looks up the rows of a scan in a build side that every task has, in the pipeline of that scan.

    SELECT … FROM fact JOIN dim ON fact.d = dim.id

Plain Spark hashes rows one by one into a map of the JVM, or sorts both sides by the key. Here the build side is a
columnar batch with an index by key (`key_index.py`), and looking up a batch is one kernel call. Only columns that an
operator above reads are gathered, and only for rows that have a partner. Several joins over one fact table are several
operators of one stage: no row is materialised between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.calls import JoinKind
from sundog.expr.nodes import Expr
from sundog.expr.printing import render
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.costs import JoinCosts
from sundog.operators.join.build_side import BuildSide
from sundog.operators.join.pairing import Pairing


@dataclass(frozen=True)
class JoinSpec:
    """What a join does, with the probe side as its left side: LEFT keeps each of its rows. `output` has columns of both
    sides."""

    kind: JoinKind
    probe_keys: tuple[Expr, ...]
    build_keys: tuple[Expr, ...]
    null_safe: tuple[bool, ...]
    condition: Expr | None
    output: pa.Schema
    exists: str | None = None
    costs: JoinCosts = field(kw_only=True)

    def build_side(
        self, batches: Sequence[pa.RecordBatch], schema: pa.Schema, sets_of: Sequence[int] = ()
    ) -> BuildSide:
        """The build side of these batches. `schema` is that of the batches, for the case that there are none.

        `sets_of`: numbers of the keys whose values filter the scan of the probe side.
        """
        lists_rows = self.kind.shows_right or self.condition is not None
        return BuildSide.of(batches, schema, self.build_keys, self.null_safe, self.costs, lists_rows, sets_of)

    def pairing(self, build: BuildSide) -> Pairing:
        most = self.costs.join_batch_rows, self.costs.join_batch_bytes
        return Pairing(self.kind, self.probe_keys, build, self.condition, self.output, *most, self.exists)

    def describe(self) -> str:
        """`inner, l_orderkey#1 = o_orderkey#2`."""
        signs = ("<=>" if safe else "=" for safe in self.null_safe)
        keys = zip(self.probe_keys, signs, self.build_keys, strict=True)
        parts = [self.kind.value, *(f"{render(probe)} {sign} {render(build)}" for probe, sign, build in keys)]
        if self.condition is not None:
            parts.append(f"condition={render(self.condition)}")
        return ", ".join(parts)


@dataclass(frozen=True)
class HashJoin(Operator):
    """Joins each batch of the probe side with the build side; `build` is None in a plan that is only explained."""

    join: JoinSpec
    build: BuildSide | None = field(default=None, repr=False, compare=False)

    @property
    def schema(self) -> pa.Schema:
        return self.join.output

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        if self.build is None:
            raise InternalError("a plan that was only explained does not run")
        if self.build.rows == 0 and self.join.kind.drops_left:
            context.metrics.add("join_probes_skipped", 1)
            return
        pairing = self.join.pairing(self.build)
        with context.memory.shared(self.build.nbytes):
            for batch in batches:
                context.check_cancelled()
                context.metrics.add("join_probe_rows", batch.num_rows)
                yield from pairing.join(batch, context)

    name = "HashJoin"

    @property
    def details(self) -> str:
        return self.join.describe()

    @property
    def planned_metrics(self) -> Mapping[str, float]:
        return {} if self.build is None else {"join_build_rows": self.build.rows}

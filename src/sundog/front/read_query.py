"""Catalyst's plan of a query, with the plans of its scalar subqueries, as logical plans.

For Spark, each subquery is a plan of its own, with its own tree, leaves and files. Here it becomes a logical plan that
the planner runs before the one that reads its value. If sundog cannot compute a whole subquery, Spark does: its value
is then an input from Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sundog.config import Settings
from sundog.front.catalyst_json import Node
from sundog.front.expressions.reading import Scope, Subquery, struct_values
from sundog.front.expressions.time_zones import java_zone
from sundog.front.jvm.plan import CatalystPlan, output_fields
from sundog.front.match import Judge, Matches, convert_subquery, match_plan
from sundog.front.partitioning import changed_by_running_alone, depends_on_order, moves_rows
from sundog.front.relation.local_rows import read_local_rows
from sundog.front.relation.relation import read_table
from sundog.front.relation.row_estimates import estimate_rows, rows_of_side, words_of
from sundog.front.session.session_conf import SessionConf
from sundog.front.shapes.spark_side import changed_by_running_twice
from sundog.plan.logical import Foreign, Join, LogicalPlan
from sundog.support import Code, Declined, Reason
from sundog.tables.table import Table
from sundog.versions import spark_version

T = TypeVar("T")


@dataclass
class QueryReader:
    """Reads one query.

    `foreign`: the subtrees of Spark's plan that are inputs, by handle. `subqueries`: their plans, by number.
    """

    session: Any
    conf: SessionConf
    settings: Settings
    judge: Judge
    foreign: dict[int, tuple[CatalystPlan, tuple[int, ...]]] = field(default_factory=dict)
    subqueries: dict[int, LogicalPlan] = field(default_factory=dict)
    # Subqueries met so far: the plan as parsed, the JVM's plan, and the logical plan or the reason against it.
    _known: list[tuple[Node, Any, Subquery | Declined]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._scope = _session_scope(self.session, self.conf)

    def match(self, catalyst: CatalystPlan, collected: bool) -> Matches:
        """What sundog takes of the query. `collected`: its rows are wanted on the driver."""
        self._complete_local_rows(catalyst)
        readers = self._tables_of(catalyst), self._foreign_in(catalyst)
        scope = self._scope_of(catalyst)
        return match_plan(catalyst.root, *readers, self.settings, scope, collected, self.subqueries, self._judge)

    def _tables_of(self, catalyst: CatalystPlan) -> Callable[[Node, Node | None], Table]:
        """A reader of leaves that reads each only once: the search may visit a leaf several times."""
        seen: dict[tuple[int, ...], Table | Declined] = {}

        def table_of(leaf: Node, condition: Node | None) -> Table:
            if leaf.path not in seen:
                try:
                    decoder = self.settings.decoder
                    seen[leaf.path] = read_table(catalyst, leaf, condition, self.conf, self.session, decoder)
                except Declined as declined:
                    seen[leaf.path] = declined
            return _given(seen[leaf.path])

        return table_of

    def _foreign_in(self, catalyst: CatalystPlan) -> Callable[[Node, bool], Foreign]:
        return lambda node, collected: self._foreign(catalyst, node, collected)

    def _foreign(self, catalyst: CatalystPlan, node: Node, collected: bool) -> Foreign:
        problem, fields = changed_by_running_alone(node), output_fields(self.session._jvm, catalyst.jnode(node.path))
        problem = problem or (changed_by_running_twice(node) if collected else None)
        if not fields:  # Arrow batches without columns do not have a number of rows
            problem = Reason(Code.SOURCE, "rows of Spark's without any column", node.name)
        if problem is not None:
            raise Declined(problem)
        handle = len(self.foreign)
        self.foreign[handle] = catalyst, node.path
        label = words_of(catalyst, node) if collected else node.name
        estimate = rows_of_side(catalyst, node) if collected else estimate_rows(catalyst, node)
        return Foreign(handle, fields, label, estimate, moves_rows(node), collected)

    def _judge(self, shape: LogicalPlan) -> Reason | None:
        """Joins keep the order of the rows that they look up, and find partners in the order of the build side."""
        return (None if isinstance(shape, Join) else depends_on_order(shape)) or self.judge(shape)

    def _scope_of(self, catalyst: CatalystPlan) -> Scope:
        return replace(self._scope, subquery=lambda node: self._subquery(catalyst, node))

    def _subquery(self, catalyst: CatalystPlan, node: Node) -> Subquery:
        """The subquery of a node; the same one for nodes that, according to Spark, have the same result."""
        jplan, tree = catalyst.jsubquery(node), node["plan"]
        for known, jknown, found in self._known:
            if known == tree and jknown.sameResult(jplan):
                return _given(found)
        try:
            made: Subquery | Declined = self._new_subquery(catalyst.inside(self.session._jvm, jplan, node))
        except Declined as declined:
            made = declined
        self._known.append((tree, jplan, made))
        return _given(made)

    def _complete_local_rows(self, catalyst: CatalystPlan) -> None:
        for node in catalyst.root.walk():
            if node.name == "LocalRelation":
                node.fields["rows"] = read_local_rows(self.session._jvm, catalyst.jnode(node.path), node.path)

    def _new_subquery(self, plan: CatalystPlan) -> Subquery:
        self._complete_local_rows(plan)
        tables, foreign = self._tables_of(plan), self._foreign_in(plan)
        try:
            tree = convert_subquery(plan.root, tables, foreign, self.settings, self._scope_of(plan), self._judge)
            is_struct = struct_values(plan.root) is not None
        except Declined:
            tree, is_struct = foreign(plan.root, False), False
        number = len(self.subqueries)
        self.subqueries[number] = tree
        return Subquery(number, tuple(tree.schema.types), is_struct)


def _session_scope(session: Any, conf: SessionConf) -> Scope:
    """The session's rules for expressions: the time zone, by the JVM's rules, and the case mapping."""
    name = conf.text("spark.sql.session.timeZone")
    rules = java_zone(session._jvm, name)
    case_mapping = spark_version().unicode if conf.flag("spark.sql.icu.caseMappings.enabled") else None
    segment_trees = conf.flag("spark.sql.window.segmentTree.enabled")
    whole_stage = conf.flag("spark.sql.codegen.wholeStage")
    zones = {} if rules is None else {name: rules}
    corr_may_raise = spark_version().corr_may_raise and conf.flag("spark.sql.ansi.enabled")
    return Scope({}, name, zones, case_mapping, segment_trees, whole_stage, corr_may_raise=corr_may_raise)


def _given(found: T | Declined) -> T:
    if isinstance(found, Declined):
        raise found
    return found

"""Catalyst's plan of a query, with the plans of its scalar subqueries, as logical plans.

Each subquery is a plan of its own to Spark: with its own tree, its own leaves and files. Here it becomes a logical plan
that the planner runs before the one that reads its value. A subquery that sundog cannot compute wholly is Spark's as a
whole: its value is then an input from Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sundog.config import Settings
from sundog.front.catalyst_json import Node
from sundog.front.expressions.reading import Scope, Subquery
from sundog.front.expressions.time_zones import java_zone
from sundog.front.jvm.plan import CatalystPlan, output_fields
from sundog.front.match import Judge, Matches, convert_subquery, match_plan, struct_values
from sundog.front.partitioning import changed_by_running_alone, depends_on_order, moves_rows
from sundog.front.relation.local_rows import read_local_rows
from sundog.front.relation.relation import read_table
from sundog.front.relation.spark_rows import estimate_rows
from sundog.front.session.session_conf import SessionConf
from sundog.plan.logical import Foreign, LogicalPlan
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
    # Subqueries that were met: the plan as parsed, the JVM's plan, and what it was read as or why not.
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
        """A reader of leaves, each of which is read once: the search may visit one several times."""
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

    def _foreign_in(self, catalyst: CatalystPlan) -> Callable[[Node], Foreign]:
        return lambda node: self._foreign(catalyst, node)

    def _foreign(self, catalyst: CatalystPlan, node: Node) -> Foreign:
        problem, fields = changed_by_running_alone(node), output_fields(self.session._jvm, catalyst.jnode(node.path))
        if not fields:  # Arrow batches without columns do not say how many rows they have
            problem = Reason(Code.SOURCE, "rows of Spark's without any column", node.name)
        if problem is not None:
            raise Declined(problem)
        handle = len(self.foreign)
        self.foreign[handle] = catalyst, node.path
        return Foreign(handle, fields, node.name, estimate_rows(catalyst, node), moves_rows(node))

    def _judge(self, shape: LogicalPlan) -> Reason | None:
        return depends_on_order(shape) or self.judge(shape)

    def _scope_of(self, catalyst: CatalystPlan) -> Scope:
        return replace(self._scope, subquery=lambda node: self._subquery(catalyst, node))

    def _subquery(self, catalyst: CatalystPlan, node: Node) -> Subquery:
        """The subquery of a node; one and the same for two nodes that Spark says have the same result."""
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
            tree, is_struct = foreign(plan.root), False
        number = len(self.subqueries)
        self.subqueries[number] = tree
        return Subquery(number, tuple(tree.schema.types), is_struct)


def _session_scope(session: Any, conf: SessionConf) -> Scope:
    """What the session decides about expressions: the time zone, by the JVM's rules, and the case mapping."""
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

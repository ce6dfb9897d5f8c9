"""Matches Catalyst's plan: the parts of it that sundog takes, as logical plans, and the reasons against the others.

The search is top down: for the largest subtrees that contain at least one of the three shapes and nothing that sundog
cannot compute. A subtree that is declined is not an error; its reasons are kept and its children are tried. So a UDF
stays on Spark while the top-k below it is taken, and a query that sundog takes whole never goes back to the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sundog.config import Settings
from sundog.expr.calls import NamedExpr
from sundog.expr.nodes import Column, Expr
from sundog.expr.ordering import SortKey
from sundog.front.catalyst_json import Node
from sundog.front.early_errors import early_errors
from sundog.front.expressions.reading import Scope, all_or_reasons, struct_values
from sundog.front.expressions.translate import translate, translate_sort_key
from sundog.front.floating_point import added_as_spark_does
from sundog.front.partitioning import check_repartition, has_one_partition, shows_partitions
from sundog.front.relation.columns import internal_name
from sundog.front.relation.local_rows import local_rows, rows_without_columns
from sundog.front.repeated_columns import at_places, column_name, each_once
from sundog.front.shapes.aggregate import match_aggregate
from sundog.front.shapes.expand import match_expand
from sundog.front.shapes.join import exists_name, match_join, shows_right
from sundog.front.shapes.runtime_filters import without_runtime_filters
from sundog.front.shapes.spark_side import sides_of_join
from sundog.front.shapes.topk import match_limit
from sundog.front.shapes.union import match_union
from sundog.front.shapes.window import match_window
from sundog.front.worth import SHAPE_NODES, has_shape, is_plain_sort, reads_a_table, reads_more_in_subqueries
from sundog.plan.logical import Filter, Foreign, Join, Limit, LocalRows, LogicalPlan, Project, Scan, Sort, TopK
from sundog.support import Code, Declined, Reason
from sundog.tables.table import Table

TableReader = Callable[[Node, Node | None], Table]
ForeignReader = Callable[[Node, bool], Foreign]
"""A Spark subtree as foreign rows; the flag: whether the driver collects them."""
Judge = Callable[[LogicalPlan], Reason | None]
"""Why a shape over foreign rows is left to Spark; None if handing the rows over pays."""
MAX_OPERATORS = 100  # each takes some five nested Python calls; Python allows a thousand
LEAVES = {"LogicalRelation", "DataSourceV2ScanRelation"}


@dataclass(frozen=True)
class Match:
    """The subtree at `path` of Catalyst's plan means `plan`; its columns come out in Catalyst's order."""

    path: tuple[int, ...]
    plan: LogicalPlan


@dataclass
class Matches:
    """The parts taken of a plan, and the reasons against the rest, each once."""

    found: list[Match] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)

    def decline(self, reasons: tuple[Reason, ...]) -> None:
        self.reasons.extend(reason for reason in reasons if reason not in self.reasons)


def _take(shape: LogicalPlan) -> Reason | None:
    return None


def match_plan(
    root: Node,
    read_table: TableReader,
    read_foreign: ForeignReader,
    settings: Settings,
    session: Scope,
    collected: bool = True,
    subqueries: Mapping[int, LogicalPlan] = MappingProxyType({}),
    judge: Judge = _take,
) -> Matches:
    """Every maximal subtree that sundog can take, and the reasons against the shapes that it cannot take.

    `session`: a scope without columns, with the session's rules for expressions. `collected`: the rows of the whole
    query are wanted on the driver. `subqueries`: the plans of scalar subqueries read so far.
    """
    matcher = _Matcher(read_table, read_foreign, settings, session, collected, judge, subqueries)
    matches = Matches()
    matcher.search_all(root, matches)
    if not matches.found and not matches.reasons:
        matches.decline((Reason(Code.NOT_A_SHAPE, "no top-k, window or aggregate in the plan", root.name),))
    return matches


def convert_subquery(
    root: Node, tables: TableReader, foreign: ForeignReader, settings: Settings, session: Scope, judge: Judge = _take
) -> LogicalPlan:
    """The plan of a scalar subquery, with its columns in Catalyst's order; the fields of its struct if it gives one."""
    return _Matcher(tables, foreign, settings, session, False, judge).convert_subquery(root)


class _Matcher:
    """One search through a plan."""

    def __init__(
        self,
        read_table: TableReader,
        read_foreign: ForeignReader,
        settings: Settings,
        session: Scope,
        collected: bool,
        judge: Judge,
        subqueries: Mapping[int, LogicalPlan] = MappingProxyType({}),
    ) -> None:
        self._read_table = read_table
        self._read_foreign = read_foreign
        self._settings = settings
        self._session = session
        self._collected = collected
        self._subqueries = subqueries
        self._judge = judge
        self._foreign_names: dict[tuple[int, ...], list[str]] = {}
        self._heights: dict[int, int] = {}
        self._shapes_above = 0

    def search_all(self, root: Node, matches: Matches) -> None:
        """Search from the root down, but not below a subtree that is taken."""
        waiting: list[tuple[Node, Reason | None]] = [(root, None)]
        while waiting:
            node, above = waiting.pop()
            if not self._search(node, matches, above):
                shown = shows_partitions(node) or above
                waiting.extend((child, shown) for child in reversed(node.children))

    def convert_subquery(self, root: Node) -> LogicalPlan:
        self._check_depth(root)
        values = struct_values(root)
        if values is None:
            plan = at_places(self._convert(root), self._output_names(root))
            if plan is None:
                raise Declined.because(Code.UNSUPPORTED_TYPE, "a subquery of a type that sundog cannot carry")
        else:
            child = self._convert(root.child)
            named = (NamedExpr(f"value{at}#", translate(value, self._scope(child))) for at, value in enumerate(values))
            plan = Project(child, tuple(named))
        problem = early_errors(plan, self._session.whole_stage)
        if problem is not None:
            raise Declined(problem)
        return plan

    def _search(self, node: Node, matches: Matches, above: Reason | None) -> bool:
        """Whether the search need not go below `node`. `above`: why a node above shows this one's partitions."""
        try:
            self._check_depth(node)
            plan = self._convert_result(node) if self._is_collected(node) else self._convert(node)
        except Declined as declined:
            with suppress(Declined):  # show the reasons of the whole
                below = self._topk_below_projection(node)
                if below is not None:
                    matches.found.append(below)
                    return True
            if node.name in SHAPE_NODES or (self._is_collected(node) and is_plain_sort(node)):
                matches.decline(declined.reasons)
            return False
        if not reads_a_table(plan):
            matches.decline((Reason(Code.SOURCE, "nothing but local rows is read", node.name),))
            return True
        if not self._is_worth_taking(node, plan):
            return True
        if not plan.schema.names:  # rows without columns cannot be given to Spark; the plan below has columns
            return False
        problem = early_errors(plan, self._session.whole_stage)
        if problem is None and above is not None and not has_one_partition(plan):
            problem = above
        if problem is not None:
            matches.decline((problem,))
            return False
        placed = at_places(plan, self._output_names(node))
        if placed is None:
            matches.decline((Reason(Code.UNSUPPORTED_TYPE, "a column of the result has a type sundog cannot carry"),))
        else:
            matches.found.append(Match(node.path, placed))
        return True

    def _is_worth_taking(self, node: Node, plan: LogicalPlan) -> bool:
        if has_shape(plan, self._settings.sort_enabled):
            return True
        return self._is_collected(node) and reads_more_in_subqueries(plan, self._subqueries)

    def _is_collected(self, node: Node) -> bool:
        """Whether the rows of this node are the result, and wanted on the driver."""
        return self._collected and node.link is None

    def _check_depth(self, node: Node) -> None:
        """Decline deep plans: they are read, lowered and run by recursion over their operators."""
        if not self._heights:
            for each in reversed(list(node.walk())):  # the first call is for the root
                self._heights[id(each)] = 1 + max((self._heights[id(child)] for child in each.children), default=0)
        if self._heights[id(node)] > MAX_OPERATORS:
            raise Declined.because(Code.TOO_DEEP, f"{self._heights[id(node)]} operators above each other", node.name)

    def _convert_result(self, node: Node) -> LogicalPlan:
        """The plan of a whole result, with its ORDER BY: sundog sorts rows that come to the driver, Spark sorts
        others."""
        match node.name:
            case "Sort" if node["global"] is True:
                child = self._convert_input(node.child)
                return Sort(child, self._order(node, child))
            case "Project":
                return self._project(node, self._convert_result(node.child))
            case _:
                return self._convert(node)

    def _convert(self, node: Node) -> LogicalPlan:
        match node.name:
            case name if name in LEAVES:
                return self._scan(node, None)
            case "LocalRelation":
                return local_rows(node)
            case "OneRowRelation":
                return LocalRows(rows_without_columns(1, node.path))
            case "Filter":
                child = self._scan(node.child, node["condition"]) if node.child.name in LEAVES else None
                child = child or self._convert(node.child)
                condition = without_runtime_filters(node["condition"])
                return child if condition is None else Filter(child, translate(condition, self._scope(child)))
            case "Project":
                return self._project(node, self._convert(node.child))
            case "GlobalLimit":
                return self._limit(node)
            case "Aggregate":
                self._check_enabled(self._settings.aggregate_enabled, "spark.sundog.aggregate.enabled", node)
                return self._shape(node, match_aggregate)
            case "Expand":
                child = self._convert(node.child)
                return match_expand(node, child, self._scope(child))
            case "Union":
                plans = self._convert_all(node.children)
                names = [self._output_names(child) for child in node.children]
                return match_union(node, list(zip(plans, names, strict=True)))
            case "Join":
                self._check_enabled(self._settings.join_enabled, "spark.sundog.join.enabled", node)
                return self._join(node)
            case "Window":
                self._check_enabled(self._settings.window_enabled, "spark.sundog.window.enabled", node)
                return self._shape(node, match_window)
            case "Repartition" | "RepartitionByExpression" | "RebalancePartitions" if self._shapes_above:
                check_repartition(node)
                return self._convert(node.child)
            case "SubqueryAlias" | "WindowGroupLimit":  # the latter only drops rows that a filter above drops as well
                return self._convert(node.child)
            case _:
                raise Declined.because(Code.UNKNOWN_NODE, f"{node.name} stays on Spark", node.name)

    def _convert_input(self, node: Node) -> LogicalPlan:
        """The input of a shape, which reads all rows, in any partitions."""
        self._shapes_above += 1
        try:
            return self._convert(node)
        finally:
            self._shapes_above -= 1

    def _convert_all(self, nodes: Sequence[Node]) -> list[LogicalPlan]:
        """The plans of all nodes; raises the reasons of all that cannot be converted."""
        return all_or_reasons(self._convert, nodes)

    def _in_order_of_addition(self, plan: LogicalPlan) -> LogicalPlan:
        """A matched shape whose doubles are added in Spark's order, if the session wants that."""
        strict = self._settings.floating_point == "spark"
        return added_as_spark_does(plan, self._session.segment_trees) if strict else plan

    def _scan(self, leaf: Node, condition: Node | None) -> LogicalPlan:
        table = self._read_table(leaf, condition)
        readable = {column.name for column in table.file_columns}
        readable |= {column.name for column in table.partition_columns}
        return Scan(table, tuple(name for name in self._output_names(leaf) if name in readable))

    def _project(self, node: Node, child: LogicalPlan) -> Project:
        scope = self._scope(child)
        return Project(child, each_once((_named(tree, scope) for tree in node["projectList"]), node.name))

    def _limit(self, node: Node) -> LogicalPlan:
        shape = match_limit(node)
        if shape is None:
            raise Declined.because(Code.PLAN_VERSION, "a limit of unknown form", node.name)
        self._check_enabled(self._settings.topk_enabled, "spark.sundog.topk.enabled", node)
        if shape.sort is None:
            return Limit(self._convert(shape.child), shape.limit, shape.offset)
        child = self._convert_input(shape.child)
        plan: LogicalPlan = TopK(child, self._order(shape.sort, child), shape.limit, shape.offset)
        for project in reversed(shape.projects):
            plan = self._project(project, plan)
        return plan

    def _shape(self, node: Node, matched: Callable[[Node, LogicalPlan, Scope], LogicalPlan]) -> LogicalPlan:
        """An aggregate or a window over its input, or over foreign rows if sundog cannot compute the input."""
        why: tuple[Reason, ...] = ()
        try:
            child = self._convert_input(node.child)
        except Declined as declined:
            child, why = self._foreign_input(node.child, declined), declined.reasons
        plan = self._in_order_of_addition(matched(node, child, self._scope(child)))
        if isinstance(child, Foreign) and (problem := self._judge(plan)) is not None:
            raise Declined(*why, problem)
        return plan

    def _join(self, node: Node) -> Join:
        sides, why = sides_of_join(node, self._convert, self._collected_side)
        plan = match_join(node, sides[0], sides[1], self._scope(*sides))
        if why and (problem := self._judge(plan)) is not None:
            raise Declined(*why, problem)
        return plan

    def _collected_side(self, node: Node) -> Foreign:
        """The foreign rows of a join side that only Spark can compute; not if a shape below is taken by itself."""
        for below in node.walk():
            if below.name in SHAPE_NODES and self._may_be_taken(below):
                raise Declined.because(Code.COST, f"the {below.name} below is taken without the join", node.name)
        return self._foreign(node, collected=True)

    def _may_be_taken(self, node: Node) -> bool:
        try:
            return reads_a_table(self._convert(node))
        except Declined:
            return False

    def _foreign_input(self, node: Node, declined: Declined) -> Foreign:
        """The rows of a subtree that only Spark can compute. Raises `declined` if a shape below may be taken."""
        if any(below.name in SHAPE_NODES for below in node.walk()):
            raise declined
        try:
            return self._foreign(node)
        except Declined as problem:
            raise Declined(*declined.reasons, *problem.reasons) from None

    def _foreign(self, node: Node, collected: bool = False) -> Foreign:
        foreign = self._read_foreign(node, collected)
        self._foreign_names[node.path] = [column_name(place) for place in foreign.schema.names]
        return foreign

    def _topk_below_projection(self, node: Node) -> Match | None:
        """The top-k below a projection that only Spark can compute: sundog still finds the rows for it.

        The k + offset best rows take the place of the sort; the limit above them then changes nothing.
        """
        self._check_depth(node)
        shape = match_limit(node)
        if shape is None or shape.sort is None or not shape.projects or not self._settings.topk_enabled:
            return None
        child = self._convert(shape.child)
        plan = TopK(child, self._order(shape.sort, child), shape.limit + shape.offset)
        placed = at_places(plan, self._output_names(shape.sort))
        return None if placed is None else Match(shape.sort.path, placed)

    def _order(self, sort: Node, child: LogicalPlan) -> tuple[SortKey, ...]:
        scope = self._scope(child)
        return tuple(translate_sort_key(key, scope) for key in sort["order"])

    def _output_names(self, node: Node) -> list[str]:
        """The internal names of a Catalyst node's output, in its order, repeated if a column is."""
        if node.path in self._foreign_names:
            return self._foreign_names[node.path]
        match node.name:
            case name if name in LEAVES or name == "LocalRelation":
                trees = node["output"]
            case "OneRowRelation":
                return []
            case "Project":
                trees = node["projectList"]
            case "Aggregate":
                trees = node["aggregateExpressions"]
            case "Expand":
                trees = node["output"]
            case "Union":
                return self._output_names(node.children[0])
            case "Join":
                left, right = (self._output_names(child) for child in node.children)
                exists = exists_name(node)
                return [*left, *(right if shows_right(node) else ()), *(() if exists is None else (exists,))]
            case "Window":
                return self._output_names(node.child) + [internal_name(tree) for tree in node["windowExpressions"]]
            case _:
                return self._output_names(node.child)
        return [internal_name(tree) for tree in trees]

    def _check_enabled(self, enabled: bool, key: str, node: Node) -> None:
        if not enabled:
            raise Declined.because(Code.DISABLED, f"{key} is false", node.name)

    def _scope(self, *children: LogicalPlan) -> Scope:
        return replace(self._session, columns={field.name: field.type for c in children for field in c.schema})


def _named(tree: Node, scope: Scope) -> NamedExpr:
    """An entry of a projection: an attribute under its own name or an alias."""
    expression: Expr = translate(tree, scope)
    if isinstance(expression, Column) and tree.name == "AttributeReference":
        return NamedExpr(expression.name, expression)
    return NamedExpr(internal_name(tree), expression)

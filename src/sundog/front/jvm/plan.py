"""Catalyst's plan from the JVM: one call for the tree, and one for the details that the tree's JSON lacks.

`toJSON` gives the whole optimised plan in one py4j call, `expression_details.py` the constants and the evaluation modes
of its expressions. Walking the tree object by object would take a call of 0.1 to 0.3 ms for each.
"""

from __future__ import annotations

import json
from functools import cached_property
from time import perf_counter
from typing import Any

import pyarrow as pa

from sundog.front.catalyst_json import Node, parse_plan
from sundog.front.jvm.expression_details import complete, read_details
from sundog.front.jvm.large_text import TextFunction
from sundog.front.jvm.leaves import FileRelation, read_leaves
from sundog.front.jvm.method_handles import methods, plan_json
from sundog.front.jvm.objects import once_per_jvm
from sundog.front.repeated_columns import names_of_places
from sundog.support import Code, Declined, Reason
from sundog.types import arrow_type
from sundog.versions import spark_version

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
LOCAL_ROWS_IN_JSON = 1000  # rows of a local relation, each an entry of the JSON, at most


class CatalystPlan:
    """An optimised plan: the parsed tree, and the JVM object of each of its nodes."""

    def __init__(self, jvm: Any, jplan: Any, prefix: tuple[int, ...] = ()) -> None:
        """`prefix` is put before the paths of a subquery's plan, to distinguish them from the query's own."""
        self.jplan = jplan
        # For this query, by read options: Hadoop's settings, and reasons against them.
        self.hadoop_confs: dict[frozenset[tuple[str, str]], tuple[Any, list[Reason]]] = {}
        self.listings: dict[tuple[int, ...], Any] = {}  # files by the place of their leaf; see `_held_listings`
        self.seconds = 0.0  # that Catalyst took to optimise the plan
        self._jvm = jvm
        self._prefix = prefix
        if not prefix:
            _refuse_without_shape(jvm, jplan)
        _refuse_local_rows(jvm, jplan)
        self._jnodes: dict[tuple[int, ...], Any] = {(): jplan}
        self.root = parse_plan(plan_json(jvm, jplan), spark_version().plan_names)
        self._complete_projections()
        complete(self.root, read_details(jvm, jplan))

    def _complete_projections(self) -> None:
        """Add the projections of an Expand, which older versions omit from the JSON unless they are a Scala List."""
        for node in self.root.walk():
            if node.name == "Expand" and node.get("projections") is None:
                jlists = self.jnode(node.path).projections()
                node.fields["projections"] = tuple(_parse_all(jlists.apply(index)) for index in range(jlists.size()))

    @classmethod
    def of(cls, jvm: Any, jdf: Any, hold_listings: bool = False) -> CatalystPlan:
        """The plan of a DataFrame. `hold_listings`: use the files of the first action on it (`_held_listings`)."""
        started = perf_counter()
        jplan = jdf.queryExecution().optimizedPlan()
        seconds = perf_counter() - started
        plan = cls(jvm, jplan)
        plan.seconds = seconds
        if hold_listings:
            plan.listings = _held_listings(jdf)
        return plan

    def jnode(self, path: tuple[int, ...]) -> Any:
        """The JVM's plan node at a path of child indexes."""
        known = len(path)
        while path[:known] not in self._jnodes:
            known -= 1
        for length in range(known, len(path)):
            self._jnodes[path[: length + 1]] = self._jnodes[path[:length]].children().apply(path[length])
        return self._jnodes[path]

    def leaf(self, node: Node) -> FileRelation | str:
        """The files that a leaf reads, or the class of its other source."""
        return self._leaf_facts[self._leaf_number(node)]

    def jleaf(self, node: Node) -> Any:
        """The JVM's plan node of a leaf."""
        if node.path not in self._jnodes:
            self._jnodes[node.path] = self._jleaves.apply(self._leaf_number(node))
        return self._jnodes[node.path]

    def _leaf_number(self, node: Node) -> int:
        return self._leaf_numbers[node.path]

    @cached_property
    def _leaf_numbers(self) -> dict[tuple[int, ...], int]:
        leaves = (node for node in self.root.walk() if not node.children)
        return {node.path: number for number, node in enumerate(leaves)}

    @cached_property
    def _leaf_facts(self) -> list[FileRelation | str]:
        facts = read_leaves(self._jvm, self.jplan)
        if len(facts) != len(self._leaf_numbers):
            raise Declined.because(Code.PLAN_VERSION, "the plan has other leaves than its JSON")
        return facts

    @cached_property
    def _jleaves(self) -> Any:
        return self.jplan.collectLeaves()

    def place(self, path: tuple[int, ...]) -> tuple[int, ...]:
        """A path that is unique among the plans of a query and its subqueries."""
        return self._prefix + path

    def jsubquery(self, node: Node) -> Any:
        """The JVM's plan of a subquery in an expression of this plan, found by the expression's id."""
        wanted = node["exprId"]["id"]
        for owner in self.root.walk():
            for index, tree in enumerate(owner.trees()):
                for part in tree.walk():
                    if part.name == node.name and part["exprId"]["id"] == wanted:
                        jfound = jexpression(self.jnode(owner.path).expressions().apply(index), part.path)
                        if jfound.exprId().id() == wanted:
                            return jfound.plan()
        raise Declined.because(Code.PLAN_VERSION, f"subquery {wanted} is not where the plan's JSON has it", node.name)

    def inside(self, jvm: Any, jplan: Any, node: Node) -> CatalystPlan:
        """The plan of a subquery, read like any other; its file listings and settings are kept with those of this
        plan."""
        found = CatalystPlan(jvm, jplan, (*self._prefix, -1, node["exprId"]["id"]))
        found.listings, found.hadoop_confs = self.listings, self.hadoop_confs
        return found


def _held_listings(jdf: Any) -> dict[tuple[int, ...], Any]:
    """The files that the first action on this DataFrame read, reused by later actions on the same DataFrame.

    Spark keeps the physical plan with the DataFrame, and with it the list of files of its first run. After an INSERT
    the same DataFrame still gives the old rows, while one derived from it has the new ones.
    """
    found: dict[tuple[int, ...], Any] = jdf.__dict__.setdefault("_sundog_listings", {})
    return found


def _parse_all(jtrees: Any) -> tuple[Node, ...]:
    names = spark_version().plan_names
    return tuple(parse_plan(str(jtrees.apply(index).toJSON()), names) for index in range(jtrees.size()))


def jexpression(jtree: Any, path: tuple[int, ...]) -> Any:
    """The JVM's expression at a path of child indexes below `jtree`."""
    for index in path:
        jtree = jtree.children().apply(index)
    return jtree


def output_fields(jvm: Any, jnode: Any) -> tuple[tuple[str, pa.DataType], ...]:
    """The output columns of a JVM plan node, under sundog's names and types; declines unknown types."""
    fields = []
    for attribute, number, type_json, type_sql in json.loads(_output_function(jvm)(jnode)):
        name, dtype = f"{attribute}#{number}", arrow_type(json.loads(type_json))
        if dtype is None:
            raise Declined.because(Code.UNSUPPORTED_TYPE, f"{name} is {type_sql}")
        fields.append((name, dtype))
    places = names_of_places([name for name, _ in fields])
    return tuple(zip(places, (dtype for _, dtype in fields), strict=True))


@once_per_jvm
def _output_function(jvm: Any) -> TextFunction:
    """Plan node -> the JSON of name, number, type and SQL type of each column: one call, whatever their number."""
    made = methods(jvm)
    named, data_type = f"{_EXPRESSIONS}.NamedExpression", "org.apache.spark.sql.types.DataType"
    number = made.chain(made.getter(named, "exprId"), made.getter(f"{_EXPRESSIONS}.ExprId", "id"))
    its_type = made.getter(f"{_EXPRESSIONS}.Expression", "dataType")
    parts = [made.getter(named, "name"), number]
    parts += [made.chain(its_type, made.getter(data_type, text)) for text in ("json", "sql")]
    column = made.all_of([made.by_class({}, part) for part in parts])
    return made.to_json(
        made.array(made.mapped(made.getter("org.apache.spark.sql.catalyst.plans.QueryPlan", "output"), column))
    )


def _refuse_without_shape(jvm: Any, jplan: Any) -> None:
    """Decline a plan without sundog's shapes before its JSON is made. A plan knows which patterns it contains, so other
    queries are hardly delayed."""
    shapes, _ = _patterns(jvm)
    if not any(jplan.containsPattern(shape) for shape in shapes):
        raise Declined.because(Code.NOT_A_SHAPE, "no top-k, window or aggregate in the plan")


def _refuse_local_rows(jvm: Any, jplan: Any) -> None:
    """Decline long local collections: a LocalRelation, also in a subquery, writes a JSON entry for each of its rows."""
    _, local_relation = _patterns(jvm)
    if not jplan.containsPattern(local_relation):
        return
    subqueries = jplan.subqueriesAll()
    for jtree in (jplan, *(subqueries.apply(index) for index in range(subqueries.size()))):
        leaves = jtree.collectLeaves()
        for index in range(leaves.size()):
            leaf = leaves.apply(index)
            if leaf.getClass().getSimpleName() == "LocalRelation" and leaf.data().size() > LOCAL_ROWS_IN_JSON:
                raise Declined.because(
                    Code.SOURCE, "the data is a local collection, not Parquet files", "LocalRelation"
                )


@once_per_jvm
def _patterns(jvm: Any) -> tuple[list[Any], Any]:
    """Catalyst's tree patterns of the three shapes, and of a local relation."""
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    shapes = [patterns.LIMIT(), patterns.AGGREGATE(), patterns.WINDOW(), patterns.SORT()]
    return shapes, patterns.LOCAL_RELATION()

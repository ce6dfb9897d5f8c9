"""Splices a result into Spark's plan in place of the subtree it was computed for, so that Spark does the rest.

The ancestors of the subtree are rebuilt around the new child (`withNewChildren`). An alias on each column has the old
attribute's id, so that every reference above still resolves. The rest of the plan is unchanged.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from sundog.front.jvm.plan import CatalystPlan
from sundog.versions import spark_version


def splice(
    session: SparkSession, jplan: Any, replacements: list[tuple[tuple[int, ...], DataFrame]], names: list[str]
) -> DataFrame:
    """The plan with the node at each path replaced by a DataFrame that has the node's columns, in order.

    Its columns are called `names`, as before the optimiser, which treats `SELECT ID` like `SELECT id`.
    """
    for path, replacement in replacements:
        jplan = _replace(session, jplan, path, replacement)
    spliced = _frame(session, jplan)
    return spliced if spliced.columns == names else _frame(session, _renamed(session, jplan, names))


def _renamed(session: SparkSession, jplan: Any, names: list[str]) -> Any:
    """The same attributes, by their ids, under other names."""
    jvm, output = session._jvm, jplan.output()
    attributes = [output.apply(index).withName(name) for index, name in enumerate(names)]
    return jvm.org.apache.spark.sql.catalyst.plans.logical.Project(jvm.PythonUtils.toSeq(attributes), jplan)


def frame_at(session: SparkSession, catalyst: CatalystPlan, path: tuple[int, ...]) -> DataFrame:
    """A subtree of Spark's plan as a DataFrame of its own, to be read by position: Arrow wants each name once, so
    repeated names are replaced.
    """
    frame = _frame(session, catalyst.jnode(path))
    names = frame.columns
    return frame if len(set(names)) == len(names) else frame.toDF(*(f"column{at}" for at in range(len(names))))


def schema_at(catalyst: CatalystPlan, path: tuple[int, ...]) -> StructType:
    """The columns of a subtree of Spark's plan, with Spark's types.

    With Spark's names as well, unless one occurs twice: for Spark, the rows of a Python worker are structs, which have
    each field once. `splice` gives columns their names, by position.
    """
    schema = StructType.fromJson(json.loads(catalyst.jnode(path).schema().json()))
    if len(set(schema.names)) == len(schema.names):
        return schema
    return StructType([StructField(f"column{at}", each.dataType, each.nullable) for at, each in enumerate(schema)])


def _frame(session: SparkSession, jplan: Any) -> DataFrame:
    return spark_version().frame_of_plan(session, jplan)


def _replace(session: SparkSession, jnode: Any, path: tuple[int, ...], replacement: DataFrame) -> Any:
    if not path:
        return _under_old_names(session, jnode, replacement)
    jchildren = jnode.children()
    children = [jchildren.apply(index) for index in range(jchildren.size())]
    children[path[0]] = _replace(session, children[path[0]], path[1:], replacement)
    return jnode.withNewChildren(session._jvm.PythonUtils.toSeq(children))


def _under_old_names(session: SparkSession, old: Any, replacement: DataFrame) -> Any:
    jvm = session._jvm
    new = replacement._jdf.queryExecution().analyzed()
    none, nothing = jvm.scala.Option.empty(), jvm.PythonUtils.toSeq([])
    old_output, new_output = old.output(), new.output()
    aliases = []
    for index in range(old_output.size()):
        attribute = old_output.apply(index)
        alias = jvm.org.apache.spark.sql.catalyst.expressions.Alias(
            new_output.apply(index), attribute.name(), attribute.exprId(), attribute.qualifier(), none, nothing
        )
        aliases.append(alias)
    return jvm.org.apache.spark.sql.catalyst.plans.logical.Project(jvm.PythonUtils.toSeq(aliases), new)

"""A function call in Catalyst's plan, over groups or over frames: its mode, its type, its divisions."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sundog.expr.nodes import Expr
from sundog.front.catalyst_json import Node
from sundog.front.expressions.reading import Scope
from sundog.functions.declaration import Function
from sundog.functions.table import FUNCTIONS
from sundog.support import Code, Declined
from sundog.types import arrow_type, spark_name

_MODES = ("ANSI", "LEGACY", "TRY")


def evaluation_mode(node: Node) -> str:
    """ANSI, LEGACY or TRY; functions without such a field cannot overflow."""
    modes = [node[key] for key in ("evalContext", "evalMode") if key in node.fields]
    mode = modes[0] if modes else "ANSI"
    if mode not in _MODES:
        raise Declined.because(Code.PLAN_VERSION, f"{node.name} has the unknown evaluation mode {mode!r}", node.name)
    return str(mode)


def in_mode(function: Function, mode: str) -> Function:
    """The function for this mode: under TRY a sum is a try_sum."""
    if mode != "TRY":
        return function
    if function.tried_as is None:
        raise Declined.because(Code.PLAN_VERSION, f"{function.name} has no form that gives NULL", function.catalyst)
    return FUNCTIONS[function.tried_as]


def check_division(function: Function, node: Node, scope: Scope) -> None:
    """Decline a function whose divisions by zero differ from this Spark's."""
    if node.get("nullOnDivideByZero", True) is not True:
        raise Declined.because(Code.FUNCTION, f"{function.name} with legacy statistics", node.name)
    if function.divides_unguarded and scope.corr_may_raise:
        text = f"{function.name} under ANSI may divide by zero before Spark 4.3"
        raise Declined.because(Code.FUNCTION, text, node.name)


def result_type(function: Function, node: Node, args: Sequence[Expr], over_window: bool = False) -> pa.DataType:
    """Spark's type of the result, compared with Catalyst's if the plan has it."""
    dtype = function.result_of([arg.dtype for arg in args], over_window)
    if dtype is None:
        shown = ", ".join(spark_name(arg.dtype) for arg in args)
        raise Declined.because(Code.UNSUPPORTED_TYPE, f"{function.name} of {shown}", node.name)
    if "dataType" in node.fields and arrow_type(node["dataType"]) != dtype:
        raise Declined.because(Code.PLAN_VERSION, f"{function.name} gives {node['dataType']}", node.name)
    return dtype

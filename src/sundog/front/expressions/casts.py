"""Casts that are known to be exactly Spark's."""

from __future__ import annotations

import pyarrow as pa

from sundog.expr.evaluation.casts import EXACT_CASTS, MAX_DIGITS_OF_DOUBLES, type_kind
from sundog.expr.nodes import Cast, Column, EvalMode, Expr, Literal
from sundog.front.catalyst_json import Node
from sundog.front.expressions.reading import Entry, Scope, children_of, mode_of, require, type_of, zone_of
from sundog.support import Code
from sundog.types import DAY_TIME_INTERVAL, spark_name

# Casts whose result is the same in every mode, so that the mode need not be known.
_MODELESS = frozenset(
    {
        ("boolean", "integer"),
        ("boolean", "float"),
        ("boolean", "double"),
        ("boolean", "string"),
        ("integer", "boolean"),
        ("integer", "float"),
        ("integer", "double"),
        ("integer", "string"),
        ("integer", "timestamp"),
        ("float", "boolean"),
        ("float", "double"),
        ("double", "boolean"),
        ("double", "float"),
        ("decimal", "boolean"),
        ("decimal", "double"),
        ("string", "binary"),
        ("binary", "string"),
        ("date", "string"),
        ("timestamp", "date"),
        ("timestamp", "string"),
        ("timestamp_ntz", "date"),
        ("timestamp_ntz", "string"),
    }
)
# Casts whose result depends on the time zone.
_ZONED = frozenset(
    {
        ("date", "timestamp"),
        ("timestamp", "date"),
        ("timestamp", "timestamp_ntz"),
        ("timestamp", "integer"),
        ("timestamp", "string"),
        ("timestamp_ntz", "timestamp"),
    }
)
# Casts that round the digits printed by Java.
_OF_PRINTED_DIGITS = frozenset({("float", "decimal"), ("double", "decimal")})


def _cast(node: Node, scope: Scope) -> Expr:
    (child,) = children_of(node, scope, 1)
    dtype = type_of(node["dataType"], "Cast")
    require(
        dtype != DAY_TIME_INTERVAL or str(node["dataType"]).endswith("second"),
        Code.INEXACT_CAST,
        f"a cast to {node['dataType']} cuts off smaller units",
        node,
    )
    if child.dtype == dtype:
        return child
    if isinstance(child, Literal) and child.value is None:
        return Literal(None, dtype)
    pair = type_kind(child.dtype), type_kind(dtype)
    require(
        pair in EXACT_CASTS,
        Code.INEXACT_CAST,
        f"a cast from {spark_name(child.dtype)} to {spark_name(dtype)} is not known to be exactly Spark's",
        node,
    )
    require(
        pair not in _OF_PRINTED_DIGITS or dtype.precision <= MAX_DIGITS_OF_DOUBLES,
        Code.INEXACT_CAST,
        f"a cast from {spark_name(child.dtype)} to {spark_name(dtype)} depends on the digits that Java prints",
        node,
    )
    widening = pair == ("integer", "integer") and dtype.bit_width >= child.dtype.bit_width
    mode = EvalMode.LEGACY if widening or pair in _MODELESS else mode_of(node, "evalMode")
    require(
        not _depends_on_representation(child, dtype, mode), Code.INEXACT_CAST, "a decimal near an int's limits", node
    )
    return Cast(child, dtype, mode, zone_of(node, scope) if pair in _ZONED else None)


def _depends_on_representation(child: Expr, dtype: pa.DataType, mode: EvalMode) -> bool:
    """Whether the result depends on the origin of a decimal of 16 to 18 digits: Spark checks a computed one as a
    double, and one that was read from a file exactly."""
    source = child.dtype
    if not (pa.types.is_decimal(source) and pa.types.is_integer(dtype)) or isinstance(child, Column):
        return False
    return bool(
        mode is not EvalMode.LEGACY and dtype.bit_width < 64 and 15 < source.precision <= 18 and source.scale > 0
    )


ENTRIES = {
    "Cast": Entry(_cast, "`CAST` and `try_cast` between the types listed as exact"),
}

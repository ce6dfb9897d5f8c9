"""Calls of aggregate and window functions, drawn so that Spark's own answer is determined.

Where an answer depends on the order of rows (`row_number`, `lag`, ROWS frames, `first`), the order is made total by a
unique column. Sums of floats that depend on the order of addition are marked inexact; sums of values at the ends of a
float's range are not drawn, since whether they reach infinity depends on that order too.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.fuzz.expressions import NUMBERS, ORDERED, WHOLE, Expr, Name, Scope, draw_expr

FLOATS = ("float", "double")
ADDABLE = NUMBERS


@dataclass(frozen=True)
class Argument:
    """What a function is called on, and whether a sum of it is the same in any order."""

    expr: Expr
    exact_sum: bool


def families(scope: Scope, among: tuple[str, ...]) -> list[str]:
    return sorted({name.family for name in scope if name.family in among and not name.inexact})


def draw_argument(rng: Random, scope: Scope, among: tuple[str, ...], summed: bool, depth: int = 2) -> Argument | None:
    if summed:
        scope = [name for name in scope if name.tame or (name.family not in FLOATS and rng.random() < 0.2)]
    found = families(scope, among)
    if not found:
        return None
    family = rng.choice(found)
    if rng.random() < 0.7:
        name = rng.choice([name for name in scope if name.family == family and not name.inexact])
        return Argument(name.expr, _sums_exactly(name))
    return Argument(draw_expr(rng, scope, family, depth), family not in FLOATS)


def _sums_exactly(name: Name) -> bool:
    return name.exact_sum if name.family in FLOATS else True


def draw_aggregate(
    rng: Random, scope: Scope, key: tuple[str, ...] | None, windowed: bool = False, in_order: bool = False
) -> Expr:
    """One call, without FILTER or OVER. A name of `key` is unique. `in_order`: Spark's order of rows is determined."""
    if in_order and rng.random() < 0.1:
        return _by_order_of_rows(rng, scope)
    for _ in range(20):
        found = _try_aggregate(rng, scope, key, windowed)
        if found is not None:
            return found
    return Expr("count(*)", (), "bigint")


def _by_order_of_rows(rng: Random, scope: Scope) -> Expr:
    """Which of several rows is picked follows from the order in which Spark reads them."""
    argument = draw_argument(rng, scope, ORDERED, summed=False, depth=1)
    by = draw_argument(rng, scope, ORDERED, summed=False, depth=1)
    if argument is None or by is None:
        return Expr("count(*)", (), "bigint")
    form = rng.choice(
        ("max_by({0}, {1})", "min_by({0}, {1})", "first({0})", "last({0})", "first({0}) IGNORE NULLS", "any_value({0})")
    )
    args = (argument.expr, by.expr) if "{1}" in form else (argument.expr,)
    return Expr(form, args, argument.expr.family)


def _try_aggregate(rng: Random, scope: Scope, key: tuple[str, ...] | None, windowed: bool) -> Expr | None:
    kind = rng.choice(
        ("count", "count", "count_star", "sum", "sum", "sum", "avg", "avg", "min", "max", "min", "max", "moment")
        + (() if windowed else ("distinct", "distinct", "pick", "bool", "bit", "count_if", "pair", "try", "rare"))
    )
    if kind == "count_star":
        return Expr("count(*)", (), "bigint")
    if kind in ("sum", "avg", "try"):
        return _sum(rng, scope, kind)
    if kind == "moment":
        argument = draw_argument(rng, scope, (*WHOLE, *FLOATS, "decimal"), summed=True)
        function = rng.choice(("stddev_pop", "stddev_samp", "var_pop", "var_samp"))
        return argument and Expr(f"{function}({{0}})", (argument.expr,), "double", inexact=True)
    if kind == "pair":
        both = [draw_argument(rng, scope, ("int", "double", "float"), summed=True, depth=1) for _ in range(2)]
        if both[0] is None or both[1] is None:
            return None
        function = rng.choice(("corr", "covar_pop", "covar_samp"))
        return Expr(f"{function}({{0}}, {{1}})", (both[0].expr, both[1].expr), "double", inexact=True)
    if kind == "distinct":
        return _distinct(rng, scope)
    if kind in ("bool", "count_if"):
        argument = draw_argument(rng, scope, ("boolean",), summed=False) or Argument(
            draw_expr(rng, scope, "boolean", 2), True
        )
        function = "count_if" if kind == "count_if" else rng.choice(("bool_and", "bool_or", "every", "some"))
        return Expr(f"{function}({{0}})", (argument.expr,), "bigint" if kind == "count_if" else "boolean")
    among = WHOLE if kind == "bit" else ORDERED
    argument = draw_argument(rng, scope, among, summed=False)
    if argument is None:
        return None
    if kind == "bit":
        function = rng.choice(("bit_and", "bit_or", "bit_xor"))
    elif kind == "pick":
        if key is None or len(key) != 1:
            return None
        function = rng.choice(("max_by", "min_by"))
        return Expr(f"{function}({{0}}, `{key[0]}`)", (argument.expr,), argument.expr.family)
    elif kind == "rare":
        function = rng.choice(("approx_count_distinct", "skewness"))
        if function == "skewness" and argument.expr.family not in NUMBERS:
            return None
        return Expr(f"{function}({{0}})", (argument.expr,), "double", inexact=True) if rng.random() < 0.2 else None
    else:
        function = kind
    family = "bigint" if kind == "count" else argument.expr.family
    return Expr(f"{function}({{0}})", (argument.expr,), family)


def _sum(rng: Random, scope: Scope, kind: str) -> Expr | None:
    argument = draw_argument(rng, scope, ADDABLE, summed=True)
    if argument is None:
        return None
    function = rng.choice(("try_sum", "try_avg")) if kind == "try" else kind
    family = argument.expr.family
    if function.endswith("avg"):
        return Expr(
            f"{function}({{0}})", (argument.expr,), "decimal" if family == "decimal" else "double", family != "decimal"
        )
    result = "bigint" if family in WHOLE else "double" if family in FLOATS else family
    return Expr(f"{function}({{0}})", (argument.expr,), result, not argument.exact_sum)


def _distinct(rng: Random, scope: Scope) -> Expr | None:
    function = rng.choice(("count", "count", "sum", "avg"))
    argument = draw_argument(
        rng, scope, ORDERED if function == "count" else ADDABLE, summed=function != "count", depth=1
    )
    if argument is None:
        return None
    if function == "count":
        other = draw_argument(rng, scope, ORDERED, summed=False, depth=1)
        if other is not None and rng.random() < 0.3:
            return Expr("count(DISTINCT {0}, {1})", (argument.expr, other.expr), "bigint")
        return Expr("count(DISTINCT {0})", (argument.expr,), "bigint")
    family = argument.expr.family
    result = "decimal" if family == "decimal" else "bigint" if function == "sum" and family in WHOLE else "double"
    return Expr(
        f"{function}(DISTINCT {{0}})",
        (argument.expr,),
        result,
        family in FLOATS or (function == "avg" and family != "decimal"),
    )


def filtered(rng: Random, scope: Scope, call: Expr, share: float = 0.25) -> Expr:
    if rng.random() >= share:
        return call
    place = len(call.args)
    condition = draw_expr(rng, scope, "boolean", 1)
    return Expr(f"{call.form} FILTER (WHERE {{{place}}})", (*call.args, condition), call.family, call.inexact)


# --- windows ---------------------------------------------------------------------------------------------------------

DIRECTIONS = ("ASC", "DESC", "ASC NULLS LAST", "DESC NULLS FIRST", "ASC NULLS FIRST", "DESC NULLS LAST")
_EDGES = ("UNBOUNDED PRECEDING", "{} PRECEDING", "CURRENT ROW", "{} FOLLOWING", "UNBOUNDED FOLLOWING")
_OFFSETS: dict[str, tuple[str, ...]] = {
    "tinyint": ("1", "5"),
    "smallint": ("2", "40"),
    "int": ("1", "10", "500"),
    "bigint": ("3", "1000"),
    "float": ("1", "2.5D"),
    "double": ("0.5D", "100"),
    "decimal": ("1", "0.5"),
    "date": ("1", "30", "INTERVAL '2' DAY"),
    "timestamp": ("INTERVAL '1' HOUR", "INTERVAL '90' SECOND", "INTERVAL '2' DAY"),
    "timestamp_ntz": ("INTERVAL '1' HOUR", "INTERVAL '1 02:00:00' DAY TO SECOND"),
}


def draw_window(rng: Random, scope: Scope, key: tuple[str, ...] | None) -> Expr:
    """One call with its OVER clause."""
    keyed = [name for name in scope if not name.inexact]
    parts = rng.sample(keyed, min(len(keyed), rng.choice((0, 0, 0, 1, 1, 2))))
    partition = ("PARTITION BY " + ", ".join(name.expr.sql for name in parts)) if parts else ""
    orders = rng.sample(keyed, min(len(keyed), rng.choice((1, 1, 2))))
    kind = rng.choice(
        ("place", "place", "rank", "shift", "pick", "rows", "rows", "rows", "range", "range", "running", "whole")
    )
    if key is None and kind in ("place", "shift", "pick", "rows"):
        kind = "running"
    if kind in ("place", "shift", "pick", "rows"):
        orders = [name for name in orders if name.name not in (key or ())]
        orders += [name for name in keyed if name.name in (key or ())]
    order = "ORDER BY " + ", ".join(f"{name.expr.sql} {rng.choice(DIRECTIONS)}" for name in orders)
    frame = ""
    if kind == "place":
        call = Expr(
            rng.choice(("row_number()", "row_number()", "ntile(1)", "ntile(3)", "ntile(7)", "rank()")), (), "int"
        )
    elif kind == "rank":
        call = Expr(rng.choice(("rank()", "dense_rank()")), (), "int")
        if rng.random() < 0.4:
            call = Expr(rng.choice(("percent_rank()", "cume_dist()")), (), "double")
    elif kind == "shift":
        call = _shift(rng, scope)
    elif kind == "pick":
        call = _pick(rng, scope)
        frame = _rows_frame(rng) if rng.random() < 0.6 else ""
    elif kind == "rows":
        call, frame = filtered(rng, scope, draw_aggregate(rng, scope, key, windowed=True), 0.15), _rows_frame(rng)
    elif kind == "range":
        call = filtered(rng, scope, draw_aggregate(rng, scope, key, windowed=True), 0.15)
        ranged = [name for name in keyed if name.family in _OFFSETS]
        if ranged:
            name = rng.choice(ranged)
            order = f"ORDER BY {name.expr.sql} {rng.choice(DIRECTIONS)}"
            frame = "RANGE " + _between(rng, _OFFSETS[name.family])
    elif kind == "running":
        call = draw_aggregate(rng, scope, key, windowed=True)
        frame = rng.choice(
            (
                "",
                "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            )
        )
    else:
        call, order = draw_aggregate(rng, scope, key, windowed=True), ""
    over = " ".join(piece for piece in (partition, order, frame) if piece)
    return Expr(f"{call.form} OVER ({over})", call.args, call.family, call.inexact)


def _shift(rng: Random, scope: Scope) -> Expr:
    argument = draw_argument(rng, scope, ORDERED, summed=False, depth=1)
    if argument is None:
        return Expr("row_number()", (), "int")
    function, distance = rng.choice(("lag", "lead")), rng.choice((0, 1, 1, 2, 30, -1))
    ignore = rng.choice(("", "", " IGNORE NULLS"))
    if rng.random() < 0.3:
        default = draw_expr(rng, scope, argument.expr.family, 0)
        return Expr(f"{function}({{0}}, {distance}, {{1}}){ignore}", (argument.expr, default), argument.expr.family)
    return Expr(f"{function}({{0}}, {distance}){ignore}", (argument.expr,), argument.expr.family)


def _pick(rng: Random, scope: Scope) -> Expr:
    argument = draw_argument(rng, scope, ORDERED, summed=False, depth=1)
    if argument is None:
        return Expr("count(*)", (), "bigint")
    form = rng.choice(
        ("first({0})", "last({0})", "first_value({0})", "nth_value({0}, 2)", "any_value({0})", "nth_value({0}, 5)")
    )
    return Expr(form + rng.choice(("", "", " IGNORE NULLS")), (argument.expr,), argument.expr.family)


def _rows_frame(rng: Random) -> str:
    return "ROWS " + _between(rng, ("1", "2", "10", "0"))


def _between(rng: Random, offsets: tuple[str, ...]) -> str:
    """Edges in order; two offsets on one side are the same kind of edge, the further one first."""
    low, high = sorted(rng.choices(range(5), k=2))
    if (low, high) in ((0, 0), (4, 4)):
        low, high = 0, 2
    if low == 4:
        low = 3
    near, far = sorted(rng.sample(range(len(offsets)), 2)) if len(offsets) > 1 else (0, 0)
    first, last = offsets[far], offsets[near]
    if low == high == 3:
        first, last = last, first
    elif low != high:
        first, last = rng.choice(offsets), rng.choice(offsets)
    return f"BETWEEN {_EDGES[low].format(first)} AND {_EDGES[high].format(last)}"

"""Conditions and values over named columns, as SQL: what WHERE, ON and the arguments of functions are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

CONSTANTS: dict[str, tuple[str, ...]] = {
    "int": ("0", "1", "3", "7", "-1", "5000000000", "CAST(NULL AS INT)"),
    "decimal": ("0.00", "1.0", "2", "-1.50"),
    "double": ("0D", "-0D", "1D", "double('NaN')", "2.5D"),
    "string": ("'a'", "''", "'é'", "'1'", "'b'"),
    "binary": ("X'61'", "X''"),
    "date": ("DATE '2024-03-31'", "DATE '2024-04-02'"),
    "timestamp": ("TIMESTAMP '2024-03-31 01:00:00'", "TIMESTAMP '2024-03-30 23:00:00'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ '2024-03-31 01:00:00'",),
    "boolean": ("true", "false"),
}
COMPARABLE = {
    "int": ("int", "int", "int", "decimal", "double", "string"),
    "decimal": ("decimal", "decimal", "int", "double"),
    "double": ("double", "double", "int", "decimal"),
    "string": ("string", "string", "string", "date"),
    "date": ("date", "date", "timestamp", "timestamp_ntz"),
    "timestamp": ("timestamp", "timestamp", "timestamp_ntz", "date"),
    "timestamp_ntz": ("timestamp_ntz", "timestamp_ntz", "timestamp", "date"),
}
SIGNS = ("=", "=", "<", "<=", ">", ">=", "<>", "<=>")


@dataclass(frozen=True)
class Named:
    """A column in scope, as it is written there."""

    sql: str
    family: str


Scope = Sequence[Named]


def draw_value(rng: Random, scope: Scope, family: str, depth: int = 1) -> str:
    """An expression of this family; a constant where no column has it."""
    columns = [named.sql for named in scope if named.family == family]
    if not columns:
        return rng.choice(CONSTANTS[family])
    value = rng.choice(columns)
    if depth <= 0 or rng.random() < 0.6:
        return value
    other = draw_value(rng, scope, family, depth - 1) if rng.random() < 0.6 else rng.choice(CONSTANTS[family])
    forms = {
        "int": ("{0} + 1", "{0} % 3", "{0} * 2", "- {0}", "CAST({0} AS BIGINT)"),
        "decimal": ("{0} + 1", "{0} * 1.5", "CAST({0} AS DECIMAL(38, 2))"),
        "double": ("{0} + 0D", "- {0}", "{0} * 2"),
        "string": ("upper({0})", "{0} || 'x'", "substring({0}, 1, 1)"),
        "date": ("date_add({0}, 1)",),
        "timestamp": ("{0} + INTERVAL '1' HOUR",),
        "boolean": ("NOT {0}",),
    }.get(family, ())
    common = ("coalesce({0}, {1})", "if({0} = {1}, {0}, {1})", "nullif({0}, {1})", "CASE WHEN {0} > {1} THEN {0} END")
    return "(" + rng.choice((*forms, *forms, *common)).format(value, other) + ")"


def draw_condition(rng: Random, scope: Scope, depth: int = 1) -> str:
    """A boolean expression over any of the columns."""
    kind = rng.random()
    if depth > 0 and kind < 0.25:
        parts = [draw_condition(rng, scope, depth - 1) for _ in range(2)]
        return f"({rng.choice((' AND ', ' OR ', ' OR ')).join(parts)})"
    if depth > 0 and kind < 0.32:
        return f"(NOT {draw_condition(rng, scope, depth - 1)})"
    named = rng.choice(list(scope))
    value = draw_value(rng, scope, named.family) if rng.random() < 0.3 else named.sql
    if kind < 0.42:
        return f"({value} IS {rng.choice(('NULL', 'NOT NULL'))})"
    if kind < 0.5:
        members = ", ".join(rng.choice(CONSTANTS[named.family]) for _ in range(rng.choice((1, 2, 3))))
        return f"({value} {rng.choice(('', '', 'NOT '))}IN ({members}))"
    if kind < 0.54 and named.family == "string":
        return f"({value} LIKE '{rng.choice(('a%', '%é%', '_', '%'))}')"
    if kind < 0.6 and named.family == "boolean":
        return f"({value})"
    other = rng.choice(CONSTANTS[named.family])
    if rng.random() < 0.4:
        other = draw_value(rng, scope, named.family)
    return f"({value} {rng.choice(SIGNS)} {other})"


def draw_equality(rng: Random, left: Scope, right: Scope) -> str | None:
    """A join key: an equality of a value of each side; None if no types compare."""
    rights = {named.family for named in right}
    pairs = [
        (named.family, other)
        for named in left
        for other in COMPARABLE.get(named.family, (named.family,))
        if other in rights and (other == named.family or rng.random() < 0.3)
    ]
    if not pairs:
        return None
    mine, other = rng.choice(pairs)
    sides = (
        draw_value(rng, left, mine, rng.choice((0, 0, 0, 1))),
        draw_value(rng, right, other, rng.choice((0, 0, 0, 1))),
    )
    if {mine, other} in ({"int", "string"}, {"string", "date"}):  # raises for most strings under ANSI
        family = "BIGINT" if mine == "int" else "DATE"
        sides = (f"try_cast({sides[0]} AS {family})", f"try_cast({sides[1]} AS {family})")
    return f"{sides[0]} {rng.choice(('=', '=', '=', '=', '<=>'))} {sides[1]}"

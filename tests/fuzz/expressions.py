"""Expressions in SQL as small trees, drawn by type from one table of forms.

An expression knows its type's family and whether its value may differ in the last bits (`inexact`): such a value is
compared within a tolerance and never decides anything (no WHERE, no sort key, no group).
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
WHOLE = ("tinyint", "smallint", "int", "bigint")
ORDERED = (*NUMBERS, "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz", "interval day to second")


@dataclass(frozen=True)
class Expr:
    """`form` is SQL with `{0}`, `{1}` … for the arguments."""

    form: str
    args: tuple[Expr, ...] = ()
    family: str = "boolean"
    inexact: bool = False

    @property
    def sql(self) -> str:
        return re.sub(r"\{(\d)\}", lambda place: self.args[int(place[1])].sql, self.form)

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True)
class Name:
    """A column in scope. `samples` are some of its values, as SQL, for constants that hit."""

    name: str
    family: str
    inexact: bool = False
    exact_sum: bool = True
    tame: bool = True
    samples: tuple[str, ...] = ()

    @property
    def expr(self) -> Expr:
        return Expr(quoted(self.name), (), self.family, self.inexact)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


Scope = Sequence[Name]


@dataclass(frozen=True)
class Form:
    result: str
    form: str
    takes: tuple[str, ...]
    weight: float = 1.0
    wild: bool = False  # overflows, raises under ANSI or leaves the type easily


def _forms() -> list[Form]:
    found = [
        Form("boolean", "(NOT {0})", ("boolean",)),
        Form("boolean", "({0} AND {1})", ("boolean", "boolean")),
        Form("boolean", "({0} OR {1})", ("boolean", "boolean")),
        Form("int", "length({0})", ("string",), 2),
        Form("int", "length({0})", ("binary",)),
        Form("string", "upper({0})", ("string",)),
        Form("string", "lower({0})", ("string",)),
        Form("string", "substring({0}, <n>, <n>)", ("string",), 2),
        Form("string", "left({0}, <n>)", ("string",)),
        Form("string", "right({0}, <n>)", ("string",)),
        Form("string", "concat({0}, '-', {1})", ("string", "string")),
        Form("string", "({0} || 'é')", ("string",)),
        Form("binary", "concat({0}, {1})", ("binary", "binary")),
        Form("boolean", "({0} LIKE '<pattern>')", ("string",), 2),
        Form("boolean", "startswith({0}, '<word>')", ("string",)),
        Form("boolean", "endswith({0}, '<word>')", ("string",)),
        Form("boolean", "contains({0}, '<word>')", ("string",)),
        Form("boolean", "isnan({0})", ("double",)),
        Form("boolean", "isnan({0})", ("float",)),
        Form("double", "power({0}, 2)", ("double",), wild=True),
        Form("date", "date_add({0}, <n>)", ("date",)),
        Form("date", "date_sub({0}, <n>)", ("date",)),
        Form("int", "datediff({0}, {1})", ("date", "date")),
        Form("date", "trunc({0}, '<unit>')", ("date",), 2),
        Form("timestamp", "date_trunc('<tunit>', {0})", ("timestamp",), 2),
        Form("timestamp", "({0} + INTERVAL '<n>' DAY)", ("timestamp",)),
        Form("timestamp", "({0} + INTERVAL '<n> 05:00:01' DAY TO SECOND)", ("timestamp",)),
        Form("timestamp_ntz", "({0} + INTERVAL '<n>' HOUR)", ("timestamp_ntz",)),
        Form("decimal", "extract(second from {0})", ("timestamp",)),
        Form("int", "extract(yearofweek from {0})", ("date",)),
        Form("bigint", "({0} div {1})", ("bigint", "bigint"), wild=True),
        Form("bigint", "({0} div <nz>)", ("int",)),
        Form("double", "({0} / {1})", ("double", "double"), wild=True),
        Form("double", "({0} / <nz>)", ("int",)),
        Form("double", "try_divide({0}, {1})", ("bigint", "bigint")),
        Form("decimal", "({0} / {1})", ("decimal", "decimal"), wild=True),
        Form("decimal", "({0} + {1})", ("decimal", "decimal")),
        Form("decimal", "({0} - {1})", ("decimal", "decimal")),
        Form("decimal", "({0} * {1})", ("decimal", "decimal"), wild=True),
        Form("decimal", "({0} * 0.3)", ("decimal",)),
        Form("decimal", "({0} + {1})", ("decimal", "int")),
        Form("double", "({0} + {1})", ("double", "float")),
        Form("double", "({0} + {1})", ("double", "int")),
        Form("bigint", "({0} + {1})", ("bigint", "smallint")),
        Form("bigint", "try_add({0}, {1})", ("bigint", "bigint")),
        Form("bigint", "try_multiply({0}, {1})", ("bigint", "bigint")),
        Form("bigint", "nullif({0}, <n>)", ("bigint",)),
        # predicates that raise for some rows only, and so show in which order conditions are looked at
        Form("boolean", "(1 / {0} > 0)", ("int",), 0.4, wild=True),
        Form("boolean", "({0} > 1 AND 10 div {1} > 0)", ("int", "bigint"), 0.4, wild=True),
        Form("boolean", "(CAST({0} AS INT) > 1)", ("string",), 0.3, wild=True),
        Form("boolean", "({0} <> '' AND CAST({0} AS DATE) > DATE '2000-01-01')", ("string",), 0.3, wild=True),
        # casts
        Form("bigint", "CAST({0} AS BIGINT)", ("int",), 2),
        Form("int", "CAST({0} AS INT)", ("bigint",), wild=True),
        Form("int", "CAST({0} AS INT)", ("smallint",)),
        Form("tinyint", "CAST({0} AS TINYINT)", ("int",), wild=True),
        Form("double", "CAST({0} AS DOUBLE)", ("int",)),
        Form("double", "CAST({0} AS DOUBLE)", ("decimal",)),
        Form("double", "CAST({0} AS DOUBLE)", ("float",)),
        Form("float", "CAST({0} AS FLOAT)", ("double",)),
        Form("int", "CAST({0} AS INT)", ("double",), wild=True),
        Form("bigint", "CAST({0} AS BIGINT)", ("decimal",), wild=True),
        Form("decimal", "CAST({0} AS DECIMAL(20, 3))", ("int",)),
        Form("decimal", "CAST({0} AS DECIMAL(12, 1))", ("decimal",), wild=True),
        Form("decimal", "CAST({0} AS DECIMAL(12, 4))", ("double",), 0.5, wild=True),
        Form("string", "CAST({0} AS STRING)", ("int",)),
        Form("string", "CAST({0} AS STRING)", ("bigint",)),
        Form("string", "CAST({0} AS STRING)", ("date",)),
        Form("string", "CAST({0} AS STRING)", ("decimal",)),
        Form("string", "CAST({0} AS STRING)", ("timestamp",), 0.5),
        Form("string", "CAST({0} AS STRING)", ("boolean",), 0.5),
        Form("string", "CAST({0} AS STRING)", ("double",), 0.3),
        Form("string", "CAST({0} AS STRING)", ("binary",), 0.5),
        Form("binary", "CAST({0} AS BINARY)", ("string",)),
        Form("int", "CAST({0} AS INT)", ("boolean",)),
        Form("boolean", "CAST({0} AS BOOLEAN)", ("int",)),
        Form("int", "try_cast({0} AS INT)", ("string",), 0.5),
        Form("int", "CAST({0} AS INT)", ("string",), 0.2, wild=True),
        Form("double", "try_cast({0} AS DOUBLE)", ("string",), 0.3),
        Form("date", "try_cast({0} AS DATE)", ("string",), 0.3),
        Form("date", "CAST({0} AS DATE)", ("timestamp",), 2),
        Form("date", "CAST({0} AS DATE)", ("timestamp_ntz",)),
        Form("timestamp", "CAST({0} AS TIMESTAMP)", ("date",)),
        Form("timestamp_ntz", "CAST({0} AS TIMESTAMP_NTZ)", ("date",)),
        Form("timestamp_ntz", "CAST({0} AS TIMESTAMP_NTZ)", ("timestamp",)),
        Form("timestamp", "CAST({0} AS TIMESTAMP)", ("timestamp_ntz",)),
        Form("bigint", "CAST({0} AS BIGINT)", ("timestamp",)),
        # what sundog does not compute, so that parts of plans stay on Spark
        Form("bigint", "xxhash64({0})", ("string",), 0.1),
        Form("double", "sqrt(abs({0}))", ("double",), 0.1),
        Form("string", "reverse({0})", ("string",), 0.1),
        Form("double", "round({0}, 1)", ("double",), 0.1),
    ]
    for family in ("tinyint", "smallint", "int", "bigint", "float", "double"):
        found += [
            Form(family, "({0} + {1})", (family, family), 0.7),
            Form(family, "({0} - {1})", (family, family), 0.7),
            Form(family, "({0} * {1})", (family, family), 0.4, wild=True),
            Form(family, "(- {0})", (family,), 0.4),
            Form(family, "abs({0})", (family,), 0.4),
        ]
    for family in ("int", "bigint", "double", "decimal"):
        found.append(Form(family, "({0} % {1})", (family, family), 0.3, wild=True))
    for family in WHOLE:
        found.append(
            Form(family, "({0} % <nz>S)" if family == "smallint" else "({0} % {1})", (family, family), 0.1, wild=True)
        )
    for family in ("year", "month", "day", "quarter", "dayofweek", "weekday", "dayofyear", "weekofyear"):
        found.append(Form("int", family + "({0})", ("date",), 0.8))
        found.append(Form("int", family + "({0})", ("timestamp",), 0.5))
    for family in ("hour", "minute", "second"):
        found.append(Form("int", family + "({0})", ("timestamp",), 1.0))
    for family in ORDERED:
        found += [
            Form("boolean", f"({{0}} {sign} {{1}})", (family, family), 0.25)
            for sign in ("=", "<", "<=", ">", ">=", "<>", "<=>")
        ]
        found += [
            Form("boolean", "({0} IS NULL)", (family,), 0.1),
            Form("boolean", "({0} IS NOT NULL)", (family,), 0.1),
            Form("boolean", "({0} IN ({1}, {2}))", (family, "=" + family, "=" + family), 0.3),
            Form("boolean", "({0} BETWEEN {1} AND {2})", (family, "=" + family, "=" + family), 0.3),
            Form(family, "coalesce({0}, {1})", (family, family), 0.5),
            Form(family, "if({0}, {1}, {2})", ("boolean", family, family), 0.3),
            Form(family, "CASE WHEN {0} THEN {1} ELSE {2} END", ("boolean", family, family), 0.3),
            Form(family, "CASE WHEN {0} THEN {1} END", ("boolean", family), 0.2),
        ]
    return found


FORMS = _forms()
_BY_RESULT: dict[str, list[Form]] = {}
for _form in FORMS:
    _BY_RESULT.setdefault(_form.result, []).append(_form)

_TOKENS = {
    "<n>": lambda rng: str(rng.choice((-3, -1, 0, 1, 2, 5, 31))),
    "<nz>": lambda rng: str(rng.choice((2, 3, 7))),
    "<word>": lambda rng: rng.choice(("", "a", "é", "日", "ab", "%")),
    "<pattern>": lambda rng: rng.choice(("%", "a%", "%b", "%é%", "_", "a_", "%a%b%", "", "\\\\%\\\\_x%", "%日_")),
    "<unit>": lambda rng: rng.choice(("YEAR", "QUARTER", "MONTH", "WEEK", "nonsense")),
    "<tunit>": lambda rng: rng.choice(
        ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
    ),
}


def draw_expr(rng: Random, scope: Scope, family: str, depth: int) -> Expr:
    """An exact expression of this family over the columns in scope."""
    columns = [name for name in scope if name.family == family and not name.inexact]
    if depth <= 0 or (columns and rng.random() < 0.35):
        if columns and rng.random() < 0.85:
            return rng.choice(columns).expr
        return draw_constant(rng, scope, family)
    reachable = {name.family for name in scope if not name.inexact}
    tame = {name.family for name in scope if name.tame and not name.inexact}
    forms = [form for form in _BY_RESULT.get(family, []) if _feeds(form, reachable, tame)]
    if not forms:
        return rng.choice(columns).expr if columns else draw_constant(rng, scope, family)
    wild_share = 0.3
    forms = [form for form in forms if not form.wild or rng.random() < wild_share] or forms
    form = rng.choices(forms, [form.weight for form in forms])[0]
    if _is_arithmetic(form) and rng.random() < 0.85:  # seldom over values that overflow at once
        scope = [name for name in scope if name.tame or name.family not in NUMBERS] or scope
    args = tuple(
        draw_constant(rng, scope, take[1:]) if take.startswith("=") else draw_expr(rng, scope, take, depth - 1)
        for take in form.takes
    )
    return Expr(_fill(rng, form.form), args, family)


def _feeds(form: Form, reachable: set[str], tame: set[str]) -> bool:
    return any(take in reachable for take in form.takes)


def _is_arithmetic(form: Form) -> bool:
    return any(sign in form.form for sign in (" + ", " - ", " * ", "(- ", "abs(", "AS INT", "AS TINYINT"))


def _fill(rng: Random, form: str) -> str:
    return re.sub("|".join(_TOKENS), lambda token: _TOKENS[token[0]](rng), form)


def draw_constant(rng: Random, scope: Scope, family: str) -> Expr:
    """Mostly a value that a column of this family holds."""
    samples = [sample for name in scope if name.family == family for sample in name.samples]
    if samples and rng.random() < 0.8:
        return Expr(rng.choice(samples), (), family)
    if rng.random() < 0.04:
        return Expr(f"CAST(NULL AS {'decimal(9,2)' if family == 'decimal' else family})", (), family)
    return Expr(rng.choice(_CONSTANTS[family]), (), family)


_CONSTANTS: dict[str, tuple[str, ...]] = {
    "boolean": ("true", "false"),
    "tinyint": ("1Y", "0Y", "-128Y"),
    "smallint": ("1S", "0S", "300S"),
    "int": ("1", "0", "-7", "2147483647"),
    "bigint": ("1L", "0L", "-40L", "100000000000L"),
    "float": ("CAST(0 AS FLOAT)", "CAST('1.5' AS FLOAT)", "CAST('NaN' AS FLOAT)"),
    "double": ("0D", "-2.5D", "double('NaN')", "double('-Infinity')", "-0D"),
    "decimal": ("0.00", "1.25", "-3"),
    "string": ("''", "'a'", "'zzz'", "'日本'"),
    "binary": ("X''", "X'00ff'"),
    "date": ("DATE '2020-01-05'", "DATE '1970-01-01'"),
    "timestamp": ("TIMESTAMP '2024-03-31 03:30:00'", "TIMESTAMP '2024-10-27 02:30:00 Europe/Berlin'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ '2024-03-31 02:30:00'", "TIMESTAMP_NTZ '1970-01-01 00:00:00'"),
    "interval day to second": ("INTERVAL '1 02:03:04' DAY TO SECOND", "INTERVAL '0 00:00:00' DAY TO SECOND"),
}


def literal(value: Any, dtype: str) -> str:
    """A value of Python's, as Arrow gives it, in SQL. Strings that are no valid UTF-8 come as bytes."""
    if value is None:
        return f"CAST(NULL AS {dtype})"
    if isinstance(value, bool):
        return "true" if value else "false"
    if dtype == "interval day to second":
        sign, micros = ("-" if value < 0 else ""), abs(value)
        days, rest = divmod(micros, 86_400_000_000)
        clock = (
            f"{rest // 3_600_000_000:02}:{rest // 60_000_000 % 60:02}:{rest // 1_000_000 % 60:02}.{rest % 1_000_000:06}"
        )
        return f"INTERVAL '{sign}{days} {clock}' DAY TO SECOND"
    if isinstance(value, bytes) and dtype == "string":
        return f"CAST(X'{value.hex()}' AS STRING)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return "'" + "".join(_escaped(letter) for letter in value) + "'"
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            return f"TIMESTAMP '{_padded(value)} UTC'"
        return f"TIMESTAMP_NTZ '{_padded(value)}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.year:04}-{value.month:02}-{value.day:02}'"
    if isinstance(value, decimal.Decimal):
        return f"CAST('{value:f}' AS {dtype})"
    return f"CAST('{value}' AS {dtype})"


def _padded(value: dt.datetime) -> str:
    return (
        f"{value.year:04}-{value.month:02}-{value.day:02} "
        f"{value.hour:02}:{value.minute:02}:{value.second:02}.{value.microsecond:06}"
    )


def _escaped(letter: str) -> str:
    if letter in "\\'":
        return "\\" + letter
    return letter if letter.isprintable() else "".join(f"\\u{unit:04x}" for unit in _utf16(letter))


def _utf16(letter: str) -> list[int]:
    data = letter.encode("utf-16-be")
    return [int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2)]

"""Random SQL expressions over a table with two columns of every type, for comparing sundog with Spark.

Types are tracked, so every expression is one that Spark's analyser accepts; trees are shallow but use everything that
`SUPPORTED_EXPRESSIONS` lists. The choice of leaves favours constants that meet the data's edge values.
"""

from __future__ import annotations

from random import Random

import pyarrow as pa

from tests.oracle.batches import FILE_TYPES

COLUMN_TYPES: dict[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(5,2)": pa.decimal128(5, 2),
    "decimal(18,0)": pa.decimal128(18, 0),
    "decimal(38,10)": pa.decimal128(38, 10),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "boolean": pa.bool_(),
}
assert set(COLUMN_TYPES.values()) == set(FILE_TYPES)

NAMES: dict[str, list[str]] = {
    sql: [f"{sql.replace('(', '_').replace(',', '_').replace(')', '')}_{n}" for n in (1, 2)] for sql in COLUMN_TYPES
}
SCHEMA = pa.schema([(name, dtype) for sql, dtype in COLUMN_TYPES.items() for name in NAMES[sql]])
INTEGERS = ["tinyint", "smallint", "int", "bigint"]
DECIMALS = ["decimal(5,2)", "decimal(18,0)", "decimal(38,10)"]
NUMBERS = [*INTEGERS, "float", "double", *DECIMALS]
STRING_CONSTANTS = ["", "a", "A", "ab", "a%c", "é", "ß", "😀", "1", "x\\\\y"]
PATTERNS = ["a%", "%c", "%a%", "a_c", "_", "%_%", "a%c", "é_", "", "%", "a\\\\_c", "_\\n%", "%.%", "a\\\\\\\\c", "[a]%"]
DATE_PARTS = ["year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear"]
DATE_UNITS = ["year", "YYYY", "quarter", "month", "mon", "week"]
TIME_UNITS = [*DATE_UNITS, "day", "hour", "MINUTE", "second", "millisecond", "microsecond"]


def column(random: Random, sql: str) -> str:
    return random.choice(NAMES[sql])


def constant(random: Random, sql: str) -> str:
    """A typed constant."""
    match sql:
        case "boolean":
            return random.choice(["true", "false"])
        case "string":
            return f"'{random.choice(STRING_CONSTANTS)}'"
        case "binary":
            return random.choice(["X''", "X'61'", "X'FF'", "X'6162'"])
        case "date":
            return random.choice(["date'2020-02-29'", "date'1970-01-01'", "date'0001-01-01'", "date'1582-10-15'"])
        case "timestamp" | "timestamp_ntz":
            text = random.choice(["2020-02-29 00:00:00", "1969-12-31 23:59:59.999999", "2021-03-28 01:30:00"])
            return f"{sql}'{text}'"
        case "float" | "double":
            number = random.choice(["0", "-0.0", "1", "0.1", "-2.5", "NaN", "Infinity", "-Infinity", "1e30"])
            return f"cast('{number}' as {sql})"
        case _:
            number = random.choice(["0", "1", "-1", "2", "3", "-7", "10", "100"])
            return f"cast({number} as {sql})"


def expression(random: Random, sql: str, depth: int) -> str:
    """An expression of the SQL type."""
    if depth <= 0 or random.random() < 0.15:
        return column(random, sql) if random.random() < 0.8 else constant(random, sql)
    options = [_choice]
    if sql == "boolean":
        options += [_predicate] * 8
    elif sql in NUMBERS:
        options += [_arithmetic] * 4 + [_number_cast] * 2 + ([_measure] * 2 if sql == "int" else [])
    elif sql == "string":
        options += [_text] * 5
    elif sql in ("date", "timestamp", "timestamp_ntz"):
        options += [_moment] * 4
    return random.choice(options)(random, sql, depth - 1)


def _choice(random: Random, sql: str, depth: int) -> str:
    one, other = expression(random, sql, depth), expression(random, sql, depth)
    return random.choice(
        [
            f"if({expression(random, 'boolean', depth)}, {one}, {other})",
            f"case when {expression(random, 'boolean', depth)} then {one} "
            f"when {expression(random, 'boolean', depth)} then {other} end",
            f"coalesce({one}, {other})",
            f"nullif({column(random, sql)}, {column(random, sql)})",
        ]
    )


def _predicate(random: Random, sql: str, depth: int) -> str:
    over = random.choice(list(COLUMN_TYPES))
    one, other = expression(random, over, depth), expression(random, over, depth)
    compare = f"({one} {random.choice(['=', '<', '<=', '>', '>=', '<=>', '<>'])} {other})"
    constants = ", ".join(random.choice([constant(random, over), "null"]) for _ in range(random.choice([2, 3, 13])))
    left, right = expression(random, "boolean", depth), expression(random, "boolean", depth)
    text = expression(random, "string", depth)
    return random.choice(
        [
            compare,
            compare,
            f"({left} and {right})",
            f"({left} or {right})",
            f"(not {left})",
            f"({one} is null)",
            f"({one} is not null)",
            f"({one} in ({constants}))",
            f"isnan({expression(random, random.choice(['float', 'double']), depth)})",
            f"({text} like '{random.choice(PATTERNS)}')",
            f"({text} like 'a#_c' escape '#')",
            f"{random.choice(['startswith', 'endswith', 'contains'])}({text}, {constant(random, 'string')})",
        ]
    )


def _arithmetic(random: Random, sql: str, depth: int) -> str:
    one, other = expression(random, sql, depth), expression(random, sql, depth)
    back = (lambda text: f"cast({text} as {sql})") if sql in DECIMALS else (lambda text: text)
    options = [
        f"({one} + {other})",
        f"({one} - {other})",
        f"({one} * {other})",
        f"({one} % {other})",
        f"try_add({one}, {other})",
        f"try_multiply({one}, {other})",
        f"try_subtract({one}, {other})",
    ]
    if sql != "decimal(38,10)":  # Spark rounds these to 34 digits, and sundog leaves them to it
        options += [f"(- {one})", f"abs({one})"]
    if sql in INTEGERS or sql in DECIMALS:
        options += [f"round({one}, {random.randint(-6, 3)})"]
    if sql == "double" or sql in DECIMALS:
        options += [f"({one} / {other})", f"try_divide({one}, {other})"]
    if sql == "bigint":
        over = random.choice([*INTEGERS, "decimal(5,2)", "decimal(18,0)"])
        options += [f"({expression(random, over, depth)} div {expression(random, over, depth)})"]
    return back(random.choice(options))


EXACT_NUMBER_CASTS = {
    "tinyint": [*INTEGERS, "float", "double", "boolean", "string", "decimal(5,2)", "decimal(38,10)"],
    "smallint": [*INTEGERS, "float", "double", "boolean", "string", "decimal(5,2)", "decimal(38,10)"],
    "int": [*INTEGERS, "float", "double", "boolean", "string", "decimal(5,2)", "decimal(38,10)"],
    "bigint": [*INTEGERS, "float", "double", "boolean", "string", "timestamp", *DECIMALS],
    "float": [*INTEGERS, "double", "boolean"],
    "double": [*INTEGERS, "float", "boolean", *DECIMALS],
    "decimal(5,2)": [*INTEGERS, "float", "double", "boolean", *DECIMALS],
    "decimal(18,0)": [*INTEGERS, "boolean", *DECIMALS],
    "decimal(38,10)": [*INTEGERS, "boolean", *DECIMALS],
}


def _number_cast(random: Random, sql: str, depth: int) -> str:
    source = random.choice(EXACT_NUMBER_CASTS[sql])
    name = random.choice(["cast", "cast", "try_cast"])
    return f"{name}({expression(random, source, depth)} as {sql})"


def _measure(random: Random, sql: str, depth: int) -> str:
    date = expression(random, "date", depth)
    moment = expression(random, random.choice(["timestamp", "timestamp_ntz"]), depth)
    return random.choice(
        [
            f"{random.choice(DATE_PARTS)}({date})",
            f"{random.choice([*DATE_PARTS, 'hour', 'minute', 'second'])}({moment})",
            f"length({expression(random, random.choice(['string', 'binary']), depth)})",
            f"datediff({date}, {expression(random, 'date', depth)})",
        ]
    )


def _text(random: Random, sql: str, depth: int) -> str:
    one, other = expression(random, sql, depth), expression(random, sql, depth)
    sources = [*INTEGERS, *DECIMALS, "boolean", "date", "timestamp", "timestamp_ntz", "binary"]
    return random.choice(
        [
            f"upper({one})",
            f"lower({one})",
            f"concat({one}, {other})",
            f"({one} || {constant(random, 'string')})",
            f"substring({one}, {random.randint(-5, 5)}, {random.randint(-1, 5)})",
            f"left({one}, {random.randint(0, 3)})",
            f"right({one}, {random.randint(0, 3)})",
            f"cast({expression(random, random.choice(sources), depth)} as string)",
        ]
    )


def _moment(random: Random, sql: str, depth: int) -> str:
    one = expression(random, sql, depth)
    others = [name for name in ("date", "timestamp", "timestamp_ntz") if name != sql]
    options = [f"cast({expression(random, random.choice(others), depth)} as {sql})"]
    if sql == "date":
        options += [
            f"trunc({one}, '{random.choice(DATE_UNITS)}')",
            f"date_add({one}, {random.randint(-400, 400)})",
            f"date_sub({one}, {column(random, 'smallint')})",
        ]
    elif sql == "timestamp":
        options += [f"date_trunc('{random.choice(TIME_UNITS)}', {one})"] * 3
    if sql != "date":
        options += [f"({one} + interval '{random.randint(-3, 3)} {random.randint(0, 23)}:10:0.5' day to second)"]
    return random.choice(options)

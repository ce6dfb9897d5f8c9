"""Queries as small trees: a SELECT over a table, over another SELECT, over a UNION or a join.

A query knows how much of its answer is determined (`Check`), so that the comparison can be as strict as SQL allows and
no stricter: order by a unique key is compared row by row; order by other keys leaves only rows of equal keys free; a
query without ORDER BY is a multiset. A LIMIT below another operator always has a total order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.fuzz.calls import DIRECTIONS, draw_aggregate, draw_window, filtered
from tests.fuzz.expressions import ORDERED, Expr, Name, draw_expr, quoted


@dataclass(frozen=True)
class Output:
    name: str
    expr: Expr
    tame: bool = True
    exact_sum: bool = True

    @property
    def sql(self) -> str:
        return f"{self.expr.sql} AS {quoted(self.name)}"


@dataclass(frozen=True)
class SortKey:
    expr: Expr
    direction: str

    @property
    def sql(self) -> str:
        return f"{self.expr.sql} {self.direction}"


@dataclass(frozen=True)
class Grouping:
    keys: tuple[Expr, ...]
    form: str = ""  # "", ROLLUP, CUBE or GROUPING SETS
    sets: tuple[tuple[int, ...], ...] = ()

    @property
    def sql(self) -> str:
        keys = ", ".join(key.sql for key in self.keys)
        if self.form == "GROUPING SETS":
            sets = ", ".join("(" + ", ".join(self.keys[place].sql for place in chosen) + ")" for chosen in self.sets)
            return f" GROUP BY GROUPING SETS ({sets})"
        return f" GROUP BY {self.form}({keys})" if self.form else f" GROUP BY {keys}" if self.keys else ""


@dataclass(frozen=True)
class Table:
    """A view over the files."""

    name: str
    names: tuple[Name, ...]
    key: tuple[str, ...] | None
    in_order: bool = False  # Spark reads it in one task, so that the order of rows is determined

    @property
    def sql(self) -> str:
        return self.name


@dataclass(frozen=True)
class Union:
    left: Select
    right: Select

    @property
    def names(self) -> tuple[Name, ...]:
        return tuple(
            replace(a, inexact=a.inexact or b.inexact, exact_sum=a.exact_sum and b.exact_sum)
            for a, b in zip(self.left.names, self.right.names, strict=True)
        )

    key = None

    @property
    def sql(self) -> str:
        return f"({self.left.sql} UNION ALL {self.right.sql}) AS un"


@dataclass(frozen=True)
class Join:
    """Some source and the small table, on a column of each."""

    left: Source
    right: Table
    on: tuple[str, str]
    form: str

    @property
    def names(self) -> tuple[Name, ...]:
        return (*self.left.names, *(self.right.names if self.form in ("JOIN", "LEFT JOIN") else ()))

    @property
    def key(self) -> tuple[str, ...] | None:
        return self.left.key if self.form in ("LEFT SEMI JOIN", "LEFT ANTI JOIN") else None

    @property
    def sql(self) -> str:
        left, right = (quoted(name) for name in self.on)
        return f"{source_sql(self.left)} {self.form} {self.right.sql} AS u ON {left} = u.{right}"


@dataclass(frozen=True)
class Select:
    source: Source
    outputs: tuple[Output, ...]
    where: tuple[Expr, ...] = ()
    grouping: Grouping | None = None
    having: tuple[Expr, ...] = ()
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    distinct: bool = False
    key: tuple[str, ...] | None = None  # outputs that are unique together
    total: bool = False  # `order` leaves no two rows equal

    @property
    def names(self) -> tuple[Name, ...]:
        samples = {name.name: name.samples for name in self.source.names}
        return tuple(
            Name(each.name, each.expr.family, each.expr.inexact, each.exact_sum, each.tame, samples.get(each.name, ()))
            for each in self.outputs
        )

    @property
    def sql(self) -> str:
        text = "SELECT " + ("DISTINCT " if self.distinct else "") + ", ".join(output.sql for output in self.outputs)
        text += f" FROM {source_sql(self.source)}"
        if self.where:
            text += " WHERE " + " AND ".join(f"({each.sql})" for each in self.where)
        if self.grouping is not None:
            text += self.grouping.sql
        if self.having:
            text += " HAVING " + " AND ".join(f"({each.sql})" for each in self.having)
        if self.order:
            text += " ORDER BY " + ", ".join(key.sql for key in self.order)
        if self.limit is not None:
            text += f" LIMIT {self.limit}"
        if self.offset:
            text += f" OFFSET {self.offset}"
        return text

    @property
    def check(self) -> Check:
        places = {quoted(output.name): place for place, output in enumerate(self.outputs)}
        keys = tuple(places[key.expr.sql] for key in self.order if key.expr.sql in places)
        return Check(
            tuple(place for place, output in enumerate(self.outputs) if output.expr.inexact),
            "none" if not self.order else "total" if self.total else "keys" if len(keys) == len(self.order) else "none",
            keys if len(keys) == len(self.order) else (),
            cut=self.limit is not None or self.offset > 0,
        )


Source = Table | Select | Union | Join


@dataclass(frozen=True)
class Check:
    """What of an answer is determined."""

    inexact: tuple[int, ...] = ()
    order: str = "none"  # none: a multiset; keys: by these outputs, ties free; total: row by row
    keys: tuple[int, ...] = ()
    cut: bool = False  # a LIMIT or OFFSET: which of the rows tied with the first and the last come is free


def source_sql(source: Source) -> str:
    return f"({source.sql}) AS sub" if isinstance(source, Select) else source.sql


# --- drawing ---------------------------------------------------------------------------------------------------------


SHAPES = {
    "topk": 24, "aggregate": 24, "window": 24, "distinct": 4, "topk/aggregate": 6, "topk/window": 5,
    "aggregate/window": 3, "window/aggregate": 3, "aggregate/topk": 2, "aggregate/aggregate": 2, "join": 4,
    "union": 3, "subquery": 2, "plain": 1,
}  # fmt: skip


def draw_query(rng: Random, table: Table, small: Table) -> Select:
    shape = rng.choices(list(SHAPES), list(SHAPES.values()))[0]
    if shape == "join":
        return _above_join(rng, table, small)
    if shape == "union":
        return _above_union(rng, table)
    if shape == "subquery":
        return _with_subquery(rng, table, small)
    above, _, below = shape.partition("/")
    source: Source = table
    if below:
        source = _DRAW[below](rng, table, nested=True)
    return _DRAW[above](rng, source, nested=False)


def _where(rng: Random, source: Source, share: float = 0.5) -> tuple[Expr, ...]:
    if rng.random() >= share:
        return ()
    return tuple(draw_expr(rng, source.names, "boolean", rng.choice((1, 1, 2))) for _ in range(rng.choice((1, 1, 2))))


def _columns(rng: Random, source: Source, at_least: int = 1) -> list[Output]:
    """Some columns as they are, some expressions."""
    names = list(source.names)
    chosen = rng.sample(names, min(len(names), rng.randint(at_least, 5)))
    outputs = [Output(name.name, name.expr, name.tame, name.exact_sum) for name in chosen]
    for number in range(rng.choice((0, 0, 1, 1, 2))):
        exact = [name.family for name in names if not name.inexact and name.family in ORDERED]
        if exact:
            family = rng.choice([*exact, "bigint", "string", "double"])
            outputs.append(Output(f"e{number}", draw_expr(rng, names, family, 2), tame=False, exact_sum=False))
    return outputs


def _kept_key(source: Source, outputs: list[Output]) -> tuple[str, ...] | None:
    plain = {output.name for output in outputs if output.expr.sql == quoted(output.name)}
    return source.key if source.key is not None and set(source.key) <= plain else None


def _topk(rng: Random, source: Source, nested: bool) -> Select:
    outputs = _columns(rng, source)
    for name in source.names:  # keep the key for what comes above
        if (
            (nested or rng.random() < 0.5)
            and name.name in (source.key or ())
            and name.name not in {o.name for o in outputs}
        ):
            outputs.append(Output(name.name, name.expr, name.tame, name.exact_sum))
    return _ordered(rng, Select(source, tuple(outputs), _where(rng, source), key=_kept_key(source, outputs)), nested)


def _ordered(rng: Random, select: Select, nested: bool, share: float = 1.0) -> Select:
    """With ORDER BY and LIMIT. Nested, the order is total, or there is none."""
    if rng.random() >= share or (nested and select.key is None):
        return select
    candidates = [name for name in select.names if not name.inexact and name.family in ORDERED]
    if not candidates:
        return select
    chosen = rng.sample(candidates, min(len(candidates), rng.choice((1, 1, 2, 3))))
    total = select.key is not None and (nested or rng.random() < 0.6)
    if total:
        chosen = [name for name in chosen if name.name not in (select.key or ())]
        chosen += [name for name in select.names if name.name in (select.key or ())]
    order = tuple(SortKey(name.expr, rng.choice(DIRECTIONS)) for name in chosen)
    limit = rng.choice((1, 3, 10, 10, 50, 10_000)) if rng.random() < 0.98 else 0
    offset = rng.choice((0, 0, 0, 2, 25))
    return replace(select, order=order, limit=limit, offset=offset, total=total)


def _aggregate(rng: Random, source: Source, nested: bool) -> Select:
    names = [name for name in source.names if not name.inexact and name.family in ORDERED]
    keys = (
        [Output(f"g{number}", _group_key(rng, names)) for number in range(rng.choice((0, 1, 1, 1, 2, 2, 3)))]
        if names
        else []
    )
    seen: dict[str, Output] = {}
    for key in keys:
        seen.setdefault(key.expr.sql, key)
    keys = list(seen.values())
    calls = [
        Output(
            f"a{number}",
            _call(rng, source),
            tame=False,
            exact_sum=False,
        )
        for number in range(rng.choice((1, 1, 2, 3)))
    ]
    grouping = Grouping(tuple(key.expr for key in keys))
    outputs = [*keys, *calls]
    unique: tuple[str, ...] | None = tuple(key.name for key in keys)
    if keys and rng.random() < 0.2:
        form = rng.choice(("ROLLUP", "CUBE", "GROUPING SETS"))
        sets = tuple(
            tuple(sorted(rng.sample(range(len(keys)), rng.randint(0, len(keys))))) for _ in range(rng.randint(1, 3))
        )
        if form != "GROUPING SETS" or {place for chosen in sets for place in chosen} == set(range(len(keys))):
            grouping, unique = Grouping(grouping.keys, form, sets), None
            if rng.random() < 0.5:
                outputs.append(Output("gid", Expr("grouping_id()", (), "bigint")))
    having: tuple[Expr, ...] = ()
    exact = [call for call in calls if not call.expr.inexact and call.expr.family in ("bigint", "int", "decimal")]
    if exact and rng.random() < 0.2:
        call = rng.choice(exact)
        having = (Expr("{0} " + rng.choice(("> 0", "< 100", "= 1", "IS NOT NULL")), (call.expr,)),)
    if rng.random() < 0.15 and len(outputs) > 1:
        outputs = outputs[1:] if not keys else outputs[: -len(calls)] + outputs[-len(calls) :]
    select = Select(source, tuple(outputs), _where(rng, source, 0.35), grouping, having, key=unique if keys else ())
    if not keys:
        select = replace(select, key=None)
    return _ordered(rng, select, nested, 0.3)


def _call(rng: Random, source: Source) -> Expr:
    in_order = isinstance(source, Table) and source.in_order
    return filtered(rng, source.names, draw_aggregate(rng, source.names, source.key, in_order=in_order))


def _group_key(rng: Random, names: list[Name]) -> Expr:
    if rng.random() < 0.75:
        return rng.choice(names).expr
    return draw_expr(rng, names, rng.choice(names).family, 1)


def _window(rng: Random, source: Source, nested: bool) -> Select:
    outputs = _columns(rng, source)
    outputs = [output for output in outputs if output.expr.sql == quoted(output.name) or rng.random() < 0.3]
    for name in source.names:
        if name.name in (source.key or ()) and name.name not in {output.name for output in outputs}:
            outputs.append(Output(name.name, name.expr, name.tame, name.exact_sum))
    for number in range(rng.choice((1, 1, 1, 2, 3))):
        outputs.append(Output(f"w{number}", draw_window(rng, source.names, source.key), tame=False, exact_sum=False))
    select = Select(source, tuple(outputs), _where(rng, source, 0.3), key=_kept_key(source, outputs))
    return _ordered(rng, select, nested, 0.25)


def _distinct(rng: Random, source: Source, nested: bool) -> Select:
    names = [name for name in source.names if not name.inexact]
    chosen = rng.sample(names, min(len(names), rng.choice((1, 1, 2, 3))))
    outputs = [Output(name.name, name.expr, name.tame, name.exact_sum) for name in chosen]
    return _ordered(rng, Select(source, tuple(outputs), _where(rng, source), distinct=True), nested, 0.3)


def _plain(rng: Random, source: Source, nested: bool) -> Select:
    outputs = _columns(rng, source)
    return Select(source, tuple(outputs), _where(rng, source), key=_kept_key(source, outputs))


_DRAW = {"topk": _topk, "aggregate": _aggregate, "window": _window, "distinct": _distinct, "plain": _plain}


def _above_join(rng: Random, table: Table, small: Table) -> Select:
    left: Source = table
    if rng.random() < 0.6:
        left = _DRAW[rng.choice(("topk", "aggregate", "window"))](rng, table, nested=True)
    family = small.names[0].family
    found = [name for name in left.names if name.family == family and not name.inexact]
    if not found:
        return _topk(rng, left, nested=False)
    form = rng.choice(("JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"))
    join = Join(left, small, (rng.choice(found).name, small.names[0].name), form)
    return _DRAW[rng.choice(("topk", "aggregate", "window", "plain"))](rng, join, nested=False)


def _above_union(rng: Random, table: Table) -> Select:
    """Two branches of the same columns, each a shape of its own."""
    chosen = rng.sample(list(table.names), min(len(table.names), 3))
    if "id" not in {name.name for name in chosen}:
        chosen.append(next(name for name in table.names if name.name == "id"))
    outputs = [Output(name.name, name.expr, name.tame, name.exact_sum) for name in chosen]
    branches = [
        _ordered(rng, Select(table, tuple(outputs), _where(rng, table), key=("id",)), nested=True, share=0.6)
        for _ in range(2)
    ]
    wrapped = [
        Select(branch, tuple(Output(name.name, name.expr, name.tame, name.exact_sum) for name in branch.names))
        for branch in branches
    ]
    return _DRAW[rng.choice(("topk", "aggregate", "plain"))](rng, Union(wrapped[0], wrapped[1]), nested=False)


def _with_subquery(rng: Random, table: Table, small: Table) -> Select:
    """WHERE column against a scalar or a list from another SELECT."""
    select = _DRAW[rng.choice(("topk", "aggregate", "window"))](rng, table, nested=False)
    name = rng.choice([name for name in table.names if name.family in ORDERED])
    form = rng.choice(
        (
            "{0} <= (SELECT max({0}) FROM " + table.name + ")",
            "{0} = (SELECT min({0}) FROM " + table.name + ")",
            "{0} IN (SELECT {0} FROM " + table.name + " ORDER BY {0}, `id` LIMIT 5)",
        )
    )
    if form.endswith("5)") and "id" not in {name.name for name in table.names}:
        return select
    return replace(select, where=(*select.where, Expr(form, (name.expr,))))

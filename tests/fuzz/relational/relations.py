"""Relations: a SELECT over tables and other relations, as SQL, with the columns that it gives.

What a relation gives is determined as a multiset, whatever stands above it: a LIMIT orders by all columns, a window
function that sees the order of rows too; sums are of integers and decimals, and a minimum of doubles knows one zero.
A relation can be drawn once and used in two places, so that plans share subplans.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.relational.conditions import Named, draw_condition, draw_equality, draw_value
from tests.fuzz.relational.tables import Column

FORMS = {
    "table": 8, "filter": 10, "join": 26, "aggregate": 16, "window": 12, "union": 8, "set": 6, "topk": 8, "distinct": 4,
    "subquery": 22, "rollup": 4, "rank": 4,
}  # fmt: skip
SHAPES = ("aggregate", "aggregate", "window", "topk", "distinct", "set", "rollup", "rank")
JOINS = (
    "JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "FULL JOIN", "LEFT SEMI JOIN",
    "LEFT ANTI JOIN",
)  # fmt: skip
NUMBERS = ("int", "decimal")
DIRECTIONS = ("ASC", "DESC", "ASC NULLS LAST", "DESC NULLS FIRST")


@dataclass(frozen=True)
class Relation:
    sql: str
    columns: tuple[Column, ...]
    below: tuple[Relation, ...] = field(default=(), compare=False)

    def scope(self, alias: str) -> list[Named]:
        return [Named(f"{alias}.`{column.name}`", column.family) for column in self.columns]

    def walk(self) -> Iterator[Relation]:
        """The relations below and this one, smaller ones first."""
        for each in self.below:
            yield from each.walk()
        yield self


class Drawer:
    """Draws the relations of one query."""

    def __init__(self, rng: Random, tables: dict[str, tuple[Column, ...]]) -> None:
        self._rng = rng
        self._tables = tables
        self._numbers = itertools.count()
        self._drawn: list[Relation] = []

    def draw(self, depth: int, is_root: bool = False) -> Relation:
        """A relation of at most `depth` SELECTs inside each other. The root is mostly a shape, the others anything."""
        rng = self._rng
        if self._drawn and rng.random() < 0.12:
            return rng.choice(self._drawn)
        form = "table" if depth <= 0 else rng.choices(list(FORMS), list(FORMS.values()))[0]
        if is_root and form not in SHAPES and rng.random() < 0.8:
            form = rng.choice(SHAPES)
        makers: dict[str, Callable[[int], Relation]] = {
            "table": self._table, "filter": self._filter, "join": self._join, "aggregate": self._aggregate,
            "window": self._window, "union": self._union, "set": self._set, "topk": self._topk,
            "distinct": self._distinct, "subquery": self._subquery, "rollup": self._rollup, "rank": self._rank,
        }  # fmt: skip
        relation = makers[form](depth)
        self._drawn.append(relation)
        return relation

    def _name(self) -> str:
        return f"c{next(self._numbers)}"

    def _source(self, depth: int) -> tuple[str, Relation]:
        """A relation in brackets with a name, a table by its own name."""
        relation = self.draw(depth)
        alias = f"r{next(self._numbers)}"
        return alias, relation

    def _select(
        self, chosen: list[Named], rest: str, below: tuple[Relation, ...], head: str = "SELECT", width: int = 6
    ) -> Relation:
        chosen = chosen[:width]
        columns = tuple(Column(self._name(), named.family) for named in chosen)
        shown = ", ".join(f"{named.sql} AS {column.name}" for named, column in zip(chosen, columns, strict=True))
        return Relation(f"{head} {shown} {rest}", columns, below)

    def _tied(self, source: Relation, alias: str) -> list[Named]:
        """The columns, with one zero only: two rows that tie in all of them are the same."""
        scope = source.scope(alias)
        return [Named(f"({each.sql} + 0D)", each.family) if each.family == "double" else each for each in scope]

    def _some(self, scope: list[Named], at_least: int = 1) -> list[Named]:
        return self._rng.sample(scope, self._rng.randint(min(at_least, len(scope)), min(len(scope), 5)))

    def _where(self, scope: list[Named], share: float) -> str:
        return f" WHERE {draw_condition(self._rng, scope)}" if self._rng.random() < share else ""

    def _table(self, depth: int) -> Relation:
        name = self._rng.choice(list(self._tables))
        table = Relation(f"SELECT * FROM {name}", self._tables[name])
        if self._rng.random() < 0.5:
            return table
        scope = table.scope(name)
        return self._select(self._some(scope, 2), f"FROM {name}{self._where(scope, 0.3)}", ())

    def _filter(self, depth: int) -> Relation:
        alias, source = self._source(depth - 1)
        scope = source.scope(alias)
        chosen = self._some(scope, 2)
        for _ in range(self._rng.choice((0, 0, 1))):
            family = self._rng.choice(scope).family
            chosen.append(Named(draw_value(self._rng, scope, family), family))
        return self._select(chosen, f"FROM ({source.sql}) {alias}{self._where(scope, 0.8)}", (source,))

    def _join(self, depth: int) -> Relation:
        rng = self._rng
        (left, one), (right, two) = self._source(depth - 1), self._source(depth - 1)
        lefts, rights = one.scope(left), two.scope(right)
        form = rng.choice(JOINS)
        tests = [draw_equality(rng, lefts, rights) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
        keys = [test for test in tests if test is not None]
        if rng.random() < 0.04:
            keys = []
        others = [draw_condition(rng, [*lefts, *rights]) for _ in range(rng.choice((0, 0, 0, 1, 1, 2)))]
        if not keys and not others:
            others = [draw_condition(rng, [*lefts, *rights])]
        shown = lefts if form in ("LEFT SEMI JOIN", "LEFT ANTI JOIN") else [*lefts, *rights]
        chosen = self._some(shown, 3)
        where = self._where(shown, 0.3)
        rest = f"FROM ({one.sql}) {left} {form} ({two.sql}) {right} ON {' AND '.join([*keys, *others])}{where}"
        return self._select(chosen, rest, (one, two))

    def _call(self, scope: list[Named]) -> Named:
        rng = self._rng
        named = rng.choice(scope)
        numbers = [each for each in scope if each.family in NUMBERS]
        calls: list[tuple[str, str]] = [
            ("count(*)", "int"),
            (f"count({named.sql})", "int"),
            (f"count(DISTINCT {named.sql})", "int"),
        ]
        if named.family not in ("binary", "boolean"):
            value = f"{named.sql} + 0D" if named.family == "double" else named.sql
            calls += [(f"{rng.choice(('min', 'max'))}({value})", named.family)] * 3
        if numbers:
            number = rng.choice(numbers)
            calls += [
                (f"sum({number.sql})", number.family),
                (f"sum(DISTINCT {number.sql})", number.family),
                (f"try_sum({number.sql})", number.family),
                (f"avg({number.sql})", "double" if number.family == "int" else "decimal"),
            ]
        sql, family = rng.choice(calls)
        if rng.random() < 0.2:
            sql += f" FILTER (WHERE {draw_condition(rng, scope, 0)})"
        return Named(sql, family)

    def _aggregate(self, depth: int) -> Relation:
        rng = self._rng
        alias, source = self._source(depth - 1)
        scope = source.scope(alias)
        keys = rng.sample(scope, min(len(scope), rng.choice((0, 1, 1, 1, 2, 3))))
        calls = [self._call(scope) for _ in range(rng.choice((1, 1, 2, 3)))]
        chosen = [*keys, *calls] if rng.random() < 0.85 or not keys else keys
        rest = f"FROM ({source.sql}) {alias}{self._where(scope, 0.25)}"
        rest += f" GROUP BY {', '.join(key.sql for key in keys)}" if keys else ""
        if rng.random() < 0.2:
            rest += f" HAVING {self._call(scope).sql} {rng.choice(('> 1', 'IS NOT NULL', '= 1', 'IS NULL'))}".replace(
                "max(", "count("
            ).replace("min(", "count(")
        return self._select(chosen, rest, (source,))

    def _rollup(self, depth: int) -> Relation:
        rng = self._rng
        alias, source = self._source(depth - 1)
        scope = source.scope(alias)
        keys = rng.sample(scope, min(len(scope), rng.choice((1, 2, 2))))
        names = ", ".join(key.sql for key in keys)
        form = rng.choice((f"ROLLUP({names})", f"CUBE({names})", f"GROUPING SETS (({names}), (), ({keys[0].sql}))"))
        chosen = [*keys, self._call(scope), Named(rng.choice(("grouping_id()", f"grouping({keys[0].sql})")), "int")]
        return self._select(chosen, f"FROM ({source.sql}) {alias} GROUP BY {form}", (source,))

    def _order(self, scope: list[Named]) -> str:
        """By all columns: rows that tie are the same row."""
        return ", ".join(f"{named.sql} {self._rng.choice(DIRECTIONS)}" for named in self._rng.sample(scope, len(scope)))

    def _window(self, depth: int) -> Relation:
        rng = self._rng
        alias, source = self._source(depth - 1)
        scope = self._tied(source, alias)
        chosen = self._some(scope, 2)
        for _ in range(rng.choice((1, 1, 2))):
            by = rng.sample(scope, min(len(scope), rng.choice((0, 1, 1, 2))))
            partition = f"PARTITION BY {', '.join(named.sql for named in by)} " if by else ""
            named = rng.choice(scope)
            numbers = [each for each in scope if each.family in NUMBERS] or [Named("1", "int")]
            number = rng.choice(numbers)
            rows = f"{partition}ORDER BY {self._order(scope)}"
            ties = f"{partition}ORDER BY {rng.choice(scope).sql} {rng.choice(DIRECTIONS)}"
            back = rng.choice(("1 PRECEDING", "UNBOUNDED PRECEDING", "3 PRECEDING"))
            sql, family = rng.choice(
                (
                    (f"row_number() OVER ({rows})", "int"),
                    (f"{rng.choice(('rank', 'dense_rank'))}() OVER ({ties})", "int"),
                    (f"{rng.choice(('lag', 'lead'))}({named.sql}) OVER ({rows})", named.family),
                    (f"sum({number.sql}) OVER ({ties})", number.family),
                    (f"sum({number.sql}) OVER ({partition.rstrip()})", number.family),
                    (f"count({named.sql}) OVER ({rows} ROWS BETWEEN {back} AND CURRENT ROW)", "int"),
                    (f"first_value({named.sql}) IGNORE NULLS OVER ({rows})", named.family),
                )
            )
            chosen.append(Named(sql, family))
        return self._select(chosen, f"FROM ({source.sql}) {alias}{self._where(scope, 0.2)}", (source,), width=8)

    def _rank(self, depth: int) -> Relation:
        """The first few rows of each group, which Spark drops early."""
        rng = self._rng
        alias, source = self._source(depth - 1)
        scope = self._tied(source, alias)
        by = rng.sample(scope, min(len(scope), rng.choice((0, 1, 1))))
        partition = f"PARTITION BY {', '.join(named.sql for named in by)} " if by else ""
        call, order = rng.choice(
            (("row_number", self._order(scope)), ("rank", rng.choice(scope).sql), ("dense_rank", rng.choice(scope).sql))
        )
        inner = f"SELECT *, {call}() OVER ({partition}ORDER BY {order}) AS rn FROM ({source.sql}) {alias}"
        outer = f"q{next(self._numbers)}"
        chosen = [*self._some(self._tied(source, outer), 2), Named(f"{outer}.rn", "int")]
        return self._select(chosen, f"FROM ({inner}) {outer} WHERE {outer}.rn <= {rng.choice((1, 2, 5))}", (source,))

    def _pair(self, depth: int) -> tuple[Relation, Relation]:
        """Two relations of the same column types."""
        (left, one), (right, two) = self._source(depth - 1), self._source(depth - 1)
        rights = two.scope(right)
        chosen = self._some(one.scope(left), 2)
        partners = [Named(draw_value(self._rng, rights, named.family, 0), named.family) for named in chosen]
        return (
            self._select(chosen, f"FROM ({one.sql}) {left}", (one,)),
            self._select(partners, f"FROM ({two.sql}) {right}", (two,)),
        )

    def _union(self, depth: int) -> Relation:
        one, two = self._pair(depth)
        branches = [one, two] if self._rng.random() < 0.8 else [one, two, one]
        word = self._rng.choice((" UNION ALL ", " UNION ALL ", " UNION "))
        return self._all(word.join(f"({each.sql})" for each in branches), one, (one, two))

    def _set(self, depth: int) -> Relation:
        one, two = self._pair(depth)
        word = self._rng.choice(("INTERSECT", "EXCEPT", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
        return self._all(f"({one.sql}) {word} ({two.sql})", one, (one, two))

    def _all(self, text: str, like: Relation, below: tuple[Relation, ...]) -> Relation:
        alias = f"s{next(self._numbers)}"
        return self._select(like.scope(alias), f"FROM ({text}) {alias}", below)

    def _topk(self, depth: int) -> Relation:
        alias, source = self._source(depth - 1)
        scope = self._tied(source, alias)
        chosen = self._some(scope, 2)
        rest = f"FROM ({source.sql}) {alias}{self._where(scope, 0.3)} ORDER BY {self._order(chosen)}"
        rest += f" LIMIT {self._rng.choice((0, 1, 3, 10, 50))}"
        return self._select(chosen, rest + self._rng.choice(("", "", "", " OFFSET 2")), (source,))

    def _distinct(self, depth: int) -> Relation:
        alias, source = self._source(depth - 1)
        scope = source.scope(alias)
        rest = f"FROM ({source.sql}) {alias}{self._where(scope, 0.3)}"
        return self._select(self._some(scope), rest, (source,), head="SELECT DISTINCT")

    def _subquery(self, depth: int) -> Relation:
        """WHERE, or SELECT, by subqueries: EXISTS, IN, and scalars, correlated and not."""
        rng = self._rng
        alias, source = self._source(depth - 1)
        scope = source.scope(alias)
        chosen, below = self._some(scope, 2), [source]
        tests = []
        for _ in range(rng.choice((1, 1, 1, 2))):
            inner, other = self._source(min(depth - 1, 1))
            below.append(other)
            test, in_select = self._subquery_test(scope, inner, other)
            tests.append(test)
            if in_select is not None and rng.random() < 0.3:
                chosen.append(in_select)
        joined = rng.choice((" AND ", " AND ", " OR ")).join(tests)
        if rng.random() < 0.25:
            joined = f"({joined}) {rng.choice(('AND', 'OR'))} {draw_condition(rng, scope, 0)}"
        return self._select(chosen, f"FROM ({source.sql}) {alias} WHERE {joined}", tuple(below))

    def _subquery_test(self, scope: list[Named], inner: str, other: Relation) -> tuple[str, Named | None]:
        rng = self._rng
        rights = other.scope(inner)
        key = draw_equality(rng, scope, rights) or "1 = 1"
        also = f" AND {draw_condition(rng, rights, 0)}" if rng.random() < 0.4 else ""
        also += f" AND {draw_condition(rng, [*scope, *rights], 0)}" if rng.random() < 0.15 else ""
        rows = f"FROM ({other.sql}) {inner}"
        common = [named for named in scope if any(each.family == named.family for each in rights)]
        mine = rng.choice(common or [Named("1", "int")])
        theirs = draw_value(rng, rights, mine.family, 0)
        negation = rng.choice(("", "", "NOT "))
        simple = f" WHERE {draw_condition(rng, rights, 0)}" if rng.random() < 0.4 else ""
        value = f"{theirs} + 0D" if mine.family == "double" else theirs
        best = (
            f"{rng.choice(('max', 'min'))}({value})" if mine.family not in ("boolean", "binary") else "any_value(X'61')"
        )
        sign = rng.choice(("=", "<", ">=", "<>", "<=>"))
        match rng.randrange(7):
            case 0 | 1:
                return f"{negation}EXISTS (SELECT 1 {rows} WHERE {key}{also})", None
            case 2:
                return f"{mine.sql} {negation}IN (SELECT {theirs} {rows}{simple})", None
            case 3:
                return f"{mine.sql} {negation}IN (SELECT {theirs} {rows} WHERE {key}{also})", None
            case 4 if mine.family not in ("boolean", "binary"):
                scalar = f"(SELECT {best} {rows}{simple})"
                return f"{mine.sql} {sign} {scalar}", Named(scalar, mine.family)
            case 5 if mine.family not in ("boolean", "binary") and "1 = 1" not in key and "<=>" not in key:
                scalar = f"(SELECT {best} {rows} WHERE {key})"
                return f"{mine.sql} {sign} {scalar}", Named(scalar, mine.family)
            case _:
                scalar = f"(SELECT count(*) {rows}{simple})"
                return f"{rng.choice(('1', '0', '5'))} {sign} {scalar}", Named(scalar, "int")

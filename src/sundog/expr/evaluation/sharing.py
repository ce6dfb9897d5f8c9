"""Subexpressions that Spark evaluates early because they occur twice.

Generated code computes a subexpression that occurs in several places once, before all of them: `x <> 0 AND 1 / x > 1`
in one column and `x <> 0 AND 1 / x > 2` in another divide by every x, which neither does alone. So
Spark's projections, aggregates and filters may raise for a row for which no single expression would. Which occurrences
count is Spark's rule (`EquivalentExpressions`): both sides of AND and OR, and all operands; of CASE and COALESCE only
what is always evaluated, and what all branches have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

from sundog.expr.nodes import And, Arith, ArithOp, Case, Coalesce, Compare, Expr, Literal, Or
from sundog.expr.raising import node_can_raise

Root = tuple[Expr, bool]  # an expression, and whether only some rows evaluate it
Places = dict[int, list[bool]]  # number of an expression -> for each of its places, whether only some rows come there


def evaluated_early(roots: Iterable[Root]) -> bool:
    """Whether a shared subexpression that can raise is evaluated for rows for which none of its places needs it."""
    numbered, places = _ExprNumbers(), Places()
    for expr, guarded in roots:
        _count(expr, guarded, numbered, places)
    return any(len(guards) > 1 and all(guards) for guards in places.values())


def shared_in_tests(conjuncts: Sequence[Expr]) -> bool:
    """The same for a WHERE, which computes a shared subexpression just before the first conjunct that has it."""
    numbered, everywhere = _ExprNumbers(), Places()
    first: dict[int, bool] = {}
    for conjunct in conjuncts:
        places = Places()
        _count(conjunct, False, numbered, places)
        for number, guards in places.items():
            first.setdefault(number, all(guards))
            everywhere.setdefault(number, []).extend(guards)
    return any(len(guards) > 1 and first[number] for number, guards in everywhere.items())


class _ExprNumbers:
    """Numbers of expressions, equal for equal ones, and which can raise. Without recursion: sums may be deep."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._by_identity: dict[int, int] = {}
        self._raising: dict[int, bool] = {}
        self._kept: list[Expr] = []  # keeps expressions alive, so that no `id` is used again

    def number(self, expr: Expr) -> int:
        stack = [expr]
        while stack:
            node = stack[-1]
            missing = [child for child in node.children if id(child) not in self._by_identity]
            if missing:
                stack += missing
                continue
            stack.pop()
            if id(node) not in self._by_identity:
                self._enter(node)
        return self._by_identity[id(expr)]

    def can_raise(self, expr: Expr) -> bool:
        return self._raising[self.number(expr)]

    def _enter(self, node: Expr) -> None:
        children = tuple(self._by_identity[id(child)] for child in node.children)
        own = tuple(str(value) for field in fields(node) if not _holds_nodes(value := getattr(node, field.name)))  # type: ignore[arg-type]
        number = self._numbers.setdefault((type(node), own, children), len(self._numbers))
        self._by_identity[id(node)] = number
        self._raising.setdefault(number, node_can_raise(node) or any(self._raising[child] for child in children))
        self._kept.append(node)


def _holds_nodes(value: Any) -> bool:
    return isinstance(value, Expr) or (isinstance(value, tuple) and any(map(_holds_nodes, value)))


def _count(root: Expr, guarded: bool, numbered: _ExprNumbers, places: Places) -> None:
    stack = [(root, guarded)]
    while stack:
        expr, guarded = stack.pop()
        if not numbered.can_raise(expr):
            continue
        number = numbered.number(expr)
        known = number in places
        places.setdefault(number, []).append(guarded)
        if not known:  # a known expression is shared as a whole, and its parts occur once
            stack += ((part, guarded or lazy) for part, lazy in _operands(expr, numbered))


def _operands(expr: Expr, numbered: _ExprNumbers) -> Iterator[Root]:
    """The operands that count, and whether each is evaluated for some rows only."""
    match expr:
        case Arith(
            op=ArithOp.DIV | ArithOp.INT_DIV | ArithOp.MOD, left=left, right=right
        ):  # the divisor is evaluated first
            yield right, False
            yield left, not isinstance(right, Literal)
        case And(left=left, right=right) | Or(left=left, right=right):
            yield left, False
            yield right, True
        case Compare(left=left, right=right) | Arith(left=left, right=right):
            yield left, False
            yield right, not isinstance(left, Literal)
        case Case(branches=branches, otherwise=otherwise):
            conditions, values = [when for when, _ in branches], [then for _, then in branches]
            yield conditions[0], False
            yield from ((part, True) for part in _in_all(conditions, numbered))
            if otherwise is not None:
                yield from ((part, True) for part in _in_all([*values, otherwise], numbered))
        case Coalesce(args=args):
            yield args[0], False
            yield from ((part, True) for part in _in_all(args, numbered))
        case _:
            yield from ((part, False) for part in expr.children)


def _in_all(exprs: Sequence[Expr], numbered: _ExprNumbers) -> list[Expr]:
    """The largest expressions that can raise and are contained in all of `exprs`."""
    if len(exprs) < 2:
        return []
    others = [{numbered.number(part) for part in _parts(expr)} for expr in exprs[1:]]
    found: dict[int, Expr] = {}
    stack = [exprs[0]]
    while stack:
        part = stack.pop()
        number = numbered.number(part)
        if numbered.can_raise(part) and all(number in other for other in others):
            found.setdefault(number, part)
        else:
            stack += part.children
    return list(found.values())


def _parts(expr: Expr) -> Iterator[Expr]:
    stack = [expr]
    while stack:
        part = stack.pop()
        yield part
        stack += part.children

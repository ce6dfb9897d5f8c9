"""Walking and rewriting frozen dataclasses: children are found in fields, tuples and tuples of tuples."""

from __future__ import annotations

import pyarrow as pa

from sundog.expr.nodes import And, Case, Column, Compare, CompareOp, Expr, Literal, columns_of, conjunction, conjuncts
from sundog.tree import map_children, transform_down, transform_up, walk

A, B, C = (Column(name, pa.int64()) for name in "abc")
ONE = Literal(1, pa.int64())
CASE = Case(((Compare(CompareOp.LT, A, ONE), B), (Compare(CompareOp.EQ, B, ONE), C)), ONE, pa.int64())


def test_walk_reaches_children_in_nested_tuples() -> None:
    assert columns_of(CASE) == {"a", "b", "c"}
    assert sum(isinstance(node, Literal) for node in walk(CASE)) == 3


def test_a_rewrite_that_changes_nothing_gives_the_same_object() -> None:
    assert transform_up(CASE, lambda node: node) is CASE
    assert map_children(CASE, lambda node: node) is CASE


def test_transform_up_rewrites_everywhere() -> None:
    def rename(node: Expr) -> Expr:
        return Column(node.name.upper(), node.dtype) if isinstance(node, Column) else node

    assert columns_of(transform_up(CASE, rename)) == {"A", "B", "C"}
    assert columns_of(transform_down(CASE, rename)) == {"A", "B", "C"}


def test_conjuncts_and_conjunction_are_inverse() -> None:
    parts: list[Expr] = [Compare(CompareOp.LT, A, ONE), Compare(CompareOp.GT, B, ONE), Compare(CompareOp.EQ, C, ONE)]
    assert conjuncts(And(parts[0], And(parts[1], parts[2]))) == parts
    assert conjuncts(conjunction(parts)) == parts
    assert conjuncts(None) == []
    assert conjunction([]) is None

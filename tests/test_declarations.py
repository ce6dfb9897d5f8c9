"""Declared reasons and metrics are used: every code is raised somewhere, and every metric is counted."""

from __future__ import annotations

import ast
from pathlib import Path

import sundog
from sundog.metrics import METRICS
from sundog.support import Code

SOURCE = Path(sundog.__file__).parent
TREES = {path: ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}


def test_every_reason_code_is_given_somewhere() -> None:
    given = {
        node.attr
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Code"
    }
    assert {code.name for code in Code} - given == set()


def test_every_metric_is_counted_somewhere() -> None:
    texts = {
        node.value
        for path, tree in TREES.items()
        if path.name != "metrics.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(METRICS) - texts == set()

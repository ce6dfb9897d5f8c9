"""Sort keys, and how rows compare under them.

Spark's order of one key: NULLs first or last as the key says, whatever its direction; among values NaN is the
greatest, -0.0 ties with 0.0, strings and binaries compare by unsigned bytes, false before true.
"""

from __future__ import annotations

from dataclasses import dataclass

from sundog.expr.nodes import Expr


@dataclass(frozen=True)
class SortKey:
    expr: Expr
    descending: bool = False
    nulls_first: bool = True

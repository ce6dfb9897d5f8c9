"""Catalyst's evaluation mode of an aggregate: what an overflow does."""

from __future__ import annotations

from sundog.front.catalyst_json import Node
from sundog.functions.declaration import Function
from sundog.functions.table import FUNCTIONS
from sundog.support import Code, Declined

_MODES = ("ANSI", "LEGACY", "TRY")


def evaluation_mode(node: Node) -> str:
    """ANSI, LEGACY or TRY; functions without such a field cannot overflow."""
    modes = [node[key] for key in ("evalContext", "evalMode") if key in node.fields]
    mode = modes[0] if modes else "ANSI"
    if mode not in _MODES:
        raise Declined.because(Code.PLAN_VERSION, f"{node.name} has the unknown evaluation mode {mode!r}", node.name)
    return str(mode)


def in_mode(function: Function, mode: str) -> Function:
    """The function that is meant: under TRY a sum is a try_sum."""
    if mode != "TRY":
        return function
    if function.tried_as is None:
        raise Declined.because(Code.PLAN_VERSION, f"{function.name} has no form that gives NULL", function.catalyst)
    return FUNCTIONS[function.tried_as]

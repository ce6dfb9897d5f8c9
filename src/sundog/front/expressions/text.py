"""Functions of strings and bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from sundog.expr.evaluation.strings import valid_like_pattern
from sundog.expr.nodes import (
    Expr,
    Like,
    RegexExtract,
    RegexMatch,
    RegexReplace,
    StringCall,
    StringFunction,
    StringMatch,
    StringTest,
)
from sundog.expr.regex.functions import check_group, checked_pattern, checked_replacement
from sundog.expr.regex.pattern import Unsupported
from sundog.front.catalyst_json import Node
from sundog.front.expressions.reading import (
    Entry,
    Reader,
    Scope,
    all_read,
    children_of,
    constant,
    refuse_type,
    require,
    same_type,
)
from sundog.support import Code, Declined
from sundog.types import is_text


def _like(node: Node, scope: Scope) -> Expr:
    child, pattern = children_of(node, scope, 2)
    escape = node["escapeChar"]
    require(isinstance(escape, str) and len(escape) == 1, Code.PLAN_VERSION, f"LIKE has escape {escape!r}", node)
    text = constant(pattern, node, "a pattern")
    require(valid_like_pattern(text, escape), Code.UNKNOWN_EXPRESSION, f"{text!r} is not a valid pattern", node)
    return Like(child, text, escape)


def _string_test(test: StringTest) -> Reader:
    def read(node: Node, scope: Scope) -> Expr:
        child, needle = children_of(node, scope, 2)
        same_type(node, (child, needle))
        return StringMatch(test, child, constant(needle, node, "a text"))

    return read


def _length(node: Node, scope: Scope) -> Expr:
    (child,) = children_of(node, scope, 1)
    if not is_text(child.dtype):
        raise refuse_type(node, child.dtype)
    return StringCall(StringFunction.LENGTH, (child,), pa.int32())


def _case_mapping(functions: Mapping[int | None, StringFunction]) -> Reader:
    """`functions` by ICU's Unicode version in Spark. Java's rules, the only ones of Spark 3.5, depend on the Java
    version and the locale of each executor, so their results are not known here."""

    def read(node: Node, scope: Scope) -> Expr:
        (child,) = children_of(node, scope, 1)
        function = functions.get(scope.case_mapping)
        if function is None:
            problem = f"{node.name} with spark.sql.icu.caseMappings.enabled=false"
            raise Declined.because(Code.UNKNOWN_EXPRESSION, problem, node.name)
        if not pa.types.is_string(child.dtype):
            raise refuse_type(node, child.dtype)
        return StringCall(function, (child,), child.dtype)

    return read


def _concat(node: Node, scope: Scope) -> Expr:
    args = all_read(node.children, scope)
    require(bool(args), Code.UNKNOWN_EXPRESSION, "concat of nothing", node)
    dtype = same_type(node, args)
    if not is_text(dtype):
        raise refuse_type(node, dtype)
    return StringCall(StringFunction.CONCAT, tuple(args), dtype)


def _substring(node: Node, scope: Scope) -> Expr:
    text, position, count = children_of(node, scope, 3)
    if not is_text(text.dtype):
        raise refuse_type(node, text.dtype)
    for number, what in ((position, "a position"), (count, "a length")):
        constant(number, node, what)
    return StringCall(StringFunction.SUBSTRING, (text, position, count), text.dtype)


def _regex(node: Node, scope: Scope, count: int) -> list[Expr]:
    """The arguments of a function of regular expressions: a string, a constant pattern, and others."""
    args = children_of(node, scope, count)
    if not all(pa.types.is_string(arg.dtype) for arg in args[:2]):
        raise refuse_type(node, *(arg.dtype for arg in args[:2]))
    _check_regex(node, lambda: checked_pattern(constant(args[1], node, "a pattern")))
    return args


def _check_regex(node: Node, check: Callable[[], object]) -> None:
    try:
        check()
    except Unsupported as problem:
        sentence = f"{node.name} with {problem}: not known to mean the same as in Java"
        raise Declined.because(Code.UNKNOWN_EXPRESSION, sentence, node.name) from None


def _regex_match(node: Node, scope: Scope) -> Expr:
    child, pattern = _regex(node, scope, 2)
    return RegexMatch(child, constant(pattern, node, "a pattern"))


def _regex_replace(node: Node, scope: Scope) -> Expr:
    child, pattern, replacement, position = _regex(node, scope, 4)
    first = constant(position, node, "a position")
    require(first == 1, Code.UNKNOWN_EXPRESSION, f"{node.name} from position {first} on", node)
    texts = constant(pattern, node, "a pattern"), constant(replacement, node, "a replacement")
    _check_regex(node, lambda: checked_replacement(*texts))
    return RegexReplace(child, *texts, child.dtype)


def _regex_extract(node: Node, scope: Scope) -> Expr:
    child, pattern, group = _regex(node, scope, 3)
    text, number = constant(pattern, node, "a pattern"), constant(group, node, "a group")
    _check_regex(node, lambda: check_group(number, checked_pattern(text)))
    return RegexExtract(child, text, number, child.dtype)


ENTRIES = {
    "Like": Entry(_like, "`s LIKE 'constant' [ESCAPE c]`"),
    "StartsWith": Entry(_string_test(StringTest.STARTS_WITH), "`startswith(s, constant)`, `s LIKE 'x%'`"),
    "EndsWith": Entry(_string_test(StringTest.ENDS_WITH), "`endswith(s, constant)`, `s LIKE '%x'`"),
    "Contains": Entry(_string_test(StringTest.CONTAINS), "`contains(s, constant)`, `s LIKE '%x%'`"),
    "RLike": Entry(_regex_match, "`s RLIKE 'constant'`, `regexp_like`, for patterns that mean the same in RE2"),
    "RegExpReplace": Entry(_regex_replace, "`regexp_replace(s, constant, constant)`, for the same patterns"),
    "RegExpExtract": Entry(_regex_extract, "`regexp_extract(s, constant, constant)`, for the same patterns"),
    "Length": Entry(_length, "`length(s)` of a string or binary"),
    "Upper": Entry(_case_mapping({16: StringFunction.UPPER_OF_UNICODE_16, 17: StringFunction.UPPER}), "`upper(s)`"),
    "Lower": Entry(_case_mapping({16: StringFunction.LOWER_OF_UNICODE_16, 17: StringFunction.LOWER}), "`lower(s)`"),
    "Concat": Entry(_concat, "`concat(a, b, ...)` of strings or binaries"),
    "Substring": Entry(_substring, "`substring(s, constant, constant)`, `left`, `right`"),
}

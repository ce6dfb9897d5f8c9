"""Commands that embed a query: INSERT … SELECT and CREATE TABLE … AS SELECT of `spark.sql`, and those of writers.

A statement is parsed to see whether it is one. `front/write_command.py` analyses and checks a command, and puts another
query into it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sundog.actions.failures import log
from sundog.actions.lifecycle import Action, run_action
from sundog.front.write_command import WriteCommand

_MAY_EMBED_QUERY = re.compile(r"\b(insert|create|replace)\b", re.IGNORECASE)


def may_embed_query(text: str) -> bool:
    """Whether a statement may be such a command. A cheap test, which may also accept others."""
    return _MAY_EMBED_QUERY.search(text) is not None


T = TypeVar("T")
U = TypeVar("U")
_PARSED = {"InsertIntoStatement", "CreateTableAsSelect", "ReplaceTableAsSelect", "InsertIntoDir"}


def run_sql(session: SparkSession, text: str, plain: Callable[[], DataFrame]) -> DataFrame:
    """Run a statement; if it is a command that embeds a query, as an action."""
    parsed = _parse_command(session, text)
    if parsed is None:
        return plain()
    return run_command("sql", session, lambda: parsed, plain)


def run_command(
    name: str, session: SparkSession, make_plan: Callable[[], Any], plain: Callable[[], T]
) -> T | DataFrame:
    """Run the command that `make_plan` makes, a plan of the JVM's, with an accelerated query; or `plain`."""
    return run_action(command_action(name, session, make_plan, plain, lambda result: result))


def command_action(
    name: str,
    session: SparkSession,
    make_plan: Callable[[], Any],
    plain: Callable[[], T],
    done: Callable[[DataFrame], U],
) -> Action[T | U]:
    """The action of a command. `done` turns Spark's result into its own."""
    command: list[WriteCommand] = []

    def query() -> DataFrame:
        command.append(WriteCommand.analyzed(session, make_plan()))
        return command[0].query

    def write(spliced: DataFrame) -> T | U:
        return done(command[0].run_with(spliced))

    return Action(name, session, query=query, plain=plain, on_frame=write, repeatable=False, shadowed="by query")


def _parse_command(session: SparkSession, text: str) -> Any | None:
    """The parsed statement if it is a command with a query in it. Syntax errors are left to Spark."""
    try:
        parsed = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except PySparkException as error:
        log.info("sundog leaves a statement to Spark, which cannot be parsed", exc_info=error)
        return None
    inner = parsed
    while inner.getClass().getSimpleName() in ("UnresolvedWith", "Union"):  # WITH … INSERT; FROM … INSERT … INSERT …
        inner = inner.children().apply(0)
    return parsed if inner.getClass().getSimpleName() in _PARSED else None

"""`spark.sql` of a command that embeds a query: INSERT … SELECT, CREATE TABLE … AS SELECT.

The statement is parsed to see whether it is one; analysing it, checking it and putting another query into it is the
business of `front/write_command.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sundog.actions.failures import log
from sundog.actions.lifecycle import Action, run_action
from sundog.front.write_command import WriteCommand

_MAY_EMBED_QUERY = re.compile(r"\b(insert|create|replace)\b", re.IGNORECASE)


def may_embed_query(text: str) -> bool:
    """Whether a statement may be such a command. A cheap look, which may say yes to others."""
    return _MAY_EMBED_QUERY.search(text) is not None


_PARSED = {"InsertIntoStatement", "CreateTableAsSelect", "ReplaceTableAsSelect", "InsertIntoDir"}


def run_sql(session: SparkSession, text: str, plain: Callable[[], DataFrame]) -> DataFrame:
    """Run a statement; if it is a command that embeds a query, as an action."""
    parsed = _parse_command(session, text)
    if parsed is None:
        return plain()
    command: list[WriteCommand] = []

    def query() -> DataFrame:
        command.append(WriteCommand.analyzed(session, parsed))
        return command[0].query

    return run_action(
        Action(
            "sql",
            session,
            query=query,
            plain=plain,
            on_frame=lambda spliced: command[0].run_with(spliced),
            repeatable=False,
        )
    )


def _parse_command(session: SparkSession, text: str) -> Any | None:
    """The parsed statement if it is a command with a query in it. What cannot be parsed is Spark's to complain of."""
    try:
        parsed = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except PySparkException as error:
        log.info("sundog leaves a statement to Spark, which cannot be parsed", exc_info=error)
        return None
    inner = parsed
    while inner.getClass().getSimpleName() in ("UnresolvedWith", "Union"):  # WITH … INSERT; FROM … INSERT … INSERT …
        inner = inner.children().apply(0)
    return parsed if inner.getClass().getSimpleName() in _PARSED else None

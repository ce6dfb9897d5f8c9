"""Methods of a Connect DataFrame that sundog replaces as a whole, and the public functions for such DataFrames.

`isEmpty` asks the server for rows without columns, `foreachPartition` for the rows of a function over partitions: such
requests do not show their purpose. `accelerate` lends the server a DataFrame with sundog's parts in it, for as long as
the client's DataFrame of it exists, like `checkpoint`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame

from sundog.actions import explicit
from sundog.actions.connect.queries import run_near, to_connect_error
from sundog.actions.connect.requests import check_relation, holds_function
from sundog.actions.connect.session import NearSession, as_connect, near_session
from sundog.actions.lifecycle import Action
from sundog.report.explain import explain_text
from sundog.run import start_run
from sundog.support import Declined

Original = Callable[..., Any]
T = TypeVar("T")


def is_empty(original: Original, near: NearSession, frame: Any) -> bool:
    """Like the classic `isEmpty`. A user's function runs in the server, and only once."""
    relation = _relation(frame)
    if holds_function(relation):
        return bool(original(frame))

    def query() -> DataFrame:
        return _planned(near, relation).limit(1)

    def plain() -> bool:
        with as_connect():
            return bool(original(frame))

    return _run(
        near,
        frame,
        Action(
            "isEmpty",
            near.classic,
            query,
            plain,
            on_frame=lambda spliced: bool(spliced._jdf.isEmpty()),
            on_table=lambda table: bool(table.num_rows == 0),
        ),
    )


def foreach_partition(original: Original, near: NearSession, frame: Any, function: Any) -> None:
    """Like the classic `foreachPartition`: over the partitions of sundog's rows, once."""
    relation = _relation(frame)

    def plain() -> None:
        with as_connect():
            original(frame, function)

    def on_frame(spliced: DataFrame) -> None:
        lent = _as_connect_frame(near, frame, spliced)
        with as_connect():
            original(lent, function)

    _run(
        near,
        frame,
        Action(
            "foreachPartition",
            near.classic,
            lambda: _planned(near, relation),
            plain,
            on_frame,
            repeatable=False,
            shadowed="by query",
        ),
    )


def accelerate_connect(frame: Any) -> Any:
    """Like `sundog.accelerate`, for a Connect DataFrame."""
    near = near_session(frame.sparkSession)
    relation = _relation(frame)
    return _run(
        near,
        frame,
        Action(
            "accelerate",
            near.classic,
            lambda: _planned(near, relation),
            plain=lambda: frame,
            on_frame=lambda spliced: _as_connect_frame(near, frame, spliced),
            lazy=True,
            shadowed="not",
        ),
    )


def explain_connect(frame: Any, analyze: bool = False, costs: bool = False) -> str:
    """Like `sundog.explain`, for a Connect DataFrame."""
    near = near_session(frame.sparkSession)
    try:
        with near.as_classic():
            return explicit.explain(_planned(near, _relation(frame)), analyze, costs)
    except Declined as declined:
        run = start_run("explain")
        run.decline(*declined.reasons)
        return explain_text([], run.reasons)
    except PySparkException as error:
        raise to_connect_error(error) from error


def _relation(frame: Any) -> Any:
    return frame._plan.plan(frame.sparkSession.client)


def _planned(near: NearSession, relation: Any) -> DataFrame:
    check_relation(relation)
    return near.frame(relation)


def _run(near: NearSession, frame: Any, action: Action[T]) -> T:
    return run_near(near, frame.sparkSession.client, str(uuid.uuid4()), action)


def _as_connect_frame(near: NearSession, frame: Any, spliced: DataFrame) -> Any:
    """A classic DataFrame as one of `frame`'s client. The server drops it when the client's DataFrame is gone."""
    from pyspark.sql.connect.plan import CachedRemoteRelation

    name = str(uuid.uuid4())
    near.lend(spliced, name)
    return type(frame)(CachedRemoteRelation(name, frame.sparkSession), frame.sparkSession)

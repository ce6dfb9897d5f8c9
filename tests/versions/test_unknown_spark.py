"""On a real session whose Spark sundog does not know: one message, nothing replaced or set, Spark's own answers."""

from __future__ import annotations

import inspect
import sys
import warnings
from typing import Any

import pytest

import sundog

pytestmark = pytest.mark.spark


@pytest.fixture
def unknown(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The session, in a process whose pyspark says that it is of a version to come."""
    monkeypatch.setattr("pyspark.__version__", "99.0.1")
    return spark


def members_of_pyspark() -> dict[str, int]:
    """Every attribute of every class and module of `pyspark.sql`, by its identity."""
    found: dict[str, int] = {}
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("pyspark.sql"):
            continue
        for name, value in list(vars(module).items()):
            found[f"{module_name}.{name}"] = id(value)
            if inspect.isclass(value) and value.__module__.startswith("pyspark."):
                found |= {f"{module_name}.{name}.{each}": id(member) for each, member in vars(value).items()}
    return found


def settings(session: Any) -> dict[str, str]:
    return {row.key: row.value for row in session.sql("SET").collect()}


def test_enable_says_so_once_and_leaves_spark_as_it_is(unknown: Any) -> None:
    query = "SELECT id % 7 k, count(*) c, max(id) m FROM range(1000) GROUP BY id % 7 ORDER BY m DESC LIMIT 3"
    rows, confs, jobs = unknown.sql(query).collect(), settings(unknown), job_count(unknown)
    run, members = last_run(), members_of_pyspark()
    with pytest.warns(UserWarning, match=r"^pyspark 99\.0\.1 is not one that sundog knows: 3\.5, ") as caught:
        sundog.enable(unknown)
    (message,) = [str(each.message) for each in caught]
    assert "Nothing was changed: queries run on plain Spark." in message
    changed = {name for name, identity in members_of_pyspark().items() if members.get(name, identity) != identity}
    assert changed == set()
    assert job_count(unknown) == jobs, "to ask executors takes a job"
    assert settings(unknown) == confs
    assert unknown.sql(query).collect() == rows
    assert last_run() is run
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sundog.disable(unknown)


def job_count(session: Any) -> int:
    return len(session.sparkContext.statusTracker().getJobIdsForGroup(None))


def last_run() -> sundog.Run | None:
    try:
        return sundog.last_run()
    except sundog.SundogError:  # none yet
        return None

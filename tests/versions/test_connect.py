"""Spark Connect with its server in this process's JVM: what sundog takes, and that Connect's answers stay what they
are.

A classic session and a Connect one cannot live in one process, so `connect_job.py` runs all of it once, in its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sundog
from sundog.actions.connect.session import classic_session
from sundog.versions import VERSIONS

pytestmark = pytest.mark.spark

Results = dict[str, dict[str, Any]]
SHAPES = [
    f"{shape} on {place}" for shape in ("top-k", "window", "aggregate", "subtree") for place in ("driver", "executors")
]
ACTIONS = [
    *("collect", "toPandas", "toArrow", "toLocalIterator", "count", "show", "take", "head", "first", "tail"),
    *("show vertical", "schema of rows", "batches", "isEmpty"),
]
WRITES = ["parquet", "partitions", "noop", "saveAsTable", "saveAsTable append", "writeTo", "insertInto"]


def run_job(folder: Path, *parts: str, **variables: str) -> Results:
    source = str(Path(sundog.__file__).parents[1])
    job = Path(__file__).with_name("connect_job.py")
    unset = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
    env = {key: value for key, value in os.environ.items() if key not in unset}
    done = subprocess.run(
        [sys.executable, str(job), str(folder), *parts],
        env={**env, "PYTHONPATH": source, **variables},
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: Results = json.loads((folder / "results.json").read_text())
    return found


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return run_job(tmp_path_factory.mktemp("connect"))


def check(results: Results, *names: str) -> None:
    assert not {name: results[name] for name in names if not results[name]["ok"]}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_accelerated_on_either_placement_with_the_answer_of_connect(results: Results, name: str) -> None:
    check(results, name)
    assert results[name]["placement"] == name.rpartition(" ")[2]


@pytest.mark.parametrize("master", ["local[2]", pytest.param("local-cluster[1,2,1024]", marks=pytest.mark.matrix)])
def test_a_session_by_the_api_mode_is_accelerated_locally_and_on_a_cluster(tmp_path: Path, master: str) -> None:
    found = run_job(tmp_path, "shapes_on_executors", CONNECT_API_MODE_MASTER=master)
    names = [name for name in SHAPES if name.endswith(" on executors")]
    check(found, *names)
    assert {found[name]["placement"] for name in names} == {"executors"}
    assert found["master"]["master"] == master


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_gives_exactly_the_python_types_of_connect(results: Results, action: str) -> None:
    check(results, f"{action} of top-k")
    assert results[f"{action} of top-k"]["accelerated"]


def test_actions_on_no_rows_give_what_connect_gives(results: Results) -> None:
    check(
        results, *(f"{name} of no rows" for name in ("collect", "toPandas", "toArrow", "count", "isEmpty", "batches"))
    )


def test_parts_of_a_plan_are_run_by_the_server(results: Results) -> None:
    check(results, "toLocalIterator of subtree", "count of aggregate")


def test_dataframe_calls_parameters_and_long_chains_are_planned(results: Results) -> None:
    check(results, "DataFrame calls", "parameters", "a chain of 60 calls")


def test_functions_of_the_user_run_once_and_in_the_server(results: Results) -> None:
    check(results, "udf", "foreach", "foreachPartition", "isEmpty of a udf")


def test_errors_of_a_query_are_those_of_connect(results: Results) -> None:
    check(results, "division by zero on driver", "division by zero on executors", "a missing column")


def test_settings_of_the_session_are_obeyed(results: Results) -> None:
    zones = [f"{name} in America/Los_Angeles" for name in ("collect", "toPandas", "batches", "show")]
    check(results, "without ANSI", "toArrow in +05:30", "large strings", "top-k switched off", *zones)


def test_shadow_mode_compares_and_answers_with_connect(results: Results) -> None:
    check(results, "shadow", "shadow iterator", "shadow report")


@pytest.mark.parametrize("name", ["observe", "checkpoint", "describe"])
def test_what_the_server_runs_by_itself_is_declined_with_a_reason(results: Results, name: str) -> None:
    check(results, name)
    assert any("CONNECT" in reason for reason in results[name]["reasons"])


def test_the_catalog_is_asked_in_the_server(results: Results) -> None:
    check(results, "catalog")


@pytest.mark.parametrize("place", ["driver", "executors"])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_is_accelerated_and_holds_the_rows_that_connect_writes(
    results: Results, write: str, place: str
) -> None:
    check(results, f"{write} on {place}")


def test_a_write_that_spark_refuses_is_refused_by_the_server(results: Results) -> None:
    check(results, "a write that exists", "a write over what it reads", "a write that raises")


def test_explain_shows_the_plan_of_a_connect_dataframe(results: Results) -> None:
    check(results, "explain", "explain analyze", "df.explain")


def test_accelerate_gives_a_connect_dataframe_with_our_parts_in_it(results: Results) -> None:
    check(results, "accelerate on driver", "accelerate on executors")


def test_two_sessions_of_one_server_have_their_own_views_and_switch(results: Results) -> None:
    check(results, "two sessions")


def test_an_interrupted_operation_ends_in_the_error_of_connect_and_is_not_started_again(results: Results) -> None:
    check(results, "interrupt")


def test_disable_puts_the_methods_of_connect_back(results: Results) -> None:
    check(results, "disable")


def test_a_session_of_a_server_elsewhere_is_refused_with_what_to_do(spark: Any) -> None:
    class Client:
        _user_id = None
        _session_id = "6cf1f4a8-0000-4000-8000-000000000000"
        _server_session_id = "6cf1f4a8-0000-4000-8000-000000000001"

    class Remote:
        client = Client()

    with pytest.raises(sundog.UnsupportedSessionError, match=r"not in this process's JVM.*remote\('local\[\*\]'\)"):
        classic_session(Remote())


def test_a_client_of_a_real_server_in_another_process_is_refused_and_goes_on(results: Results) -> None:
    check(results, "elsewhere")


def test_a_spark_whose_connect_is_unknown_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sundog.actions.connect.session.spark_version", lambda: VERSIONS["3.5"])

    class Remote:
        client = None

    with pytest.raises(sundog.UnsupportedSessionError, match=r"3\.5.*from Spark 4\.0 on"):
        classic_session(Remote())

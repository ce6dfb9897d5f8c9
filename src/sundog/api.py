"""The public functions: switch sundog on and off for a session, ask what it would do, do it explicitly."""

from __future__ import annotations

from pyspark.sql import SparkSession

from sundog.actions.explicit import accelerate, explain
from sundog.actions.install import disable_session, enable_session
from sundog.config import read_settings, warn_unknown_keys
from sundog.front.session_conf import keys_set
from sundog.query import check_classic, conf_of
from sundog.shipping import ensure_executors

__all__ = ["accelerate", "disable", "enable", "explain"]


def enable(spark: SparkSession) -> None:
    """From now on, actions on this session's DataFrames run accelerated where eligible.

    Idempotent, and without effect on other sessions. Checks the settings and, on a cluster, once, that the executors'
    Python has what sundog needs; raises if not, and says what is missing.
    """
    check_classic(spark)
    if spark._jconf.getConfString("spark.sundog.enabled", "") == "":
        spark.conf.set("spark.sundog.enabled", "true")
    read_settings(conf_of(spark).get)
    warn_unknown_keys(keys_set(spark._jvm, spark._jconf))
    ensure_executors(spark)
    enable_session(spark)


def disable(spark: SparkSession) -> None:
    """Actions of this session run on plain Spark again."""
    check_classic(spark)
    disable_session(spark)

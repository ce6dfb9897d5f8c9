"""Every setting that the running Spark declares."""

from __future__ import annotations

from typing import Any

from sundog.front.session.session_conf import registered_keys

_LAZY = "$lzycompute"  # what Scala adds to the name of the method that makes a lazy value


def all_settings(spark: Any) -> dict[str, tuple[str, ...]]:
    """Settings are registered when the class that declares them is loaded, which two may not be yet, and a lazy one
    when it is asked for first."""
    for name in ("internal.StaticSQLConf", "hive.HiveUtils"):
        spark._jvm.java.lang.Class.forName(f"org.apache.spark.sql.{name}$")
    declared = getattr(getattr(spark._jvm.org.apache.spark.sql.internal, "SQLConf$"), "MODULE$")
    for method in declared.getClass().getDeclaredMethods():
        if method.getName().endswith(_LAZY):
            getattr(declared, method.getName().removesuffix(_LAZY))()
    return registered_keys(spark._jvm)

"""Every setting that the running Spark declares."""

from __future__ import annotations

from typing import Any

from sundog.front.session.session_conf import registered_keys


def all_settings(spark: Any) -> dict[str, tuple[str, ...]]:
    """Settings are registered when the class that declares them is loaded; these two may not be loaded yet."""
    for name in ("internal.StaticSQLConf", "hive.HiveUtils"):
        spark._jvm.java.lang.Class.forName(f"org.apache.spark.sql.{name}$")
    return registered_keys(spark._jvm)

"""The differences between Spark versions, one file for each. Nothing else in sundog depends on a version.

`spark_version()` is the version of this process's pyspark. `problem_with(session)` says why sundog leaves a session
alone: its Spark is none of these versions, and reading a plan by the rules of another version could be wrong.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import metadata
from typing import TYPE_CHECKING

from sundog.errors import UnsupportedSessionError
from sundog.versions.model import ArrowRequest, PlanNames
from sundog.versions.parts.write_commands import WriterCommands
from sundog.versions.spark_3_5 import Spark35
from sundog.versions.spark_4_0 import Spark40
from sundog.versions.spark_4_1 import Spark41
from sundog.versions.spark_4_2 import Spark42
from sundog.versions.spark_4_3 import Spark43

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SparkVersion = Spark43
VERSIONS: dict[str, SparkVersion] = {
    version.name: version() for version in (Spark35, Spark40, Spark41, Spark42, Spark43)
}
NEWEST = VERSIONS["4.3"]

__all__ = [
    "NEWEST",
    "VERSIONS",
    "ArrowRequest",
    "PlanNames",
    "SparkVersion",
    "WriterCommands",
    "installed_version",
    "problem_with",
    "short_name",
    "spark_version",
]


def short_name(version: str) -> str:
    """4.1 of 4.1.4, of 4.1.0-amzn-1 and of 4.1.0.dev0."""
    match = re.match(r"\d+\.\d+", version)
    return match[0] if match else version


def problem_with(session: SparkSession) -> str | None:
    """Why sundog cannot be used with this session's Spark, in a sentence; None if it can."""
    import pyspark

    ours, theirs = short_name(pyspark.__version__), short_name(str(session.version))
    if ours not in VERSIONS:
        return _unknown("pyspark", pyspark.__version__)
    if theirs not in VERSIONS:
        return _unknown("Spark", str(session.version))
    if ours != theirs:
        return (
            f"pyspark is {pyspark.__version__} and the Spark that it speaks to is {session.version}: sundog "
            f"needs both of one version."
        )
    return None


def _unknown(what: str, version: str) -> str:
    known = sorted(VERSIONS, key=lambda name: tuple(map(int, name.split("."))))
    return f"{what} {version} is not one that sundog knows: {', '.join(known[:-1])} and {known[-1]} are."


def installed_version() -> SparkVersion | None:
    """The version of the installed pyspark, found without importing it; None if there is none or it is unknown."""
    try:
        return VERSIONS.get(short_name(metadata.version("pyspark")))
    except metadata.PackageNotFoundError:  # pyspark of a SPARK_HOME has no metadata
        return None


@lru_cache(maxsize=1)
def spark_version() -> SparkVersion:
    """The version of this process's pyspark. Raises UnsupportedSessionError if sundog does not know it."""
    import pyspark

    found = VERSIONS.get(short_name(pyspark.__version__))
    if found is None:
        raise UnsupportedSessionError(_unknown("pyspark", pyspark.__version__))
    return found

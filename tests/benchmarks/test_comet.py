"""Comet's engine starts in the Spark version that its jar is for, and reports what is missing in others."""

from __future__ import annotations

from pathlib import Path

import pytest

pyspark = pytest.importorskip("pyspark")

from sundog.benchmarks.engines import comet  # noqa: E402 - imports pyspark
from sundog.benchmarks.engines.catalog import find_engine  # noqa: E402
from sundog.benchmarks.engines.model import EngineUnavailable  # noqa: E402


@pytest.mark.parametrize("name", ["comet", "comet-off"])
def test_another_spark_is_refused_with_what_to_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    with pytest.raises(EngineUnavailable, match=r"runs in Spark 3\.5, not 4\.3\.0: give --python comet=PATH"):
        find_engine(name).make(1)


def test_the_jar_is_a_file_or_comes_from_maven(tmp_path: Path) -> None:
    jar = tmp_path / "comet.jar"
    with pytest.raises(EngineUnavailable, match="is not a file"):
        comet.comet_confs({comet.JAR_VARIABLE: str(jar)})
    jar.touch()
    assert comet.comet_confs({comet.JAR_VARIABLE: str(jar)})["spark.jars"] == str(jar)
    assert comet.comet_confs({})["spark.jars.packages"] == comet.PACKAGE

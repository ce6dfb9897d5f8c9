"""The pinned versions: one of each package for every Python, and a file for every Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from sundog.versions import VERSIONS

FOLDER = Path(__file__).parent.parent / "constraints"
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]


def pins(name: str) -> list[Requirement]:
    lines = (line.partition("#")[0].strip() for line in (FOLDER / f"{name}.txt").read_text().splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("-c ")]


def test_every_spark_has_a_file_that_pins_it() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {*VERSIONS, "common"}
    for version in VERSIONS:
        (spark,) = (pin for pin in pins(version) if pin.name == "pyspark")
        assert str(spark.specifier).startswith(f"=={version}.")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("python", PYTHONS)
def test_a_python_has_one_version_of_each_package(version: str, python: str) -> None:
    """Two would leave pip nothing to choose, none would leave it to the day."""
    everything = [*pins("common"), *pins(version)]
    counts = Counter(
        pin.name for pin in everything if pin.marker is None or pin.marker.evaluate({"python_version": python})
    )
    assert [name for name, count in counts.items() if count > 1] == []
    only_older = {"exceptiongroup", "six", "tomli"} if python != "3.10" else set()
    assert {pin.name for pin in everything} - set(counts) == only_older

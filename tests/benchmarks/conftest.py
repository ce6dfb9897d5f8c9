"""The tables of TPC-H and TPC-DS, tiny, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog.benchmarks.cases.model import DataRef
from sundog.benchmarks.data.tpc import GENERATOR, TPCDS, TPCH, GeneratorError, find_generator
from sundog.benchmarks.data.write import make_tpc

TPC_SCALE = 0.01


def _has_generator() -> bool:
    try:
        find_generator("tpch")
    except GeneratorError:
        return False
    return True


@pytest.fixture(scope="session")
def tpc_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[DataRef, Path]:
    """Where the tables of each suite are. A test that asks for them is skipped where the generator is missing."""
    if not _has_generator():
        pytest.skip(f"{GENERATOR} is not installed")
    root = tmp_path_factory.mktemp("tpc")
    for data_set in (TPCH, TPCDS):
        make_tpc(data_set, TPC_SCALE, root / data_set.name)
    return {DataRef(data_set.name): root / data_set.name for data_set in (TPCH, TPCDS)}

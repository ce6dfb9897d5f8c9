"""The wheel: everything that runs, nothing that only the repository needs, and Spark as an extra.

`make test-matrix` installs it beside each Spark in an environment with nothing else, and asks it queries.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import sundog
from sundog.versions import spark_version

ROOT = Path(__file__).parent.parent
MAX_BYTES = 3 << 20
KINDS = {".py", ".typed", ".json", ".properties", ".j2", ".js", ".sql"}  # .sql: the texts of the benchmarks' queries

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built from a copy, since building leaves files beside the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*build, "--wheel-dir", "dist", "."], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "dist").iterdir()
    assert path.name == f"sundog-{sundog.__version__}-py3-none-any.whl", "one wheel for every Spark, Python and machine"
    return zipfile.ZipFile(path)


def test_it_holds_the_package_and_no_data(wheel: zipfile.ZipFile) -> None:
    inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {Path(name).parts[0] for name in inside} == {"sundog"}, "no tests"
    assert {Path(name).suffix for name in inside} == KINDS
    assert sum(entry.compress_size for entry in wheel.infolist()) < MAX_BYTES
    of_git = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if path.suffix in KINDS}
    assert inside == {name for name in of_git if "egg-info" not in name}, "package-data of pyproject.toml"


def test_it_says_which_pythons_and_which_sparks(wheel: zipfile.ZipFile) -> None:
    metadata = metadata_of(wheel)
    assert metadata["Version"] == sundog.__version__
    assert metadata["Requires-Python"] == ">=3.10"
    pythons = [text.rpartition(" ")[2] for text in metadata.get_all("Classifier", []) if "Python :: 3." in text]
    assert pythons == ["3.10", "3.11", "3.12", "3.13"]
    needed = metadata.get_all("Requires-Dist", [])
    of_spark = [text for text in needed if text.startswith("pyspark")]
    assert 'pyspark<4.4,>=3.5; extra == "spark"' in of_spark
    assert all("extra ==" in text for text in of_spark), "on a cluster Spark is there already"
    assert f'- name: "{metadata["Author"]}"' in (ROOT / "CITATION.cff").read_text()
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert "sundog/py.typed" in wheel.namelist()


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(1800)
def test_it_answers_queries_where_nothing_else_is_installed(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Beside the Spark and under the Python that run this test. `sundog demo` fails if an answer differs from plain
    Spark's or if nothing was accelerated."""

    def run(*command: str | Path) -> str:
        env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK", "PYSPARK"))}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    run(sys.executable, "-m", "venv", tmp_path / "bare")
    python, sundog_of_wheel = tmp_path / "bare/bin/python", tmp_path / "bare/bin/sundog"
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    constraints = ROOT / "constraints" / f"{spark_version().name}.txt"
    run(*pip, "install", "--quiet", "--constraint", constraints, f"{wheel.filename}[spark]")
    run(*pip, "check")
    there = {package["name"] for package in json.loads(run(*pip, "list", "--format", "json"))}
    assert {"sundog", "pyspark"} <= there
    assert not there & {"pytest", "duckdb", "datafusion", "polars", "grpcio"}
    findings = json.loads(run(sundog_of_wheel, "doctor", "--no-executors", "--json"))["findings"]
    assert [each for each in findings if each["state"] == "wrong"] == []
    run(sundog_of_wheel, "demo", "--rows", "300000", "--report", tmp_path / "report.html")


def metadata_of(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())

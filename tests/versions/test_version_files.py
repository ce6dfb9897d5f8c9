"""The contents of `sundog.versions`; no other module asks for the version of Spark. No JVM."""

from __future__ import annotations

import ast
import json
import re
import warnings
import zipfile
import zipimport
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sundog
from sundog.environment.java import needed_java
from sundog.expr.errors import ErrorKind, SparkQueryError
from sundog.front.catalyst_json import parse_plan
from sundog.versions import VERSIONS, problem_with, short_name
from sundog.versions.parts.hash_targets import keys_for, spark_hash
from sundog.versions.parts.row_conversion import rows_of
from sundog.versions.parts.worker_imports import keep_unchanged_archives

SOURCE = Path(sundog.__file__).parent
KNOWN = f"{', '.join(list(VERSIONS)[:-1])} and {list(VERSIONS)[-1]}"


@pytest.mark.parametrize(
    ("version", "name"), [("4.1.4", "4.1"), ("3.5.3-amzn-1", "3.5"), ("4.3.0.dev0", "4.3"), ("4.10.0", "4.10")]
)
def test_a_version_of_a_vendor_counts_as_the_one_it_is_made_of(version: str, name: str) -> None:
    assert short_name(version) == name


def session_of(version: str) -> Any:
    return SimpleNamespace(version=version)


@pytest.mark.parametrize(
    ("pyspark", "spark", "said"),
    [
        ("99.0.1", "99.0.1", f"pyspark 99.0.1 is not one that sundog knows: {KNOWN} are."),
        ("3.4.1", "3.4.1", "pyspark 3.4.1 is not one"),
        ("4.1.0", "3.4.2-amzn-0", "Spark 3.4.2-amzn-0 is not one"),
        ("4.1.0", "4.0.1", "pyspark is 4.1.0 and the Spark that it speaks to is 4.0.1"),
    ],
)
def test_an_unknown_spark_is_left_alone_with_one_message(
    monkeypatch: pytest.MonkeyPatch, pyspark: str, spark: str, said: str
) -> None:
    monkeypatch.setattr("pyspark.__version__", pyspark)
    frame = SimpleNamespace(sparkSession=session_of(spark))
    with pytest.warns(UserWarning, match=re.escape(said)) as caught:
        sundog.enable(session_of(spark))
    assert len(caught) == 1
    assert "Nothing was changed" in str(caught[0].message)
    with pytest.warns(UserWarning, match=re.escape(said)):
        assert sundog.accelerate(frame) is frame
    assert said in sundog.explain(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sundog.disable(session_of(spark))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_known_spark_has_no_problem(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr("pyspark.__version__", f"{version}.7")
    assert problem_with(session_of(f"{version}.2")) is None


def test_only_the_versions_ask_for_a_version() -> None:
    """The benchmark and the doctor print versions; nobody decides by one."""
    asking = re.compile(
        r"pyspark\.__version__|metadata\.version\(.pyspark|(?<!apache\.)\b(spark|session|context|sc)\.version\b"
        r"|versions\.spark_\d|spark_version\(\)(\.name)? ?(==|!=|<|>|is |in |not )|startswith\(.[34]\.\d"
    )
    may_ask = ("versions/", "benchmarks/", "environment/doctor.py")
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not path.relative_to(SOURCE).as_posix().startswith(may_ask)
        for line in path.read_text().splitlines()
        if asking.search(line)
    ]
    assert found == []


def test_only_the_versions_name_a_version() -> None:
    """In code: sentences may. The benchmark names the Spark that an engine beside it brings."""
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {node.value!r}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not path.relative_to(SOURCE).as_posix().startswith(("versions/", "benchmarks/"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"[34]\.\d+(\.\d+)?", node.value)
    ]
    assert found == []


def test_rows_as_arrow_are_asked_of_the_version() -> None:
    """`DataFrame.toArrow` is not in pyspark 3.5, where conftest.py adds it: only this finds a call of it."""
    callers = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if ".toArrow()" in path.read_text()}
    assert callers == {"versions/spark_4_3.py", "benchmarks/engines/sail.py"}  # Sail's client is the newest pyspark


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 64, 1000])
def test_each_partition_has_a_number_that_is_hashed_into_it(partitions: int) -> None:
    keys = keys_for(partitions)
    assert len(set(keys)) == partitions
    hashes = spark_hash(np.array(keys, np.int32)).astype(np.int64)
    assert np.mod(hashes, partitions).tolist() == list(range(partitions))


def test_the_hash_is_sparks() -> None:
    """`SELECT hash(0), hash(1), hash(2), hash(-1)`."""
    hashes = spark_hash(np.array([0, 1, 2, -1], np.int32))
    assert hashes.tolist() == [933211791, -559580957, 1765031574, -1604776387]


def node(name: str, **fields: Any) -> dict[str, Any]:
    return {"class": f"org.apache.spark.sql.catalyst.expressions.{name}", "num-children": 0, **fields}


@pytest.mark.parametrize("version", ["3.5", "4.0"])
def test_old_names_in_plans_become_new_ones(version: str) -> None:
    names = VERSIONS[version].plan_names
    assert parse_plan(json.dumps([node("TimeAdd")]), names).name == "TimestampAddInterval"
    assert parse_plan(json.dumps([node("Add", evalMode=None)]), names).fields == {"evalContext": None}
    assert parse_plan(json.dumps([node("Cast", evalMode=None)]), names).fields == {"evalMode": None}


def test_rows_have_the_python_types_of_spark() -> None:
    instant = datetime(2024, 3, 30, 12, tzinfo=timezone.utc)
    table = pa.table(
        {
            "i": pa.array([1, None], pa.int16()),
            "b": pa.array([b"x", None]),
            "t": pa.array([instant, None], pa.timestamp("us", "UTC")),
            "n": pa.array([datetime(2024, 1, 1), None], pa.timestamp("us")),
            "p": pa.array([timedelta(days=1), None], pa.duration("us")),
        }
    )

    def pairs(names: Sequence[str], values: Any) -> Any:
        return dict(zip(names, values, strict=True))

    first, second = rows_of(table, table.schema.names, pairs)  # type: ignore[arg-type]
    assert first == {
        "i": 1,
        "b": bytearray(b"x"),
        "t": datetime.fromtimestamp(instant.timestamp()),
        "n": datetime(2024, 1, 1),
        "p": timedelta(days=1),
    }
    assert type(first["b"]) is bytearray
    assert set(second.values()) == {None}
    assert rows_of(pa.table({"x": [1, 2]}).select([]), [], pairs) in ([], [{}, {}])  # type: ignore[arg-type]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_error_of_a_query_has_a_text(version: str) -> None:
    spark = VERSIONS[version]
    errors = [
        SparkQueryError.overflow("try_add"),
        SparkQueryError.small_integer_overflow(1, "+", 2, "try_add"),
        SparkQueryError.divide_by_zero(),
        SparkQueryError.remainder_by_zero(),
        SparkQueryError.decimal_out_of_range(Decimal(10), pa.decimal128(1, 0)),
        SparkQueryError.cast_overflow("300", pa.int32(), pa.int8()),
        SparkQueryError.cast_invalid_input("x", pa.int32(), ErrorKind.NUMBER_FORMAT),
    ]
    for error in errors:
        name = spark.condition_names.get(error.condition, error.condition)
        _, template = spark.conditions[name]
        assert set(re.findall(r"<(\w+)>", template)) <= set(error.parameters)


def test_an_error_of_a_task_says_what_was_wrong_in_its_first_line() -> None:
    """3.5 leaves it to Py4J, whose own text begins with what was called."""

    class Java:
        def __init__(self, text: str, cause: Java | None = None) -> None:
            self.text, self.cause = text, cause

        def getCause(self) -> Java | None:  # noqa: N802
            return self.cause

        def toString(self) -> str:  # noqa: N802
            return self.text

    error = RuntimeError("An error occurred while calling o1.collectToPython.\n: SparkException")
    error.java_exception = Java("SparkException: Job aborted", Java("[DIVIDE_BY_ZERO] Division by zero.\n== SQL =="))
    assert VERSIONS["3.5"].first_line(error) == "[DIVIDE_BY_ZERO] Division by zero."
    assert VERSIONS["3.5"].first_line(ValueError("one\ntwo")) == "one"
    assert VERSIONS["4.0"].first_line(ValueError()) == "ValueError"


def test_java_of_each_version() -> None:
    assert needed_java(VERSIONS["3.5"]) == "Java 8 to 17"
    assert needed_java(VERSIONS["4.0"]) == "Java 17 to 23"
    assert needed_java(VERSIONS["4.2"]) == "Java 17 or newer"


def test_an_archive_is_read_again_only_if_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of older Sparks ask for it before every task."""
    archive = tmp_path / "code.zip"

    def write(*modules: str) -> None:
        with zipfile.ZipFile(archive, "w") as file:
            for module in modules:
                file.writestr(f"{module}.py", "")

    write("one")
    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", zipimport.zipimporter.invalidate_caches)
    keep_unchanged_archives()
    reads: list[str] = []
    read = zipimport._read_directory  # type: ignore[attr-defined]
    monkeypatch.setattr(zipimport, "_read_directory", lambda path: reads.append(path) or read(path))
    importer = zipimport.zipimporter(str(archive))
    reads.clear()
    for _ in range(3):
        importer.invalidate_caches()
        assert importer.find_spec("one") is not None  # from Python 3.13 on it is this that reads again
    assert len(reads) == 1, "the first time: nobody knows what was there when it was made"
    write("one", "two")
    for _ in range(2):
        importer.invalidate_caches()
        assert importer.find_spec("two") is not None
    assert len(reads) == 2
    archive.unlink()
    importer.invalidate_caches()
    assert importer.find_spec("two") is None

"""Scripts of SQL, such as Spark's own golden files, on plain Spark and on sundog.

    python -m tests.fuzz.scripts FOLDER [--only TEXT] [--seconds N]

Each script runs in two new sessions, first on plain Spark. Temporary views are rewritten to Parquet files, so that
sundog has something to take. Answers are compared as multisets, floats within the tolerance of `compare.py`. Spark's
own scripts are under `sql/core/src/test/resources/sql-tests/inputs` of its repository; they are not part of this
project. Scripts hold queries that are free by nature (LIMIT without ORDER BY, random values, times): what is printed is
to be read, not counted.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import sundog
from tests.fuzz.compare import Answer, difference
from tests.fuzz.pair import error_name
from tests.fuzz.queries import Check
from tests.fuzz.run import start_session

_VIEW = re.compile(r"^\s*create\s+(?:or\s+replace\s+)?temp(?:orary)?\s+view\s+(\w+)", re.IGNORECASE)
_TABLE = re.compile(r"^\s*create\s+(?:or\s+replace\s+)?table\s+(?:if\s+not\s+exists\s+)?([\w.]+)", re.IGNORECASE)
_SETUP = re.compile(
    r"^\s*(create|insert|drop|set|alter|use|reset|declare|refresh|cache|uncache|truncate)\b", re.IGNORECASE
)
_SHAPE = re.compile(r"\b(over|group|order|distinct|limit|count|sum|avg|min|max|having|rollup|cube)\b", re.IGNORECASE)


def statements(text: str) -> Iterator[str]:
    """Split at semicolons outside quotes and comments. Comments are dropped."""
    pattern = r"--[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|;|[^;'\"`/-]+|."
    current: list[str] = []
    for piece in re.findall(pattern, text, re.DOTALL):
        if piece == ";":
            if "".join(current).strip():
                yield "".join(current).strip()
            current = []
        elif not piece.startswith(("--", "/*")):
            current.append(piece)
    if "".join(current).strip():
        yield "".join(current).strip()


def settings(text: str) -> list[tuple[str, str]]:
    found = re.findall(r"^--SET (.+)$", text, re.MULTILINE)
    pairs = [pair.partition("=") for line in found for pair in line.split(",") if "=" in pair]
    return [(key.strip(), value.strip()) for key, _, value in pairs]


def run_script(session: Any, text: str, scratch: Path) -> list[tuple[str, Answer, Any]]:
    """Each statement that was run, with its answer and, on a session with sundog, what happened."""
    session.conf.set("spark.sql.shuffle.partitions", "2")
    for key, value in settings(text):
        session.conf.set(key, value)
    answers = []
    made = []
    for number, statement in enumerate(statements(text)):
        if not _SETUP.match(statement) and not _SHAPE.search(statement):
            continue
        try:
            frame = session.sql(statement)
            rows = tuple(tuple(row) for row in frame.collect())
            answer = Answer(frame.schema.simpleString(), rows)
        except Exception as error:
            answer = Answer(error=error_name(error), message=str(error))
        answers.append((statement, answer, sundog.last_run() if number else None))
        if (view := _VIEW.match(statement)) and answer.error is None:
            _to_files(session, view[1], scratch / f"{number}-{view[1]}")
        if (table := _TABLE.match(statement)) and answer.error is None:
            made.append(table[1])
    for table_name in made:
        session.sql(f"DROP TABLE IF EXISTS {table_name}")
    return answers


def _to_files(session: Any, view: str, folder: Path) -> None:
    """The view over Parquet files; as it was where Parquet cannot hold it."""
    try:
        frame = session.table(view)
        frame.write.mode("overwrite").parquet(str(folder))
        session.read.schema(frame.schema).parquet(str(folder)).createOrReplaceTempView(view)
    except Exception as error:
        print(f"  {view} stays a view of values: {error_name(error)}")


def compare_script(spark: Any, path: Path, scratch: Path, tally: Counter[str]) -> None:
    text = path.read_text()
    plain, ours = spark.newSession(), spark.newSession()
    theirs = run_script(plain, text, scratch / "plain")
    sundog.enable(ours)
    ours.conf.set("spark.sundog.onInternalError", "raise")
    try:
        mine = run_script(ours, text, scratch / "ours")
    finally:
        sundog.disable(ours)
        shutil.rmtree(scratch, ignore_errors=True)
    for (statement, expected, _), (_, got, run) in zip(theirs, mine, strict=True):
        tally["statements"] += 1
        tally["accelerated"] += bool(run is not None and run.accelerated)
        check = Check(inexact=tuple(range(len(expected.rows[0]) if expected.rows else 0)))
        found = difference(got, expected, check)
        if found is not None:
            tally["differ"] += 1
            print(f"=== {path.name}: {found}\n{statement}\nSpark  {expected}\nsundog {got}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run scripts of SQL on plain Spark and on sundog.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="a regular expression on the path")
    parser.add_argument("--seconds", type=float, default=3600)
    args = parser.parse_args()
    spark, until, tally = start_session(), monotonic() + args.seconds, Counter[str]()
    sundog.enable(spark)  # so that last_run answers from the first statement on
    spark.range(1).count()
    with tempfile.TemporaryDirectory(prefix="sundog-scripts-") as scratch:
        for path in sorted(args.folder.rglob("*.sql")):
            if monotonic() > until:
                break
            if re.search(args.only, str(path)):
                compare_script(spark, path, Path(scratch) / path.stem, tally)
                print(f"{path.relative_to(args.folder)}: {dict(tally)}", flush=True)
    return int(bool(tally["differ"]))


if __name__ == "__main__":
    sys.exit(main())

"""Regular expressions against java.util.regex, which is what Spark runs, and against Spark itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sundog.expr.regex.functions import checked_pattern, checked_replacement, extract, has_match, replace_all
from sundog.expr.regex.pattern import Unsupported
from tests.spark.against_spark import check

pytestmark = pytest.mark.spark
FUZZ = settings(
    max_examples=300, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)

BREAKS = ["\n", "\r", "\r\n", "\x85", "\u2028", "\u2029"]
ALPHABET = [
    "a",
    "b",
    "A",
    "0",
    "٣",
    "_",
    "-",
    ".",
    "/",
    " ",
    "\t",
    "\x0b",
    "é",
    "ſ",
    "\u3000",
    "\uffff",
    "😀",
    "\x00",
    *BREAKS,
]
TEXTS = st.lists(st.sampled_from(ALPHABET), max_size=9).map("".join)
CLASS_ITEMS = [
    "a", "a-b", "0-9", "-", "/", r"\.", r"\s", r"\d", r"\W", r"\n", "^", "é", "&", "_", "A-z", r"\]", " ", r"\\",
]  # fmt: skip
ATOMS = [
    "a", "b", "ab", "0", "é", "-", "/", " ", ".", r"\.", r"\\", r"\/", r"\-", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S",
    r"\n", r"\r", r"\t", "\n", "_", "#",
]  # fmt: skip
QUANTIFIERS = ["", "", "", "?", "*", "+", "{2}", "{1,}", "{0,2}", "??", "*?", "+?", "{1,2}?"]


@st.composite
def classes(draw: st.DrawFn) -> str:
    items = draw(st.lists(st.sampled_from(CLASS_ITEMS), min_size=1, max_size=3))
    return f"[{draw(st.sampled_from(['', '^']))}{''.join(items)}]"


@st.composite
def patterns(draw: st.DrawFn, depth: int = 2) -> str:
    parts = [draw(st.sampled_from(["", "", "^"])) if depth == 2 else ""]
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.integers(0, 5 if depth else 3))
        if kind <= 2:
            atom = draw(st.sampled_from(ATOMS))
        elif kind == 3:
            atom = draw(classes())
        else:
            atom = f"({draw(st.sampled_from(['', '?:']))}{draw(patterns(depth - 1))})"
        parts.append(atom + draw(st.sampled_from(QUANTIFIERS)))
    if draw(st.integers(0, 4)) == 0:
        parts.append("|" + draw(st.sampled_from(ATOMS)))
    if draw(st.integers(0, 3)) == 0:
        parts.append("$")
    return "".join(parts)


REPLACEMENTS = ["", "x", "$0", "[$1]", r"\$1", "$12", "$2$1", r"\\", r"a\b", "é😀"]


@pytest.fixture(scope="module")
def compile_in_java(spark: Any) -> Callable[[str], Any]:
    pattern = spark._jvm.java.util.regex.Pattern
    return lambda text: pattern.compile(text)


@FUZZ
@given(patterns(), st.lists(TEXTS, min_size=1, max_size=5), st.sampled_from(REPLACEMENTS))
def test_what_is_taken_means_what_it_means_in_java(
    compile_in_java: Callable[[str], Any], pattern: str, texts: list[str], replacement: str
) -> None:
    try:
        groups = checked_pattern(pattern)
    except Unsupported:
        return
    compiled = compile_in_java(pattern)
    column = pa.array([*texts, None])
    assert has_match(column, pattern).to_pylist() == [*(compiled.matcher(text).find() for text in texts), None]
    for group in {0, 1, 2} & set(range(groups.groups + 1)) - groups.repeated:
        expected = []
        for text in texts:
            found = compiled.matcher(text)
            expected.append((found.group(group) or "") if found.find() else "")
        assert extract(column, pattern, group).to_pylist() == [*expected, None], group
    try:
        checked_replacement(pattern, replacement)
    except Unsupported:
        return
    expected = [compiled.matcher(text).replaceAll(replacement) for text in texts]
    assert replace_all(column, pattern, replacement).to_pylist() == [*expected, None]


def test_a_good_part_of_the_patterns_is_taken() -> None:
    """Or the test above would say nothing."""
    taken = []

    @settings(max_examples=200, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(patterns())
    def see(pattern: str) -> None:
        try:
            checked_replacement(pattern, "")
        except Unsupported:
            return
        taken.append(pattern)

    see()
    assert len(taken) > 50


TEXT_ROWS = [
    "https://www.example.org/a/b?c=d", "http://example.org", "https://a.b/\n", "https://a.b/x\r\n", "https://é.😀/x",
    "", "a b\tc  d ", "  x", "line\nline2", "12-34-567", "٣٤", None, "user.name+tag@host.co", "😀😀", "tail \n",
    "a\u2028", "A",
]  # fmt: skip
REPLACED = [
    (r"^https?://(?:www\.)?([^/]+)/.*$", "$1"), (r"[^0-9]", ""), (r"\s+$", ""), (r"^\s+|\s+$", ""),
    (r"(\d+)-(\d+)", "$2-$1"), (r"[^a-zA-Z0-9 ]", "_"), (r".", "x"), (r"(a)|(b)", "<$1$2>"), (r"\s", r"\$"),
    (r"[\n\r]+", " "), (r"\s$", "!"),
]  # fmt: skip
MATCHED = [r"^https?://", r"\d{2}", r"@[a-z]+\.(com|org|co)$", "", r"^$", r"e$", r"[^\x00-\x7F]"]


@pytest.fixture(scope="module")
def texts(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("regex") / "texts.parquet"
    damaged = pa.array([*(None if text is None else text.encode() for text in TEXT_ROWS), b"a\xff\xfeb", b"\xe2\x82"])
    write_as_strings(path, damaged)
    enabled.read.parquet(str(path)).createOrReplaceTempView("texts")
    return enabled


def write_as_strings(path: Path, raw: pa.Array) -> None:
    """Also what is no UTF-8."""
    number = pa.array(range(len(raw)))
    pq.write_table(pa.table({"s": raw.view(pa.string()), "n": number}), path)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def test_functions_of_regular_expressions_are_those_of_spark(texts: Any) -> None:
    columns = [f"regexp_replace(s, {quoted(p)}, {quoted(r)}) AS r{at}" for at, (p, r) in enumerate(REPLACED)]
    columns += [f"s RLIKE {quoted(p)} AS m{at}" for at, p in enumerate(MATCHED) if "x00" not in p]
    columns += [f"regexp_extract(s, {quoted(p)}, {g}) AS e{g}" for p in (r"([a-z]+)\.([a-z]+)?",) for g in (0, 1, 2)]
    check(texts, f"SELECT n, {', '.join(columns)} FROM texts ORDER BY n LIMIT 100", ordered=True)


def test_groups_by_a_replaced_text(texts: Any) -> None:
    host = quoted(REPLACED[0][0])
    check(texts, f"SELECT regexp_replace(s, {host}, '$1') AS k, count(*), min(n) FROM texts WHERE s <> '' GROUP BY 1")


@pytest.mark.parametrize(
    "call",
    [
        "regexp_replace(s, '(?i)a', 'x')", "regexp_replace(s, 'a*', 'x')", "regexp_replace(s, 'a', 'x', 2)",
        "regexp_replace(s, s, 'x')", r"regexp_replace(s, '\\bA', 'x')", "regexp_replace(s, '(a)+', '$1')",
        "regexp_replace(s, '(a){2}', '$1')", "regexp_replace(s, 'a++', 'x')", "regexp_extract(s, '(a|b)*', 1)",
        r"s RLIKE '\\p{L}'", "s RLIKE '(?=a)b'",
    ],
)  # fmt: skip
def test_other_patterns_are_left_to_spark(texts: Any, call: str) -> None:
    check(texts, f"SELECT {call} AS k, count(*) FROM texts GROUP BY 1", accelerated=False)

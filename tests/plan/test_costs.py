"""The numbers that the planner compares: what a user may change them to, and what is refused."""

from __future__ import annotations

import ast
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sundog
from sundog.errors import ConfigError
from sundog.plan.costs import COST_FIELDS, DRIVER, EXECUTORS, SETTING, SiteCosts, read_costs

SOURCE = Path(sundog.__file__).parent

FOLDERS = ("plan", "runtime", "operators", "columns")

# Numbers in these folders that are no costs, by what they are instead.
NO_COSTS = {
    "what a type, an array of Arrow's or a word holds": (
        "INT64_MIN INT64_MAX MAX_ROWS _MAX_ROWS MAX_SLOTS _MAX_BYTES _LEAST _LOW64 _DECIMAL_LIMIT _WORD_BITS "
        "_ALIGNMENT STAGE_SOURCES _ROWS_PER_TASK MAX_TARGETS LARGEST_STRING_BYTES _ONE_WORD_DIGITS _STEPS _SIGNED "
        "_UNSIGNED MAX_DIGITS _MAX_JOINED_BYTES _LARGEST_FAST_COUNT _EXACT_DOUBLES ANY_NUMBER _NUMBER "
        "_LARGEST_WORD"
    ),
    "the calendar's": "DAY_MICROS _MONTH_END_SLACK _SECOND _MILLISECOND",
    "what decides the digits of an answer, or that Spark computes it": (
        "_MAX_ORDERED_MERGES_PER_ROW _MAX_ORDERED_ADDITIONS_PER_ROW _CANCELS _NARROW _WIDEST_RECOMPUTED _TAME_RATIO "
        "_HUGE _LARGEST_MAGNITUDE _LARGEST_FAST_SUM _SHOWN_PLACES"
    ),
    "Spark's own": "_MIN_OVERHEAD_BYTES _OVERHEAD_FACTOR _COALESCED_BYTES",
    "places in a tuple": "TARGET SOURCE _DEVICE _COMOMENT _PAIR_COLUMNS",
    "no numbers but what holds some": "FUNCTIONS",
    "what makes one loop fast, measured beside it": "_MIN_ROWS_PER_GROUP",
    "values of a column that stand for all where their bytes are estimated": "_MEASURED_STRINGS",
    "bounds of memory, and what code takes of it": (
        "DEFAULT_MEMORY_BYTES DEFAULT_BLOCK_BYTES CODE_BYTES CODE_ADDRESS_BYTES TASK_BYTES MIN_TASK_BYTES "
        "MIN_PYTHON_SHARE MAX_WAITING_BYTES _WAITING_SHARE _WRITING_SHARE _MIN_SHARE MERGE_COPIES CUTS "
        "_DEEPEST_LEVEL _INDEX_BYTES_PER_ROW _INDEX_BYTES_PER_WORD _FIRST_CAPACITY _RESULT_BATCH_ROWS OUTPUT_ROWS "
        "FILES_IN_BATCH _FIRST_SLOTS _SLOTS_PER_KEY _MAX_SPARE_BYTES _MIN_SHARED_NULLS _MAX_SHARED_NULLS "
        "_ESTIMATE_ERROR MAX_EDGE_ROWS _MAX_WAITING _MAX_SHAPES _MAX_OPEN_CHANNELS _KEPT_REQUESTS "
        "_MAX_UNFROZEN_OBJECTS MAX_KEPT_ROWS EXCESS _COPIES"
    ),
    "how often one looks, and how long one waits": "POLL_SECONDS STOP_SECONDS _ASK_EVERY_SECONDS",
    "more than any number that is known": "_FOREIGN_ROWS",
    "passes of one loop": "_MAX_PASSES",
    "calls that Python's stack can hold": "_MAX_DEPTH",
}

# Functions with numbers in comparisons, bounds, products and quotients that are no costs, by what the numbers are.
NO_COSTS_INSIDE = {
    "bits, bytes and words of a value": (
        "operators/window/frames/range_columns.py:_handed_out "
        "columns/arrow.py:_from_text columns/key_layout.py:KeyLayout.decode_key columns/key_layout.py:KeyLayout.encode "
        "columns/key_layout.py:KeyLayout.hashes columns/key_layout.py:KeyLayout.null_words "
        "columns/key_layout.py:KeyLayout.scatter columns/key_layout.py:_bits columns/key_sets.py:_word_set "
        "columns/key_table.py:KeyTable.nbytes columns/stored_text.py:_words columns/vectors.py:Vector.nbytes "
        "operators/aggregate/grouping/buckets.py:grouped_bytes operators/aggregate/keys/lasting_slots.py:_Integers.of"
    ),
    "digits of a decimal": ("columns/short_decimals.py:ShortDecimals._computed columns/short_decimals.py:_scaled"),
    "days of a month, and the ends of the calendar": (
        "operators/window/frames/order_key.py:RangeKey.move operators/window/frames/order_key.py:reach_overflows"
    ),
    "nanoseconds of a second": (
        "plan/spark_rows.py:HandOverVerdict.won_seconds plan/spark_rows.py:why_collecting_loses"
    ),
    "formulas: an estimator, a mean, both ends of a range, the nearer of two places": (
        "operators/aggregate/grouping/buckets.py:_estimated_groups plan/spark_rows.py:FirstKeys.of "
        "plan/spark_rows.py:_values_per_row plan/lower/sizes.py:tasks_summarize "
        "operators/window/ranges/cuts.py:cut_places"
    ),
    "halves of what is searched or cut, and arrays that grow to twice their size": (
        "columns/text.py:writable_pieces operators/scan/footers.py:FooterScan._readable "
        "operators/window/ranges/cuts.py:SampleKeys.run columns/key_table.py:KeyTable._reserve"
    ),
    "two are the fewest that can be ordered, spread, shared or counted": (
        "operators/window/frames/sorting.py:sorted_table operators/join/hot_keys.py:HotKeys.of "
        "plan/sites.py:executors_site plan/sites.py:memory_problem plan/stages.py:Stage.input_of "
        "operators/aggregate/skip_probe.py:SkipProbe.probing operators/window/window_operator.py:_RangeWindow._shifted"
    ),
    "copies in memory": "operators/join/spilling.py:_HeldRows._needed columns/arrow.py:compact",
    "a queue for input and one for output": "operators/context.py:bytes_of_process",
    "half of what a container has beside the heap is Python's, whatever the JVM needs": (
        "plan/sites.py:python_memory_bytes"
    ),
    "half of a small budget is counted at least": "operators/context.py:MemoryBudget.on_executor",
    "no division by zero": "operators/scan/row_tests.py:RowTests._rank",
}
NAMES = list(COST_FIELDS)
MAY_BE_ZERO = {name for name, each in COST_FIELDS.items() if each.metadata["may_be_zero"]}


def numbers_of(source: str) -> set[str]:
    """The names at the top of a module whose values are numbers, or computed from some."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and not isinstance(node.value, ast.Call | ast.Dict):
            values = [each.value for each in ast.walk(node.value or node) if isinstance(each, ast.Constant)]
            if any(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return found


def functions_with_numbers(source: str) -> set[str]:
    """The functions in which a number decides, or may: one but 0 and 1, in a comparison of sizes, in `min` or `max`, or
    times, over or under something that is computed."""
    found: set[str] = set()

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = isinstance(child, ast.FunctionDef | ast.ClassDef)
            visit(child, f"{name}.{child.name}".lstrip(".") if inner else name)
            if name and _may_decide(child) and any(map(_is_number, ast.walk(child))):
                found.add(name)

    visit(ast.parse(source), "")
    return found


def _may_decide(node: ast.AST) -> bool:
    match node:
        case ast.Compare(ops=ops):
            return any(isinstance(each, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for each in ops)
        case ast.Call(func=ast.Name(id="min" | "max")):
            return True
        case ast.BinOp(op=ast.Mult() | ast.Div() | ast.FloorDiv(), left=left, right=right):
            return not (isinstance(left, ast.Constant) and isinstance(right, ast.Constant))
        case _:
            return False


def _is_number(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
        and node.value not in (0, 1)
    )


def sources(*folders: str) -> Iterator[tuple[str, str]]:
    for folder in folders:
        for path in (SOURCE / folder).rglob("*.py"):
            if path.name != "costs.py":
                yield path.relative_to(SOURCE).as_posix(), path.read_text()


def test_planner_runtimes_and_operators_have_no_numbers_of_their_own_to_choose_by() -> None:
    """A number that strategies or sizes are chosen by is a field of `Costs`; a new one that is not says here what it
    is."""
    found = set().union(*(numbers_of(source) for _, source in sources(*FOLDERS, "functions")))
    assert found - {name for names in NO_COSTS.values() for name in names.split()} == set()


def test_nor_do_their_functions() -> None:
    """But those of `functions/`, whose numbers are the formulas of answers."""
    found = {f"{path}:{name}" for path, source in sources(*FOLDERS) for name in functions_with_numbers(source)}
    assert found - {name for names in NO_COSTS_INSIDE.values() for name in names.split()} == set()


@pytest.mark.parametrize(
    ("body", "is_seen"),
    [
        ("return rows * 10 < total", True),
        ("return min(rows, 65_536)", True),
        ("return total // 2", True),
        ("return [row for row in rows if row > 3]", True),
        ("return rows > 0 and min(rows, 1)", False),
        ("return rows[2] == 2", False),
        ("return 1 << 20", False),
    ],
)
def test_a_number_inside_a_function_is_seen(body: str, is_seen: bool) -> None:
    source = f"class Plan:\n    def size(self):\n        {body}"
    assert functions_with_numbers(source) == ({"Plan.size"} if is_seen else set())


@pytest.mark.parametrize("name", NAMES)
def test_every_number_has_the_measurement_that_it_was_taken_from(name: str) -> None:
    assert len(COST_FIELDS[name].metadata["measured"].split()) >= 4
    assert getattr(DRIVER, name) > 0
    assert getattr(EXECUTORS, name) > 0


@pytest.mark.parametrize(
    "value", [-1, -0.5, True, False, math.nan, math.inf, -math.inf, 10**400, 1e300, None, "4", [4], {"a": 4}]
)
@pytest.mark.parametrize("name", ["task_bytes", "shuffle_ns_per_row"])
def test_what_is_no_finite_number_from_zero_on_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=SETTING) as refused:
        DRIVER.changed_by({name: value})
    assert name in str(refused.value)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=f"{SETTING}.*task_byte"):
        DRIVER.changed_by({"task_byte": 1})


@pytest.mark.parametrize("name", NAMES)
def test_zero_is_refused_where_the_planner_divides_or_needs_one_at_least(name: str) -> None:
    if name in MAY_BE_ZERO:
        assert getattr(DRIVER.changed_by({name: 0}), name) == 0
    else:
        with pytest.raises(ConfigError, match=name):
            DRIVER.changed_by({name: 0})


def test_a_fraction_that_is_cut_off_to_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="grouping_task_bytes"):
        DRIVER.changed_by({"grouping_task_bytes": 0.5})


def test_whole_numbers_stay_whole_and_the_others_stay_as_they_are() -> None:
    changed = DRIVER.changed_by({"task_bytes": 4096.7, "decode_ns_per_byte": 2})
    assert (changed.task_bytes, changed.decode_ns_per_byte) == (4096, 2.0)
    assert isinstance(changed.task_bytes, int)
    assert changed.gather_groups == DRIVER.gather_groups


def test_numbers_beside_the_places_are_for_both_and_those_of_a_place_win() -> None:
    text = json.dumps({"task_bytes": 1, "driver": {"task_bytes": 2, "max_shares": 3}, "executors": {"max_shares": 4}})
    read = read_costs(text)
    assert (read.driver.task_bytes, read.driver.max_shares) == (2, 3)
    assert (read.executors.task_bytes, read.executors.max_shares) == (1, 4)
    assert read.executors.scan_tasks_per_slot == EXECUTORS.scan_tasks_per_slot


@pytest.mark.parametrize("text", ["", "  ", "{}", ' {"driver": {}}'])
def test_without_numbers_the_costs_are_those_that_come_with_sundog(text: str) -> None:
    assert read_costs(text) == SiteCosts()


@pytest.mark.parametrize(
    "text", ["{", "{1}", '{"driver": 1}', '{"executors": [1]}', '{"task_bytes": NaN}', '{"max_shares": Infinity}']
)
def test_text_that_holds_no_costs_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=SETTING):
        read_costs(text)


@pytest.mark.parametrize("content", [b"", b"[1]", b"7", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_holds_no_costs_is_refused_by_its_path(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "costs.json"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=SETTING) as refused:
        read_costs(str(file))
    assert str(file) in str(refused.value)


def test_a_file_is_read_and_read_again_once_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    file.write_text('{"driver": {"max_shares": 3}}')
    assert read_costs(str(file)).driver.max_shares == 3
    assert read_costs(str(file)) is read_costs(str(file))

    file.write_text('{"driver": {"max_shares": 14}}')
    assert read_costs(str(file)).driver.max_shares == 14


def test_a_file_that_another_one_replaced_within_the_same_clock_tick_is_read_again(tmp_path: Path) -> None:
    file, other = tmp_path / "costs.json", tmp_path / "other.json"
    file.write_text('{"max_shares": 3}')
    other.write_text('{"max_shares": 5}')
    for each in (file, other):
        os.utime(each, ns=(10**18, 10**18))
    assert read_costs(str(file)).driver.max_shares == 3
    other.replace(file)
    assert read_costs(str(file)).driver.max_shares == 5


@pytest.mark.parametrize("name", ["missing.json", ".", "nul\0byte"])
def test_a_path_that_cannot_be_read_is_named_with_the_setting(tmp_path: Path, name: str) -> None:
    path = f"{tmp_path}/{name}"
    with pytest.raises(ConfigError, match=SETTING) as refused:
        read_costs(path)
    assert repr(path) in str(refused.value)


def test_a_missing_file_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"No such file.*sundog doctor --calibrate FILE"):
        read_costs("no/such/file.json")


def test_a_file_that_was_missing_is_read_once_it_is_there(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    with pytest.raises(ConfigError):
        read_costs(str(file))
    file.write_text('{"max_shares": 3}')
    assert read_costs(str(file)).executors.max_shares == 3


def test_lines_show_each_number_with_its_measurement() -> None:
    lines = DRIVER.lines()
    assert len(lines) == len(NAMES)
    assert lines[1] == "task_bytes=4,194,304  (a rule: a task of less input takes less time than it takes to start it)"
    assert "scan_tasks_per_slot=4  (a task costs 0.1 ms on a thread; small ones balance load)" in lines


def test_a_number_of_executors_has_the_measurement_that_was_taken_there() -> None:
    names = [name for name in NAMES if getattr(EXECUTORS, name) != getattr(DRIVER, name)]
    assert names == [name for name, _ in EXECUTORS.origins] == ["scan_tasks_per_slot", "max_scattered_reads"]
    line = "max_scattered_reads=4.0  (a row takes some 130 ns through the shuffle, and 25 ns to be decoded and dropped"
    assert any(each.startswith(line) for each in EXECUTORS.lines())


def test_a_number_of_the_users_says_where_it_comes_from(tmp_path: Path) -> None:
    """And no longer the measurement of the number that it replaced."""
    both = read_costs('{"task_bytes": 12345, "executors": {"max_scattered_reads": 2}}')
    theirs = "(set by spark.sundog.costs; sundog's own is"
    assert f"task_bytes=12,345  {theirs} 4,194,304)" in both.driver.lines()
    assert f"max_scattered_reads=2.0  {theirs} 4.0)" in both.executors.lines()
    assert "max_scattered_reads=1.5  (the same for few ranges of a scattered key)" in both.driver.lines()
    file = tmp_path / "costs.json"
    file.write_text('{"driver": {"max_shares": 3}}')
    found = f"max_shares=3  (from {file}, which spark.sundog.costs names; sundog's own is 8)"
    assert found in read_costs(str(file)).driver.lines()


def test_moving_a_row_is_compared_with_reading_it_again_by_their_ratio() -> None:
    numbers = {"decode_ns_per_byte": 2, "reread_factor": 2, "shuffle_ns_per_row": 100, "shuffle_ns_per_byte": 3}
    costs = DRIVER.changed_by(numbers)
    assert (costs.shuffle_row_in_reread_bytes, costs.shuffle_byte_in_reread_bytes) == (25, 0.75)

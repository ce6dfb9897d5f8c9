"""The numbers that the planner compares: what a user may change them to, and what is refused."""

from __future__ import annotations

import json
import math
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from sundog.errors import ConfigError
from sundog.plan.costs import DRIVER, EXECUTORS, SETTING, Costs, SiteCosts, read_costs

NAMES = [each.name for each in fields(Costs)]
MAY_BE_ZERO = {each.name for each in fields(Costs) if each.metadata["may_be_zero"]}


@pytest.mark.parametrize("name", NAMES)
def test_every_number_has_the_measurement_that_it_was_taken_from(name: str) -> None:
    (cost,) = [each for each in fields(Costs) if each.name == name]
    assert len(cost.metadata["measured"].split()) >= 4
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
    lines = DRIVER.changed_by({"task_bytes": 12345}).lines()
    assert len(lines) == len(NAMES)
    assert lines[1] == "task_bytes=12,345  (a task of less input takes less time than it takes to start it)"


def test_moving_a_row_is_compared_with_reading_it_again_by_their_ratio() -> None:
    numbers = {"decode_ns_per_byte": 2, "reread_factor": 2, "shuffle_ns_per_row": 100, "shuffle_ns_per_byte": 3}
    costs = DRIVER.changed_by(numbers)
    assert (costs.shuffle_row_in_reread_bytes, costs.shuffle_byte_in_reread_bytes) == (25, 0.75)

"""Settings are read as Spark would read them, and a mistake is answered with its correction."""

from __future__ import annotations

import warnings
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog import config
from sundog.config import OPTIONS, ConfigWarning, Option, Settings, parse_bytes, read_option, read_settings
from sundog.errors import ConfigError


@pytest.fixture(autouse=True)
def nothing_warned_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_warned", set())


def test_nothing_set_gives_the_documented_defaults() -> None:
    settings = read_settings({}.get)
    assert settings == Settings()
    assert settings == Settings(
        enabled=True,
        mode="on",
        on_internal_error="fallback",
        floating_point="fast",
        decoder="own",
        trusted_settings=(),
        learn=True,
        topk_enabled=True,
        topk_dynamic_pruning=True,
        window_enabled=True,
        aggregate_enabled=True,
        sort_enabled=True,
        join_enabled=True,
        placement="auto",
        driver_max_bytes=512 << 20,
        executor_process="auto",
        task_memory_bytes=None,
        exchange_block_bytes=4 << 20,
        progress_enabled=None,
    )


def test_every_setting_can_be_set() -> None:
    changed = {
        "spark.sundog.enabled": "false",
        "spark.sundog.mode": "Shadow",
        "spark.sundog.onInternalError": "RAISE",
        "spark.sundog.floatingPoint": "spark",
        "spark.sundog.decoder": "arrow",
        "spark.sundog.trustedSettings": "spark.sql.emr.*, spark.sql.mine,",
        "spark.sundog.learn": "false",
        "spark.sundog.topk.enabled": "FALSE",
        "spark.sundog.topk.dynamicPruning.enabled": " false ",
        "spark.sundog.window.enabled": "False",
        "spark.sundog.aggregate.enabled": "false",
        "spark.sundog.sort.enabled": "false",
        "spark.sundog.join.enabled": "false",
        "spark.sundog.placement": "Executors",
        "spark.sundog.driver.maxBytes": "0",
        "spark.sundog.executor.process": "Executor",
        "spark.sundog.costs": '{"task_bytes": 1024}',
        "spark.sundog.task.memoryBytes": "3GB",
        "spark.sundog.exchange.blockBytes": "4096",
        "spark.sundog.ui.enabled": "false",
        "spark.sundog.progress.enabled": "true",
    }
    assert changed.keys() == OPTIONS.keys()
    settings = read_settings(changed.get)
    assert settings == Settings(
        enabled=False,
        mode="shadow",
        on_internal_error="raise",
        floating_point="spark",
        decoder="arrow",
        trusted_settings=("spark.sql.emr.*", "spark.sql.mine"),
        learn=False,
        topk_enabled=False,
        topk_dynamic_pruning=False,
        window_enabled=False,
        aggregate_enabled=False,
        sort_enabled=False,
        join_enabled=False,
        placement="executors",
        driver_max_bytes=0,
        executor_process="executor",
        costs='{"task_bytes": 1024}',
        task_memory_bytes=3 << 30,
        exchange_block_bytes=4096,
        ui_enabled=False,
        progress_enabled=True,
    )
    assert not [
        each.name for each in fields(Settings) if getattr(settings, each.name) == getattr(Settings(), each.name)
    ]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("spark.sundog.enabled", "yes", "true or false"),
        ("spark.sundog.placement", "cluster", "one of auto, driver, executors"),
        ("spark.sundog.driver.maxBytes", "1.5g", "a size in Spark's notation"),
        ("spark.sundog.driver.maxBytes", "-1", "a size in Spark's notation"),
        ("spark.sundog.task.memoryBytes", "1k", "of at least 1m"),
        ("spark.sundog.progress.enabled", "", "true, false or auto"),
    ],
)
def test_bad_value_names_key_value_and_expectation(key: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings({key: value}.get)
    assert key in str(caught.value)
    assert repr(value) in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("17", 17),
        ("1048576b", 1 << 20),
        ("512m", 512 << 20),
        ("512MB", 512 << 20),
        (" 2g ", 2 << 30),
        ("1kb", 1 << 10),
        ("1tb", 1 << 40),
        ("1p", 1 << 50),
    ],
)
def test_byte_sizes_are_those_of_spark(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "m", "1.5g", "-1b", "1 g", "1bb", "1mib", "0x10", "9000p", "١m"])
def test_what_spark_would_refuse_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Spark"):
        parse_bytes(text)


@given(st.integers(0, (1 << 63) - 1))
def test_formatted_sizes_read_back(size: int) -> None:
    assert parse_bytes(config.format_bytes(size)) == size


def renamed() -> Option:
    old = OPTIONS["spark.sundog.placement"]
    return Option(old.key, old.kind, old.default, old.doc, old.category, ("spark.sundog.where", "spark.sundog.site"))


def test_former_name_works_and_warns_once() -> None:
    with pytest.warns(ConfigWarning, match=r"spark\.sundog\.site is now called spark\.sundog\.placement"):
        assert read_option(renamed(), {"spark.sundog.site": "driver"}.get) == "driver"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_option(renamed(), {"spark.sundog.site": "driver"}.get) == "driver"


def test_present_name_wins_over_a_former_one() -> None:
    conf = {"spark.sundog.site": "driver", "spark.sundog.placement": "executors"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_option(renamed(), conf.get) == "executors"


def test_bad_value_under_a_former_name_is_reported_under_it() -> None:
    with pytest.warns(ConfigWarning), pytest.raises(ConfigError, match=r"spark\.sundog\.where='moon'"):
        read_option(renamed(), {"spark.sundog.where": "moon"}.get)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("spark.sundog.topk.enable", "Did you mean spark.sundog.topk.enabled?"),
        ("spark.sundog.driver.maxbytes", "Did you mean spark.sundog.driver.maxBytes?"),
        ("spark.sundog.zzz", "`sundog doctor --settings` lists them."),
    ],
)
def test_unknown_key_warns_once_with_the_nearest_name(key: str, hint: str) -> None:
    with pytest.warns(ConfigWarning) as caught:
        config.warn_unknown_keys([key, "spark.master", "spark.sundog.enabled", key])
    assert [str(each.message) for each in caught] == [f"{key} is not a sundog setting. {hint}"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.warn_unknown_keys([key])


def test_every_option_is_documented_and_named_by_the_rule() -> None:
    for option in OPTIONS.values():
        assert option.doc.endswith(".")
        parts = option.key.removeprefix("spark.sundog.").split(".")
        assert all(part[0].islower() and part.isalnum() for part in parts), option.key

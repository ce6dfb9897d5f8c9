"""The settings that a query is planned by: current values are used at every action, and an unknown key is reported."""

from __future__ import annotations

from typing import Any

import pytest

import sundog
from sundog.config import ConfigWarning
from sundog.errors import InternalError
from sundog.front.session.session_conf import SessionConf

pytestmark = pytest.mark.spark


def test_what_is_set_is_read_and_what_is_not_has_a_default(spark: Any) -> None:
    own = spark.newSession()
    assert SessionConf.of(own).get("spark.sundog.topk.enabled") is None
    own.sql("SET spark.sundog.topk.enabled = false")
    own.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    conf = SessionConf.of(own)
    assert conf.get("spark.sundog.topk.enabled") == "false"
    assert conf.text("spark.sql.session.timeZone") == "Europe/Berlin"
    assert conf.text("spark.sql.parquet.fieldId.read.enabled") == "false"


def test_a_value_under_an_alternative_key_is_the_value(spark: Any) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.legacy.parquet.datetimeRebaseModeInRead", "LEGACY")
    assert SessionConf.of(own).text("spark.sql.parquet.datetimeRebaseModeInRead") == "LEGACY"


def test_a_key_that_is_not_read_is_not_taken_for_unset(spark: Any) -> None:
    with pytest.raises(InternalError, match=r"spark\.sql\.ansi\.enabled"):
        SessionConf.of(spark).get("spark.sql.ansi.enabled")


def test_enable_speaks_of_a_mistyped_key(spark: Any) -> None:
    own = spark.newSession()
    own.conf.set("spark.sundog.topk.enable", "false")
    with pytest.warns(ConfigWarning, match=r"spark\.sundog\.topk\.enabled"):
        sundog.enable(own)
    sundog.disable(own)

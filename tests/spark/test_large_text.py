"""Plans as text: the same as in one piece, whatever is in them, and also where the JVM gives no method handles."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.front import large_text
from sundog.front.large_text import plan_json

pytestmark = pytest.mark.spark


def wide_plan(spark: Any) -> Any:
    columns = ", ".join(f"id AS `\u00e4\U0001f600 \n{number}`" for number in range(300))
    return spark.sql(f"SELECT {columns} FROM range(10)")._jdf.queryExecution().analyzed()


def test_a_long_text_is_the_same_in_pieces(spark: Any) -> None:
    jplan = wide_plan(spark)
    assert len(jplan.toJSON()) > 10 * large_text._PIECE
    assert plan_json(spark._jvm, jplan) == jplan.toJSON()
    assert large_text._pieces_of(spark._jvm) is not None, "read in pieces"


def test_without_method_handles_it_comes_in_one_piece(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_text, "_pieces_of", lambda jvm: None)
    jplan = wide_plan(spark)
    assert plan_json(spark._jvm, jplan) == jplan.toJSON()

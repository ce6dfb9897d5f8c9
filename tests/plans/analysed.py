"""Queries that not every version of Spark can analyse, and the text of their plans."""

from __future__ import annotations

import json
import re
from typing import Any

from pyspark.errors import AnalysisException, ParseException


def analysed(spark: Any, sql: str) -> Any | None:
    """The query's DataFrame; None, with a line on the screen, where this Spark does not know something in it."""
    try:
        return spark.sql(sql)
    except (AnalysisException, ParseException) as error:
        print(f"left out: {sql}: {str(error).splitlines()[0]}")
        return None


def plan_text(frame: Any) -> str:
    """The optimised plan as JSON."""
    return stable_text(json.loads(frame._jdf.queryExecution().optimizedPlan().toJSON()))


def stable_text(nodes: Any) -> str:
    """JSON without the id of the JVM, which makes each recording different for no reason."""
    text = json.dumps(nodes, indent=1, ensure_ascii=False)
    return re.sub(r'"jvmId": "[^"]+"', '"jvmId": "jvm"', text) + "\n"

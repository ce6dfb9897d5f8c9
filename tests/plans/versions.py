"""The versions of Spark whose plans are recorded: one folder each, beside this file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sundog.front.catalyst_json import Node, parse_plan
from sundog.versions import VERSIONS

FOLDERS = [Path(__file__).parent / version for version in VERSIONS]
NEWEST = FOLDERS[-1]

_SINCE_4_2 = {
    "filters",  # FILTER in a window
    "SELECT approx_count_distinct(s), max_by(s, num, 3), max(struct(num, s)), first(array(num)) FROM events",
}
_SINCE_4_0 = {
    "collated",
    "SELECT s COLLATE UTF8_LCASE AS k, count(*) FROM events GROUP BY s COLLATE UTF8_LCASE",
    "s collate UTF8_LCASE = 'a'",
    "try_mod(l, 2)",
    "range_date",  # years and months before a date
}
_UNKNOWN_TO = {"3.5": _SINCE_4_0 | _SINCE_4_2, "4.0": _SINCE_4_2, "4.1": _SINCE_4_2}


def known_to(folder: Path, queries: Iterable[str]) -> list[str]:
    """Those of the queries, by name or by text, that the folder's Spark can analyse."""
    return [query for query in queries if query not in _UNKNOWN_TO.get(folder.name, ())]


def parse_recorded(folder: Path, text: str) -> Node:
    """A plan of the folder's version, with the names of the newest."""
    return parse_plan(text, VERSIONS[folder.name].plan_names)

"""The settings of a session that a query is planned by, read in one go: one call for each key took 3 ms together."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sundog.config import OPTIONS
from sundog.errors import InternalError
from sundog.front.jvm_objects import object_mapper, once_per_jvm
from sundog.front.large_text import json_of

_KEYS = (
    *(key for option in OPTIONS.values() for key in (option.key, *option.aliases)),
    "spark.sql.caseSensitive",
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.icu.caseMappings.enabled",
    "spark.sql.legacy.parquet.nanosAsLong",
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.parquet.int96RebaseModeInRead",
    "spark.sql.session.timeZone",
)


@dataclass(frozen=True)
class SessionConf:
    """What is set of the keys above. Any other is an error, so that none is taken for unset."""

    values: dict[str, str]

    @classmethod
    def of(cls, jvm: Any, jconf: Any) -> SessionConf:
        """`jconf` is Spark's SQLConf. Its map is copied, and what nobody asks for dropped before it comes over."""
        tree_map, keys = _tools(jvm)
        copied = tree_map(jconf.settings())
        copied.keySet().retainAll(keys)
        return cls(json.loads(object_mapper(jvm).writeValueAsString(copied)))

    def get(self, key: str, default: str | None = None) -> str | None:
        if key not in _KEYS:
            raise InternalError(f"{key} is not among the settings that are read")
        return self.values.get(key, default)

    def text(self, key: str, default: str) -> str:
        value = self.get(key)
        return default if value is None else value


def keys_set(jvm: Any, jconf: Any) -> list[str]:
    """All keys that are set, whosever they are."""
    keys: list[str] = json.loads(json_of(jvm, jconf.settings().keySet()))
    return keys


@once_per_jvm
def _tools(jvm: Any) -> tuple[Any, Any]:
    keys = jvm.java.util.ArrayList()
    for key in _KEYS:
        keys.add(key)
    return jvm.java.util.TreeMap, keys

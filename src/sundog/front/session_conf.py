"""The settings of a session that a query is planned by, as Spark itself would read them.

`SQLConf.getConfString` knows defaults, alternative keys and fallbacks; asking which keys are *set* would not. All values
come in one call: one call for each key took 3 ms together. Which keys there are, and what each means here, is in
`conf_table.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sundog.config import OPTIONS
from sundog.errors import InternalError
from sundog.front.jvm_functions import methods, text_of
from sundog.front.jvm_objects import object_mapper, once_per_jvm
from sundog.front.large_text import json_of

_SQL_CONF = "org.apache.spark.sql.internal.SQLConf"
_STRING = "java.lang.String"
_OPTION_KEYS = tuple(key for option in OPTIONS.values() for key in (option.key, *option.aliases))
_SPARK_KEYS = (
    "spark.sql.caseSensitive",
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.icu.caseMappings.enabled",
    "spark.sql.legacy.parquet.nanosAsLong",
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.enableVectorizedReader",
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.parquet.int96RebaseModeInRead",
    "spark.sql.parquet.int96TimestampConversion",
    "spark.sql.session.timeZone",
)


@dataclass(frozen=True)
class SessionConf:
    """What is set of sundog's own keys, and the effective value of Spark's. Any other key is an error."""

    options: dict[str, str]
    effective: dict[str, str | None]

    @classmethod
    def of(cls, jvm: Any, jconf: Any) -> SessionConf:
        """`jconf` is Spark's SQLConf. Its map is copied, and what nobody asks for dropped before it comes over."""
        tools = _tools(jvm)
        copied = tools.tree_map(jconf.settings())
        copied.keySet().retainAll(tools.option_keys)
        options = json.loads(object_mapper(jvm).writeValueAsString(copied))
        values = json.loads(text_of(tools.values, jconf))
        return cls(options, dict(zip(_SPARK_KEYS, values, strict=True)))

    def get(self, key: str, default: str | None = None) -> str | None:
        """What one of sundog's own keys is set to."""
        if key not in _OPTION_KEYS:
            raise InternalError(f"{key} is not among the settings that are read")
        return self.options.get(key, default)

    def text(self, key: str) -> str:
        """The value that Spark would use for one of its own keys; empty where it has none."""
        if key not in self.effective:
            raise InternalError(f"{key} is not among the settings that are read")
        return self.effective[key] or ""

    def flag(self, key: str) -> bool:
        return self.text(key).strip().lower() == "true"


def keys_set(jvm: Any, jconf: Any) -> list[str]:
    """All keys that are set, whosever they are."""
    keys: list[str] = json.loads(json_of(jvm, jconf.settings().keySet()))
    return keys


@dataclass(frozen=True)
class _Tools:
    tree_map: Any
    option_keys: Any
    values: Any  # function: SQLConf -> matcher over the JSON of the values of _SPARK_KEYS


@once_per_jvm
def _tools(jvm: Any) -> _Tools:
    made = methods(jvm)
    value = made.virtual(_SQL_CONF, "getConfString", _STRING, _STRING)
    values = [made.bind_last(value, key) for key in _SPARK_KEYS]
    return _Tools(jvm.java.util.TreeMap, _array_list(jvm, _OPTION_KEYS), made.json_pieces(made.all_of(values)))


def _array_list(jvm: Any, keys: tuple[str, ...]) -> Any:
    made = jvm.java.util.ArrayList()
    for key in keys:
        made.add(key)
    return made

"""The effective settings of a session for planning a query, as Spark itself would read them.

`SQLConf.getConfString` applies defaults, alternative keys and fallbacks, which the list of *set* keys does not. All
values come in one call: one call for each key took 3 ms together. `conf_table.py` has the keys and what each means for
sundog.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sundog.config import OPTIONS
from sundog.errors import InternalError
from sundog.front.jvm.method_handles import json_of, methods
from sundog.front.jvm.objects import object_mapper, once_per_jvm
from sundog.front.session.conf_table import DECLINES, PREFIX, allows, is_known, watched_keys
from sundog.support import Code, Declined, Reason
from sundog.versions import spark_version

_TRUSTED_KEY = "spark.sundog.trustedSettings"
_SQL_CONF = "org.apache.spark.sql.internal.SQLConf"
_STRING = "java.lang.String"
_WATCHED = frozenset(watched_keys())
_OPTION_KEYS = frozenset(key for option in OPTIONS.values() for key in (option.key, *option.aliases))


@dataclass(frozen=True)
class SessionConf:
    """The values of sundog's own keys, and the effective values of the Spark keys that matter. Reading any other key is
    an error."""

    options: dict[str, str]
    effective: dict[str, str | None]
    unknown: tuple[str, ...] = ()  # keys under `spark.sql.` that are set but not in the table

    @classmethod
    def of(cls, session: Any) -> SessionConf:
        """The settings of a classic session. Of a copy of SQLConf's map, only the needed keys are sent to Python."""
        jvm, jconf = session._jvm, session._jconf
        tools = _tools(jvm)
        copied = tools.tree_map(jconf.settings())
        spark_keys = copied.subMap("spark.sql.", "spark.sql/").keySet()
        spark_keys.removeAll(tools.known_keys)
        unknown: list[str] = [] if spark_keys.isEmpty() else json.loads(json_of(jvm, spark_keys))
        options = json.loads(object_mapper(jvm).writeValueAsString(copied.subMap("spark.sundog.", "spark.sundog/")))
        values = json.loads(tools.values(jconf))
        return cls(
            options=options,
            effective={**spark_version().absent_confs, **dict(zip(tools.watched, values, strict=True))},
            unknown=tuple(key for key in unknown if not is_known(key)),
        )

    def check(self, trusted: Collection[str]) -> None:
        """Decline if a setting changes a meaning in a way that sundog does not implement, with all reasons.

        `trusted`: settings that sundog need not know, by name or by prefix (`spark.sql.emr.*`).
        """
        reasons = [
            Reason(Code.SETTING, f"{PREFIX}{name} is {self.text(PREFIX + name) or 'unset'}: {only.doc}")
            for name, only in DECLINES.items()
            if PREFIX + name in self.effective
            and PREFIX + name not in spark_version().confs_of_the_optimizer
            and not allows(only, self.text(PREFIX + name))
        ]
        reasons += [
            Reason(
                Code.SETTING, f"{key} is set, which sundog does not know; if no answer depends on it: {_TRUSTED_KEY}"
            )
            for key in self.unknown
            if not _is_named(key, trusted)
        ]
        if reasons:
            raise Declined(*reasons)

    def get(self, key: str, default: str | None = None) -> str | None:
        """The value of one of sundog's own keys."""
        if key not in _OPTION_KEYS:
            raise InternalError(f"{key} is not among the settings that are read")
        return self.options.get(key, default)

    def text(self, key: str) -> str:
        """The value that Spark would use for one of its own keys; empty if it has none, or this Spark has no such
        key."""
        if key not in _WATCHED:
            raise InternalError(f"{key} is not among the settings that are read")
        return self.effective.get(key) or ""

    def flag(self, key: str) -> bool:
        return self.text(key).strip().lower() == "true"


def _is_named(key: str, names: Collection[str]) -> bool:
    return any(key.startswith(name[:-1]) if name.endswith("*") else key == name for name in names)


def keys_set(jvm: Any, jconf: Any) -> list[str]:
    """All keys that are set: Spark's, sundog's and others."""
    keys: list[str] = json.loads(json_of(jvm, jconf.settings().keySet()))
    return keys


@dataclass(frozen=True)
class _Tools:
    tree_map: Any
    known_keys: Any  # a Java set
    watched: tuple[str, ...]  # the `watched_keys` that this Spark has
    values: Any  # function: SQLConf -> matcher over the JSON of their values


@once_per_jvm
def _tools(jvm: Any) -> _Tools:
    registered = registered_keys(jvm)
    watched = tuple(key for key in watched_keys() if key in registered)
    made = methods(jvm)
    value = made.virtual(_SQL_CONF, "getConfString", _STRING, _STRING)
    values = made.to_json(made.all_of([made.bind_last(value, key) for key in watched]))
    known = {name for key, names in registered.items() if is_known(key) for name in (key, *names)}
    mapper = object_mapper(jvm)
    known_keys = mapper.readValue(json.dumps(sorted(known)), jvm.java.lang.Class.forName("java.util.HashSet"))
    return _Tools(jvm.java.util.TreeMap, known_keys, watched, values)


def registered_keys(jvm: Any) -> dict[str, tuple[str, ...]]:
    """Every setting that this Spark's SQLConf knows, also internal ones, with its alternative keys."""
    made = methods(jvm)
    entry = "org.apache.spark.internal.config.ConfigEntry"
    key = made.virtual(entry, "key", _STRING)
    alternatives = made.virtual(entry, "alternatives", "scala.collection.immutable.List")
    names = made.array(made.mapped(alternatives, made.identity("java.lang.Object")))
    function = made.function(made.all_of([key, names]))
    entries = getattr(jvm.org.apache.spark.sql.internal, "SQLConf$").__getattr__("MODULE$").getConfigEntries()
    found: list[tuple[str, list[str]]] = json.loads(json_of(jvm, entries.stream().map(function).toArray()))
    return {name: tuple(others) for name, others in found}

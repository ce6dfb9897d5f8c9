"""The declarations of all settings: key, type, default, meaning, category, former names.

A setting is a Spark conf under `spark.sundog.`, read anew at each action, so `spark.conf.set` works in the middle of a
notebook. `Settings` is the typed result; its fields *are* the declarations, and `docs/reference/config.md` and the
table of `sundog doctor` are generated from them. Nothing here knows Spark: the caller passes a function that looks up a
key.

A key is named `spark.sundog.<shape or part>.<what>` in camelCase. To rename one, change its key and add the old one to
`aliases`: it keeps working, and says once what to write instead.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Literal

from sundog.errors import ConfigError

PREFIX = "spark.sundog."
ConfGet = Callable[[str], str | None]


class ConfigWarning(UserWarning):
    """A setting that has no effect, or is under a former name."""


class Heading(Enum):
    """The headings of the reference page, in its order."""

    GENERAL = "General"
    SHAPES = "Shapes"
    PLACEMENT = "Where a query runs"
    MEMORY = "Memory and exchange"
    DISPLAY = "Display"


@dataclass(frozen=True)
class Kind:
    """A type of value: what a user may write, and how it is parsed. `parse` raises ValueError on anything else."""

    expected: str
    parse: Callable[[str], object]


@dataclass(frozen=True)
class Option:
    """One setting as declared."""

    key: str
    kind: Kind
    default: str
    doc: str
    category: Heading
    aliases: tuple[str, ...] = ()

    def parse(self, key: str, text: str) -> object:
        """The value of `text`, found under `key`: the option's own or a former one."""
        try:
            return self.kind.parse(text.strip())
        except ValueError as error:
            raise ConfigError.bad_value(key, text, self.kind.expected) from error


def _one_of(*words: str) -> Kind:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(text)
        return text.lower()

    return Kind(f"one of {', '.join(words)}", parse)


def _parse_boolean(text: str) -> bool:
    return {"true": True, "false": False}[_BOOLEAN_WORDS.parse(text)]  # type: ignore[index]


def _parse_boolean_or_auto(text: str) -> bool | None:
    return None if text.lower() == "auto" else _parse_boolean(text)


def _bytes(at_least: int) -> Kind:
    def parse(text: str) -> int:
        size = parse_bytes(text)
        if size < at_least:
            raise ValueError(text)
        return size

    least = f" of at least {format_bytes(at_least)}" if at_least else ""
    return Kind(f"a size in Spark's notation{least}, such as 512m, 1g or 1048576b", parse)


def _or_auto(kind: Kind) -> Kind:
    """The same, or `auto`, which is None."""
    return Kind(f"{kind.expected}, or auto", lambda text: None if text.lower() == "auto" else kind.parse(text))


_UNITS = {unit: 1 << (10 * power) for power, unit in enumerate("bkmgtp")}
_LARGEST = (1 << 63) - 1  # the JVM's largest long, which holds a size in Spark


def parse_bytes(text: str) -> int:
    """A size in Spark's notation: digits and at most one of b, k, kb, m, mb, g, gb, t, tb, p, pb. Without one:
    bytes."""
    match = re.fullmatch(r"([0-9]+)(?:(b)|([kmgtp])b?)?", text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is not a size in Spark's notation")
    size = int(match[1]) * _UNITS[match[2] or match[3] or "b"]
    if size > _LARGEST:
        raise ValueError(f"{text!r} is larger than any size that Spark can hold")
    return size


def format_bytes(size: int) -> str:
    """The shortest exact text in Spark's notation."""
    unit, factor = next(
        (unit, factor) for unit, factor in reversed(_UNITS.items()) if size % factor == 0 or factor == 1
    )
    return f"{size // factor}{unit}" if size else "0b"


def _parse_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if any("*" in name[:-1] for name in names):
        raise ValueError(text)
    return names


_TEXT = Kind("any text", str)
_NAMES = Kind("names separated by commas; `*` at the end of one stands for any ending", _parse_names)
_BOOLEAN_WORDS = _one_of("true", "false")
_BOOLEAN = Kind("true or false", _parse_boolean)
_BOOLEAN_OR_AUTO = Kind("true, false or auto", _parse_boolean_or_auto)


def _option(key: str, kind: Kind, default: str, doc: str, category: Heading, aliases: tuple[str, ...] = ()) -> Any:
    option = Option(PREFIX + key, kind, default, doc, category, tuple(PREFIX + alias for alias in aliases))
    return field(default=option.parse(option.key, default), metadata={"option": option})


@dataclass(frozen=True)
class Settings:
    """The settings of one action. `Settings()` has every default."""

    enabled: bool = _option(
        "enabled",
        _BOOLEAN,
        "true",
        "Master switch of a session on which `sundog.enable` was called. Off: Spark runs everything itself.",
        Heading.GENERAL,
    )
    mode: Literal["on", "shadow", "off"] = _option(
        "mode",
        _one_of("on", "shadow", "off"),
        "on",
        "`on`: sundog answers the queries that it takes. `shadow`: Spark answers every query; sundog runs the ones "
        "that it "
        "would take as well, and `sundog.shadow_report(spark)` tells whether the answers agree. `off`: Spark runs "
        "everything.",
        Heading.GENERAL,
    )
    on_internal_error: Literal["fallback", "raise"] = _option(
        "onInternalError",
        _one_of("fallback", "raise"),
        "fallback",
        "What a bug of sundog's own does to a query. `fallback`: Spark runs it, with reason INTERNAL and a warning "
        "in the "
        "log. `raise`: the error reaches the caller (for tests of sundog).",
        Heading.GENERAL,
    )
    floating_point: Literal["fast", "spark"] = _option(
        "floatingPoint",
        _one_of("fast", "spark"),
        "fast",
        "Sums, averages and variances of doubles, whose last bits depend on the order of addition. `fast`: in an order "
        "that suits sundog, over frames without loss by cancellation; more exact than Spark's, and so different in "
        "the last "
        "bits. `spark`: over frames in Spark's order, bit for bit where the order key is unique; by group, left to "
        "Spark.",
        Heading.GENERAL,
    )
    decoder: Literal["own", "arrow"] = _option(
        "decoder",
        _one_of("own", "arrow"),
        "own",
        "The decoder of pages. `own`: sundog's kernels where they can, Arrow for the rest. `arrow`: Arrow always.",
        Heading.GENERAL,
    )
    trusted_settings: tuple[str, ...] = _option(
        "trustedSettings",
        _NAMES,
        "",
        "Settings of your platform that change no answer. A query under a `spark.sql.*` setting that sundog does "
        "not know "
        "stays on Spark, unless it is named here: `spark.sql.emr.*, spark.sql.house.style`.",
        Heading.GENERAL,
    )
    learn: bool = _option(
        "learn",
        _BOOLEAN,
        "true",
        "Leave a query to Spark that Spark runs faster, as far as this session has seen: one on which sundog took "
        "suspiciously long twice is run by Spark once, and both times are compared. The reason is LEARNED.",
        Heading.GENERAL,
    )
    topk_enabled: bool = _option(
        "topk.enabled", _BOOLEAN, "true", "Accelerate `ORDER BY … LIMIT k` over Parquet.", Heading.SHAPES
    )
    topk_dynamic_pruning: bool = _option(
        "topk.dynamicPruning.enabled",
        _BOOLEAN,
        "true",
        "Check the k-th best value found so far against the statistics of each row group before reading it. Off: "
        "statistics are used once, at the start (for comparison).",
        Heading.SHAPES,
    )
    window_enabled: bool = _option("window.enabled", _BOOLEAN, "true", "Accelerate window functions.", Heading.SHAPES)
    aggregate_enabled: bool = _option("aggregate.enabled", _BOOLEAN, "true", "Accelerate `GROUP BY`.", Heading.SHAPES)
    sort_enabled: bool = _option(
        "sort.enabled",
        _BOOLEAN,
        "true",
        "Accelerate `ORDER BY` without LIMIT of a result that comes to the driver.",
        Heading.SHAPES,
    )
    join_enabled: bool = _option(
        "join.enabled",
        _BOOLEAN,
        "true",
        "Take joins along with the shapes around them. Off: a join stays on Spark, and so does everything above it.",
        Heading.SHAPES,
    )
    placement: Literal["auto", "driver", "executors"] = _option(
        "placement",
        _one_of("auto", "driver", "executors"),
        "auto",
        "`driver`: threads of the driver process. `executors`: tasks of the Spark cluster. `auto`: the driver when the "
        "column bytes left after pruning are at most `spark.sundog.driver.maxBytes`.",
        Heading.PLACEMENT,
    )
    driver_max_bytes: int = _option(
        "driver.maxBytes",
        _bytes(at_least=0),
        "512m",
        "Uncompressed column bytes up to which `auto` keeps a query on the driver; twice as many under a WHERE. In a "
        "local session four times as many, up to a fifth of the machine's memory, but for windows.",
        Heading.PLACEMENT,
    )
    executor_process: Literal["auto", "slot", "executor"] = _option(
        "executor.process",
        _one_of("auto", "slot", "executor"),
        "auto",
        "Python processes of a query on executors. `slot`: one for each core, as Spark starts them. `executor`: one "
        "for each executor (several if it has more than eight cores), whose threads run the tasks of its cores, where "
        "Spark can schedule such tasks: on standalone clusters, YARN and Kubernetes without dynamic allocation, Spark "
        "4.0 and newer; elsewhere as `slot`. `auto`: `executor`, unless another job of the application is running or "
        "`spark.scheduler.mode` is FAIR, since such tasks wait until all the cores that they need are free.",
        Heading.PLACEMENT,
    )
    costs: str = _option(
        "costs",
        _TEXT,
        "",
        "What work costs on this machine and cluster: the file that `sundog doctor --calibrate` wrote, or a JSON "
        "object of "
        "names and numbers. Empty: the costs that come with sundog, which `sundog.explain(df, costs=True)` shows.",
        Heading.PLACEMENT,
    )
    task_memory_bytes: int | None = _option(
        "task.memoryBytes",
        _or_auto(_bytes(at_least=1 << 20)),
        "auto",
        "Memory budget of one task. Over it, partial states are emitted early or spilled. `auto`: 1g, or what the "
        "executor's memory settings leave for a task: all of it if that is less, else three quarters, at most 4g.",
        Heading.MEMORY,
    )
    exchange_block_bytes: int = _option(
        "exchange.blockBytes",
        _bytes(at_least=1 << 10),
        "4m",
        "Size of the Arrow blocks in which rows move between the stages of a query on executors.",
        Heading.MEMORY,
    )
    ui_enabled: bool = _option(
        "ui.enabled",
        _BOOLEAN,
        "true",
        "Show each action that sundog takes in the SQL tab of Spark's UI, with its plan and metrics, and so in the "
        "event log. It costs some 5 ms an action. Off: only the jobs that it starts are there.",
        Heading.DISPLAY,
    )
    progress_enabled: bool | None = _option(
        "progress.enabled",
        _BOOLEAN_OR_AUTO,
        "auto",
        "Show the progress of long actions. `auto`: only in a terminal or a notebook.",
        Heading.DISPLAY,
    )


_OPTION_BY_FIELD: dict[str, Option] = {each.name: each.metadata["option"] for each in fields(Settings)}
OPTIONS: dict[str, Option] = {option.key: option for option in _OPTION_BY_FIELD.values()}


def read_settings(conf_get: ConfGet) -> Settings:
    """The settings as they are now. An unreadable value is a ConfigError naming key, value and expectation.

    `conf_get` is called for every key and former key, so pass a dictionary's `get`, not one call to the JVM each.
    """
    return Settings(**{name: read_option(option, conf_get) for name, option in _OPTION_BY_FIELD.items()})  # type: ignore[arg-type]


def read_option(option: Option, conf_get: ConfGet) -> object:
    """The value under the option's key, or a former key, or the default."""
    text = conf_get(option.key)
    if text is not None:
        return option.parse(option.key, text)
    for alias in option.aliases:
        text = conf_get(alias)
        if text is not None:
            _warn_once(alias, f"{alias} is now called {option.key}; the old name still works.")
            return option.parse(alias, text)
    return option.parse(option.key, option.default)


def warn_unknown_keys(keys: Iterable[str]) -> None:
    """Warn once of each `spark.sundog.*` key that is not a setting, with the key that was probably meant."""
    known = {name for option in OPTIONS.values() for name in (option.key, *option.aliases)}
    for key in keys:
        if key.startswith(PREFIX) and key not in known:
            _warn_once(key, str(ConfigError.unknown_key(key, _nearest(key))))


def _nearest(key: str) -> list[str]:
    """Similar keys. Compared without the prefix, which would make any two keys similar."""
    names = [option.removeprefix(PREFIX) for option in OPTIONS]
    return [PREFIX + name for name in difflib.get_close_matches(key.removeprefix(PREFIX), names, n=1)]


_warned: set[str] = set()


def _warn_once(key: str, message: str) -> None:
    if key not in _warned:
        _warned.add(key)
        warnings.warn(message, ConfigWarning, stacklevel=2)

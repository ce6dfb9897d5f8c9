"""Broadcast variables for build sides of joins and their keys: sent once to each executor, not with every task.

A stage's function is pickled and sent with its tasks, and a build side or a large set of keys would be sent with each.
So the pickle has only a number for such a value, and the value is a Spark broadcast variable. A Python worker loads it
when a task first needs it, and keeps it for later tasks. The workers of an executor share the memory of large ones
(`processes/mapping.py`). `plan/sites.py` decides which values travel how.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sundog.expr.dynamic_filters.key_set import KeySet
from sundog.operators.join.build_side import BuildSide
from sundog.runtime.processes.mapping import Mapped

if TYPE_CHECKING:
    from sundog.plan.sites import TravelRule


class SharedValues:
    """The broadcast variables of one run."""

    def __init__(self, context: Any, rule: TravelRule) -> None:
        self._context = context
        self._rule = rule
        self._numbers: dict[int, int] = {}
        self._values: list[object] = []  # kept alive, so that no other object gets one of their `id`s
        self._broadcasts: list[Any] = []

    @property
    def broadcasts(self) -> tuple[Any, ...]:
        return tuple(self._broadcasts)

    def dump(self, value: object) -> bytes:
        """The value as bytes that `load_sharing` takes."""
        buffer = io.BytesIO()
        _Pickler(buffer, self).dump(value)
        return buffer.getvalue()

    def number_of(self, value: BuildSide | KeySet) -> int | None:
        """The number of its broadcast variable, made at the first request; None if the value travels with tasks."""
        if not self._rule.is_broadcast(value.nbytes):
            return None
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._broadcasts)
            self._values.append(value)
            packed = Mapped(value) if self._rule.is_mapped(value.nbytes) else value
            self._broadcasts.append(self._context.broadcast(packed))
        return self._numbers[id(value)]

    def release(self) -> None:
        while self._broadcasts:
            self._broadcasts.pop().unpersist()
        self._numbers.clear()
        self._values.clear()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, shared: SharedValues) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._shared = shared

    def persistent_id(self, obj: Any) -> int | None:
        return self._shared.number_of(obj) if isinstance(obj, BuildSide | KeySet) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: Sequence[Any]) -> None:
        super().__init__(file)
        self._shared = shared

    def persistent_load(self, pid: int) -> Any:
        return self._shared[pid].value


def load_sharing(data: bytes, shared: Sequence[Any]) -> Any:
    """Load what `SharedValues.dump` wrote. `shared`: the broadcast variables, on the worker."""
    return _Unpickler(io.BytesIO(data), shared).load()

"""Build sides of joins on their way to executors: once to each, not once with every task.

What a stage runs is pickled and sent with its tasks. A build side or a large set of keys would be sent with each of
them. So these are left out of the pickle, which holds their number instead, and go as broadcast variables of Spark's: a
Python worker loads one when a task first needs it, and keeps it for the tasks that follow. The workers of an executor
share the memory of large ones (`processes/mapping.py`), unless Spark encrypts what it writes to local disks.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

from sundog.expr.dynamic_filters.key_set import KeySet
from sundog.operators.join.build_side import BuildSide
from sundog.runtime.processes import mapping

_MIN_SHARED_BYTES = 1 << 16


class SharedValues:
    """The broadcast variables of one run."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._numbers: dict[int, int] = {}
        self._values: list[object] = []  # kept, so that no other object gets the identity of one of them
        self._broadcasts: list[Any] = []

    @property
    def broadcasts(self) -> tuple[Any, ...]:
        return tuple(self._broadcasts)

    def dump(self, value: object) -> bytes:
        """The value as bytes that `load_sharing` takes."""
        buffer = io.BytesIO()
        _Pickler(buffer, self).dump(value)
        return buffer.getvalue()

    def number_of(self, value: object) -> int:
        """The number of a broadcast variable, which is made when first asked for."""
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._broadcasts)
            self._values.append(value)
            self._broadcasts.append(self._context.broadcast(self._packed(value)))
        return self._numbers[id(value)]

    def _packed(self, value: Any) -> object:
        """As it travels. A local file that sundog writes is not encrypted."""
        encrypted = self._context.getConf().get("spark.io.encryption.enabled", "false").lower() == "true"
        return value if encrypted or value.nbytes < mapping.MIN_MAPPED_BYTES else mapping.Mapped(value)

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
        is_large = isinstance(obj, BuildSide | KeySet) and obj.nbytes >= _MIN_SHARED_BYTES
        return self._shared.number_of(obj) if is_large else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: Sequence[Any]) -> None:
        super().__init__(file)
        self._shared = shared

    def persistent_load(self, pid: int) -> Any:
        return self._shared[pid].value


def load_sharing(data: bytes, shared: Sequence[Any]) -> Any:
    """What `SharedValues.dump` wrote. `shared` are the broadcast variables, on the worker."""
    return _Unpickler(io.BytesIO(data), shared).load()

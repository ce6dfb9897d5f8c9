"""JVM objects that are looked up once: a py4j call takes 0.1 to 0.3 ms, and `jvm.java.util.Map` makes three."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


def once_per_jvm(make: Callable[[Any], T]) -> Callable[[Any], T]:
    """Cache the function's result for each JVM."""
    made: WeakKeyDictionary[Any, T] = WeakKeyDictionary()

    @wraps(make)
    def get(jvm: Any) -> T:
        if jvm not in made:
            made[jvm] = make(jvm)
        return made[jvm]

    return get


@once_per_jvm
def object_mapper(jvm: Any) -> Any:
    """Jackson's mapper, which writes any Java value as JSON."""
    return jvm.com.fasterxml.jackson.databind.ObjectMapper()

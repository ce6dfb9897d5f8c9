"""The one place that knows numba: how every kernel is compiled, cached and warmed up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a plain loop over arrays: releases the GIL, keeps IEEE arithmetic, caches the machine code on disk."""
    return cast(F, numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=False)(function))

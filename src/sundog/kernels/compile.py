"""The one place that decides how kernels are compiled, cached and warmed up.

A kernel is a plain loop over arrays that the caller owns. How it is compiled is the same for all of them:

- `nogil`: the driver runtime runs stages on threads, and a kernel must not stop the others;
- `fastmath` off: reordering additions or assuming away NaN and -0.0 would change answers, and Spark is the oracle;
- `error_model="numpy"`: a division by zero in a kernel gives IEEE's answer; where Spark raises, the operator has
  checked;
- cached on disk (`code_cache`), since a first call otherwise costs a compilation in each Python worker.

Measured with numba 0.68 on one core of a server: importing numba takes 0.3 s. Compiling a small kernel takes 0.15 to
0.2 s, the first of a process 0.4 s with numba's initialization. Loading one from the cache takes 3 ms, the first of a
process 0.03 s. A cached entry is about 20 kB. numba's own cache costs the same; `code_cache` says why it is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar, cast, overload

import numba
from numba.core.dispatcher import Dispatcher

from sundog.kernels.cache.code_cache import install_code_cache

F = TypeVar("F", bound=Callable[..., Any])

_kernels: list[Any] = []
_warmups: list[Callable[[], object]] = []


@overload
def kernel(function: F, /) -> F: ...


@overload
def kernel(*, inline: bool = False, signatures: Sequence[Any] = ()) -> Callable[[F], F]: ...


def kernel(
    function: F | None = None, /, *, inline: bool = False, signatures: Sequence[Any] = ()
) -> F | Callable[[F], F]:
    """Compile a loop when it is first called with arguments of new types. Use as `@kernel` or with options.

    `inline` is for a helper that other kernels call in their innermost loop: LLVM then always dissolves it into the
    caller. `signatures` (in numba's notation, such as `"int64(int64[::1])"`) are what `warm_up` prepares. Kernels
    belong at the top level of a module; one that closes over variables works but is not cached.
    """

    def compiled(function: F) -> F:
        dispatcher = numba.njit(nogil=True, error_model="numpy", fastmath=False, forceinline=inline)(function)
        if isinstance(dispatcher, Dispatcher):  # with NUMBA_DISABLE_JIT=1 it is the function itself
            install_code_cache(dispatcher)
            _kernels.append(dispatcher)
            _warmups.extend(_compilation(dispatcher, signature) for signature in signatures)
        return cast(F, dispatcher)

    return compiled if function is None else compiled(function)


def register_warmup(call: Callable[[], object]) -> Callable[[], object]:
    """Have `warm_up` make this call, which runs kernels on a few made-up rows. Usable as a decorator."""
    _warmups.append(call)
    return call


@dataclass(frozen=True)
class WarmUp:
    """What a warm-up did: compilations, loads from the cache on disk, and the time of both."""

    compiled: int
    loaded: int
    seconds: float


def warm_up() -> WarmUp:
    """Prepare the kernels of all modules imported so far, so that a first query need not wait for them."""
    compiled, loaded, start = *_counts(), perf_counter()
    for call in list(_warmups):
        call()
    compiled_after, loaded_after = _counts()
    return WarmUp(compiled_after - compiled, loaded_after - loaded, perf_counter() - start)


def compile_check() -> float:
    """Seconds until a first kernel gives its answer. Raises whatever keeps numba from compiling on this machine."""
    start = perf_counter()
    if _one_more(41) != 42:
        raise AssertionError("a compiled kernel gave a wrong answer")
    return perf_counter() - start


@kernel
def _one_more(value: int) -> int:
    return value + 1


def _counts() -> tuple[int, int]:
    stats = [dispatcher.stats for dispatcher in _kernels]
    return (
        sum(sum(each.cache_misses.values()) for each in stats),
        sum(sum(each.cache_hits.values()) for each in stats),
    )


def _compilation(dispatcher: Any, signature: Any) -> Callable[[], object]:
    return lambda: dispatcher.compile(signature)

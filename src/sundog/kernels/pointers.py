"""Bytes at a raw address, for kernels that follow a string into the Arrow buffer that holds it.

A group key of type string is carried as length, prefix and address (`kernels/strings.py`), so that moving a key never
moves its bytes; and a page is decoded where it lies. Loads, stores, a copy and a hint to the processor are all that is
needed; they are unaligned, and the caller guarantees that the address range belongs to a buffer that it keeps alive.
The hint may name any address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _loads(bits: int) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()), align=1)

    return generate


def _stores(bits: int) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()), align=1)
        return context.get_dummy_value()

    return generate


@intrinsic  # type: ignore[untyped-decorator]
def _load_u8(typing_context: Any, address: Any) -> Any:
    return types.uint8(types.int64), _loads(8)


@intrinsic  # type: ignore[untyped-decorator]
def _load_u32(typing_context: Any, address: Any) -> Any:
    return types.uint32(types.int64), _loads(32)


@intrinsic  # type: ignore[untyped-decorator]
def _load_u64(typing_context: Any, address: Any) -> Any:
    return types.uint64(types.int64), _loads(64)


@intrinsic  # type: ignore[untyped-decorator]
def _store_u32(typing_context: Any, address: Any, word: Any) -> Any:
    return types.void(types.int64, types.uint32), _stores(32)


@intrinsic  # type: ignore[untyped-decorator]
def _store_u64(typing_context: Any, address: Any, word: Any) -> Any:
    return types.void(types.int64, types.uint64), _stores(64)


@intrinsic  # type: ignore[untyped-decorator]
def _copy_bytes(typing_context: Any, target: Any, source: Any, count: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        target, source = (builder.inttoptr(each, byte_pointer) for each in arguments[:2])
        cgutils.raw_memcpy(builder, target, source, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte_pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        hint = ir.FunctionType(ir.VoidType(), [byte_pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], hint)
        to_read, keep, data = number(0), number(3), number(1)
        builder.call(function, [builder.inttoptr(arguments[0], byte_pointer), to_read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


load_u8 = cast(Callable[[int], Any], _load_u8)
load_u32 = cast(Callable[[int], Any], _load_u32)
load_u64 = cast(Callable[[int], Any], _load_u64)
store_u32 = cast(Callable[[int, Any], None], _store_u32)
store_u64 = cast(Callable[[int, Any], None], _store_u64)
copy_bytes = cast(Callable[[int, int, int], None], _copy_bytes)
prefetch = cast(Callable[[int], None], _prefetch)

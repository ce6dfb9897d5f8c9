"""Concatenation of vectors: strings of several vectors point into one list of blocks, so that they can be mixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.vectors import Blocks, Ints, Vector, full_mask, nulls
from sundog.kernels.strings import renumber_blocks


def concat(parts: Sequence[Vector]) -> Vector:
    """The vectors one after the other; `parts` is not empty."""
    if len(parts) == 1:
        return parts[0]
    dtype, length = parts[0].dtype, sum(part.length for part in parts)
    if all(part.all_null for part in parts):
        return nulls(dtype, length)
    parts, blocks = on_shared_blocks(parts)
    values = np.concatenate([part.values for part in parts])
    valid = None
    if any(part.valid is not None or part.all_null for part in parts):
        valid = np.concatenate([full_mask(part) for part in parts])
    return Vector(dtype, length, values, valid, blocks)


def shared_blocks(parts: Sequence[Vector]) -> tuple[Blocks, list[int]]:
    """The blocks of all parts, and for each part the number of blocks before its own."""
    places: dict[tuple[int, ...], int] = {}
    blocks: list[pa.Buffer] = []
    firsts = []
    for part in parts:
        addresses = tuple(block.address for block in part.blocks)
        if addresses not in places:
            places[addresses] = len(blocks)
            blocks += part.blocks
        firsts.append(places[addresses])
    return tuple(blocks), firsts


def on_shared_blocks(parts: Sequence[Vector]) -> tuple[Sequence[Vector], Blocks]:
    """Strings that point into blocks that all parts share, so that they can be mixed."""
    blocks, firsts = shared_blocks(parts)
    moved = []
    for part, first in zip(parts, firsts, strict=True):
        if first > 0 and not part.all_null:
            part = Vector(part.dtype, part.length, on_blocks_behind(first, part.values), part.valid, blocks)
        moved.append(part)
    return moved, blocks


def on_blocks_behind(first: int, views: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Strings renumbered for blocks that come after `first` others."""
    if first == 0:
        return views
    moved = np.empty_like(views)
    renumber_blocks(views, first, moved)
    return moved


def addresses(blocks: Sequence[pa.Buffer]) -> Ints:
    return np.array([block.address for block in blocks], np.int64)

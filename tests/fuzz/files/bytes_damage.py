"""Random damage: one or a few bytes of a valid file are changed, without knowledge of the format."""

from __future__ import annotations

import numpy as np

_TELLING = (0, 1, 2, 127, 128, 255)


def damaged(content: bytes, random: np.random.Generator) -> bytes:
    """A few bytes changed, mostly one; seldom the file is cut, or a piece of it is somewhere else."""
    raw = bytearray(content)
    kind = random.random()
    if kind < 0.05:
        return bytes(raw[: int(random.integers(0, len(raw)))])
    if kind < 0.1:
        start, to = (int(at) for at in random.integers(0, len(raw), 2))
        piece = raw[start : start + int(random.integers(1, 64))]
        raw[to : to + len(piece)] = piece
        return bytes(raw)
    for _ in range(1 if kind < 0.8 else int(random.integers(2, 6))):
        at = _position(raw, random)
        how = random.random()
        if how < 0.4:
            raw[at] = int(random.choice(_TELLING))
        elif how < 0.7:
            raw[at] ^= 1 << int(random.integers(0, 8))
        else:
            raw[at] = int(random.integers(0, 256))
    return bytes(raw)


def _position(raw: bytearray, random: np.random.Generator) -> int:
    """Anywhere, and as often in the footer, which is a small part of a file and says the most."""
    if random.random() < 0.5:
        return int(random.integers(0, len(raw)))
    footer = int.from_bytes(raw[-8:-4], "little")
    return int(random.integers(max(0, len(raw) - 8 - footer), len(raw)))

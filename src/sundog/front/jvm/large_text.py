"""Long strings out of the JVM without py4j's delay of 40 ms each.

py4j's server writes an answer in pieces of 8 KiB. For a longer one, the second piece waits until the first is
acknowledged (Nagle's algorithm), and the other side, having nothing to send, delays that acknowledgement by 40 ms. The
optimised plan of a table of thirty columns is such an answer: `toJSON` took 44 ms, of which Spark worked for one.

So a text that is too long for one answer stays in the JVM, where it is compressed, and comes over in pieces that fit,
one call each. The plan of a join of nine tables has 70,000 characters: 10 pieces, or one if compressed. Method handles
call `toJSON` inside the JVM, made into one function so that its result stays there (`method_handles.py`).
"""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError

from sundog.front.jvm.objects import once_per_jvm

_PIECE = 7000  # characters, most of them one byte in UTF-8
log = logging.getLogger("sundog")


@dataclass(frozen=True)
class TextFunction:
    """A function of the JVM from an object to a text. `compressed`: long texts are sent compressed."""

    jfunction: Any
    compressed: bool

    def __call__(self, argument: Any) -> str:
        answer = self.jfunction.apply(argument)
        if isinstance(answer, str):
            return answer
        pieces = []
        while answer.find():
            pieces.append(answer.group())
        text = "".join(pieces)
        return _decompressed(base64.b64decode(text)) if self.compressed else text


def _decompressed(data: bytes) -> str:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return str(stream.read(), "utf-8")


@dataclass(frozen=True)
class Packing:
    """JVM objects that pack texts."""

    is_short: Any  # Predicate: a text that fits one answer
    pieces: Any  # Pattern: matches a text piece by piece, each of which fits one answer
    encoder: Any  # of base64
    compresses: bool


@once_per_jvm
def packing(jvm: Any) -> Packing:
    compiled = jvm.java.util.regex.Pattern.compile
    return Packing(
        is_short=compiled(rf"(?s)\A.{{0,{_PIECE}}}\z").asPredicate(),
        pieces=compiled(f"(?s).{{1,{_PIECE}}}"),
        encoder=jvm.java.util.Base64.getEncoder(),
        compresses=_compresses(jvm),
    )


def _compresses(jvm: Any) -> bool:
    """Whether this JVM can load the library with which Spark compresses its own map statuses."""
    try:
        return len(jvm.com.github.luben.zstd.Zstd.compress(b"sundog")) > 0
    except (Py4JError, TypeError) as error:
        log.info("long plans are read uncompressed, which takes more calls: %s", error)
        return False

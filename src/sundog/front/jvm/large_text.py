"""Long strings out of the JVM, without the 40 ms that each of them costs.

py4j's server writes an answer in pieces of 8 KiB. The second piece of one that is longer waits for the first to be
acknowledged (Nagle's algorithm), and the other side delays that acknowledgement by 40 ms, having nothing to send. The
optimised plan of a table of thirty columns is such an answer: `toJSON` took 44 ms, of which Spark worked for one.

So the text stays in the JVM, where a regular expression cuts it, and comes over in pieces that fit. `functions.py`
composes the method that returns a text with the one that cuts it, so that the whole text never crosses.
"""

from __future__ import annotations

from typing import Any

from sundog.front.jvm.objects import object_mapper, once_per_jvm

_PIECE = 7000  # characters, most of which are a byte in UTF-8


def json_of(jvm: Any, jvalues: Any) -> str:
    """A Java array or collection as JSON: a call for each element takes 0.1 ms."""
    writer_class, pattern = _writing(jvm)
    writer = writer_class()
    object_mapper(jvm).writeValue(writer, jvalues)
    return joined_pieces(pattern.matcher(writer.getBuffer()))


def joined_pieces(matcher: Any) -> str:
    """What a matcher of `pattern_of_pieces` finds, put together."""
    pieces = []
    while matcher.find():
        pieces.append(matcher.group())
    return "".join(pieces)


@once_per_jvm
def _writing(jvm: Any) -> tuple[Any, Any]:
    return jvm.java.io.StringWriter, pattern_of_pieces(jvm)


def pattern_of_pieces(jvm: Any) -> Any:
    """Matches a text piece by piece, each short enough for one answer."""
    return jvm.java.util.regex.Pattern.compile(f"(?s).{{1,{_PIECE}}}")

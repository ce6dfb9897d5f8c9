"""Long strings out of the JVM, without the 40 ms that each of them costs.

py4j's server writes an answer in pieces of 8 KiB. The second piece of one that is longer waits for the first to be
acknowledged (Nagle's algorithm), and the other side delays that acknowledgement by 40 ms, having nothing to send. The
optimised plan of a table of thirty columns is such an answer: `toJSON` took 44 ms, of which Spark worked for one.

So the text stays in the JVM, where a regular expression cuts it, and comes over in pieces that fit. What calls `toJSON`
there without its result coming here are method handles, made into one function.
"""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JError

from sundog.front.jvm.objects import object_mapper, once_per_jvm

_PIECE = 7000  # characters, most of which are a byte in UTF-8
log = logging.getLogger("sundog")


def plan_json(jvm: Any, jplan: Any) -> str:
    """`jplan.toJSON()`."""
    pieces_of = _pieces_of(jvm)
    if pieces_of is None:
        return str(jplan.toJSON())
    return joined_pieces(pieces_of.apply(jplan))


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


@once_per_jvm
def _pieces_of(jvm: Any) -> Any | None:
    """The function from a TreeNode to a matcher of the pieces of its JSON; None where this JVM does not let us."""
    invoke, of_name = jvm.java.lang.invoke, jvm.java.lang.Class.forName
    try:
        lookup = invoke.MethodHandles.publicLookup()
        returns_text = invoke.MethodType.methodType(of_name("java.lang.String"))
        tree_node = of_name("org.apache.spark.sql.catalyst.trees.TreeNode")
        to_json = lookup.findVirtual(tree_node, "toJSON", returns_text)
        pieces = pattern_of_pieces(jvm)
        matches = invoke.MethodType.methodType(of_name("java.util.regex.Matcher"), of_name("java.lang.CharSequence"))
        in_pieces = lookup.bind(pieces, "matcher", matches)
        of_text = in_pieces.asType(in_pieces.type().changeParameterType(0, of_name("java.lang.String")))
        both = invoke.MethodHandles.filterReturnValue(to_json, of_text)
        return invoke.MethodHandleProxies.asInterfaceInstance(of_name("java.util.function.Function"), both)
    except Py4JError as error:
        log.info("long plans are read in one piece, which takes 40 ms longer: %s", error)
        return None

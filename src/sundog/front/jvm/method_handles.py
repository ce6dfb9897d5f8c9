"""JVM functions composed of the JVM's own methods, so that intermediate values never cross to Python.

A py4j call takes 0.1 to 0.3 ms, so a listing of a thousand files read getter by getter would take a second. Method
handles are composed once (`lookup -> chain -> function`) and then run over a whole collection in one call; only the
JSON of the result is sent (`large_text.py` sends it if it is long).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sundog.front.jvm.large_text import TextFunction, packing
from sundog.front.jvm.objects import object_mapper, once_per_jvm
from sundog.versions import spark_version

_PRIMITIVES = {
    "boolean": "Boolean",
    "char": "Character",
    "double": "Double",
    "float": "Float",
    "int": "Integer",
    "long": "Long",
}


class Methods:
    """Method handles of one JVM, by class and method name."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._class_of = jvm.java.lang.Class.forName
        self._invoke = jvm.java.lang.invoke
        self._handles = self._invoke.MethodHandles
        self._lookup = self._handles.publicLookup()
        self._array = jvm.java.lang.reflect.Array
        self.object = self._class_of("java.lang.Object")
        self._objects = self._class_of("[Ljava.lang.Object;")

    def virtual(self, owner: str, name: str, returns: str, *parameters: str) -> Any:
        """The method `name` of class `owner`; types are class names, `long` and the like for primitives."""
        return self._lookup.findVirtual(self._type(owner), name, self._method_type(returns, parameters))

    def static(self, owner: str, name: str, returns: str, *parameters: str) -> Any:
        return self._lookup.findStatic(self._type(owner), name, self._method_type(returns, parameters))

    def getter(self, owner: str, name: str) -> Any:
        """The method `name` of class `owner` without arguments, whatever its return type in this Spark version."""
        return self._lookup.unreflect(self._class_of(owner).getMethod(name, self._array_of("java.lang.Class", [])))

    def chain(self, first: Any, *others: Any) -> Any:
        """`first`, then each of the others on the result of the previous one."""
        for other in others:
            returned = first.type().returnType()
            first = self._handles.filterReturnValue(first, other.asType(other.type().changeParameterType(0, returned)))
        return first

    def bind_last(self, handle: Any, argument: Any) -> Any:
        """The handle with its last argument fixed."""
        last = handle.type().parameterCount() - 1
        return self._handles.insertArguments(handle, last, self._array_of("java.lang.Object", [argument]))

    def all_of(self, handles: Sequence[Any]) -> Any:
        """From one object to the array of the handles' results for it."""
        count = len(handles)
        owner = handles[0].type().parameterType(0)
        collector = self._handles.identity(self._objects).asCollector(self._objects, count)
        boxed = [handle.asType(handle.type().changeReturnType(self.object)) for handle in handles]
        each = self._handles.filterArguments(collector, 0, self._array_of("java.lang.invoke.MethodHandle", boxed))
        order = self._array.newInstance(
            self._jvm.java.lang.Integer.TYPE, count
        )  # all zeros: the same argument for each
        same = self._invoke.MethodType.methodType(self._objects, owner)
        return self._handles.permuteArguments(each, same, order)

    def as_list(self) -> Any:
        """From a Scala sequence to a Java list."""
        converters, method = spark_version().as_java_list
        return self.static(converters, method, "java.util.List", "scala.collection.Seq")

    def as_set(self) -> Any:
        converters, method = spark_version().as_java_set
        return self.static(converters, method, "java.util.Set", "scala.collection.Set")

    def as_map(self) -> Any:
        converters, method = spark_version().as_java_map
        return self.static(converters, method, "java.util.Map", "scala.collection.Map")

    def mapped(self, collection_of: Any, function: Any, as_java: Any = None) -> Any:
        """From an object to a stream: `function` of each element of the Scala sequence that `collection_of` returns.

        `as_java` converts to a Java collection if it is not a sequence.
        """
        as_java = self.as_list() if as_java is None else as_java
        stream = self.virtual("java.util.Collection", "stream", "java.util.stream.Stream")
        over = self.virtual("java.util.stream.Stream", "map", "java.util.stream.Stream", "java.util.function.Function")
        return self.chain(collection_of, as_java, stream, self.bind_last(over, self.function(function)))

    def array(self, stream_of: Any) -> Any:
        """The handle, with the stream that it returns as an array."""
        return self.chain(stream_of, self.virtual("java.util.stream.Stream", "toArray", "[Ljava.lang.Object;"))

    def identity(self, of: str) -> Any:
        return self._handles.identity(self._type(of))

    def class_name(self) -> Any:
        """From any object to the name of its class."""
        return self.chain(
            self.virtual("java.lang.Object", "getClass", "java.lang.Class"),
            self.virtual("java.lang.Class", "getName", "java.lang.String"),
        )

    def by_class(self, handles: Mapping[str, Any], otherwise: Any) -> Any:
        """From an object to the result of the handle of the first class that it is an instance of."""
        result = self._generic(otherwise)
        for name, handle in reversed(list(handles.items())):
            is_instance = self._lookup.bind(
                self._type(name), "isInstance", self._method_type("boolean", ("java.lang.Object",))
            )
            result = self._handles.guardWithTest(is_instance, self._generic(handle), result)
        return result

    def unless_null(self, handle: Any) -> Any:
        """The handle, returning null for null."""
        is_null = self.static("java.util.Objects", "isNull", "boolean", "java.lang.Object")
        return self._handles.guardWithTest(is_null, self._handles.identity(self.object), self._generic(handle))

    def function(self, handle: Any, interface: str = "java.util.function.Function") -> Any:
        """The handle as an object of an interface with one abstract method, such as Scala's Function1."""
        return self._invoke.MethodHandleProxies.asInterfaceInstance(self._class_of(interface), handle)

    def to_json(self, handle: Any) -> TextFunction:
        """A function to the JSON of what the handle returns."""
        write = self._lookup.bind(
            object_mapper(self._jvm), "writeValueAsString", self._method_type("java.lang.String", ("java.lang.Object",))
        )
        return self.to_text(self.chain(handle, write))

    def to_text(self, handle: Any) -> TextFunction:
        """A function to the text that the handle returns."""
        tools = packing(self._jvm)
        is_short = self.virtual("java.util.function.Predicate", "test", "boolean", "java.lang.Object")
        packed = self.identity("java.lang.String")
        if tools.compresses:
            to_bytes = self.virtual("java.lang.String", "getBytes", "[B", "java.lang.String")
            encode = self.virtual("java.util.Base64$Encoder", "encodeToString", "java.lang.String", "[B")
            compress = self.static("com.github.luben.zstd.Zstd", "compress", "[B", "[B")
            packed = self.chain(self.bind_last(to_bytes, "UTF-8"), compress, encode.bindTo(tools.encoder))
        in_pieces = self.virtual(
            "java.util.regex.Pattern", "matcher", "java.util.regex.Matcher", "java.lang.CharSequence"
        ).bindTo(tools.pieces)
        sent = self._handles.guardWithTest(
            is_short.bindTo(tools.is_short),
            self._handles.identity(self.object),
            self._generic(self.chain(packed, in_pieces)),
        )
        return TextFunction(self.function(self.chain(handle, sent)), tools.compresses)

    def _array_of(self, element: str, values: Sequence[Any]) -> Any:
        array = self._array.newInstance(self._class_of(element), len(values))
        for index, value in enumerate(values):
            self._array.set(array, index, value)
        return array

    def _method_type(self, returns: str, parameters: Sequence[str]) -> Any:
        made = self._invoke.MethodType.methodType(self._type(returns))
        for index, parameter in enumerate(parameters):
            made = made.insertParameterTypes(index, self._array_of("java.lang.Class", [self._type(parameter)]))
        return made

    def _generic(self, handle: Any) -> Any:
        return handle.asType(self._invoke.MethodType.genericMethodType(1))

    def _type(self, name: str) -> Any:
        boxed = _PRIMITIVES.get(name)
        return self._class_of(name) if boxed is None else getattr(self._jvm.java.lang, boxed).TYPE


@once_per_jvm
def methods(jvm: Any) -> Methods:
    return Methods(jvm)


@once_per_jvm
def _plan_json(jvm: Any) -> TextFunction:
    made = methods(jvm)
    return made.to_text(made.virtual("org.apache.spark.sql.catalyst.trees.TreeNode", "toJSON", "java.lang.String"))


def plan_json(jvm: Any, jplan: Any) -> str:
    """`jplan.toJSON()`."""
    return _plan_json(jvm)(jplan)


@once_per_jvm
def _value_json(jvm: Any) -> TextFunction:
    made = methods(jvm)
    return made.to_json(made.identity("java.lang.Object"))


def json_of(jvm: Any, jvalues: Any) -> str:
    """A Java array or collection as JSON in one call: a call for each element would take 0.1 ms."""
    return _value_json(jvm)(jvalues)


@once_per_jvm
def _type_json(jvm: Any) -> TextFunction:
    made = methods(jvm)
    return made.to_text(made.virtual("org.apache.spark.sql.types.DataType", "json", "java.lang.String"))


def type_json(jvm: Any, jtype: Any) -> str:
    """`jtype.json()`: the schema of a hundred columns is longer than one answer of py4j."""
    return _type_json(jvm)(jtype)

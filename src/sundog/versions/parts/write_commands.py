"""The commands that Spark's writers would run, without running them.

From 4.1 on a writer of the JVM returns its command. Earlier ones make and run it in one step, so `OlderCommands` makes
the same command from the writer's settings, for common targets. These are files and other sources by `save`, tables of
the session's own catalog by `insertInto` and `saveAsTable`, and all of `writeTo`. What it does not know, and what Spark
would refuse, is Declined: Spark's own writer then runs, or raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sundog.support import Code, Declined

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CATALYST = "org.apache.spark.sql.catalyst"
_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_LOGICAL = f"{_CATALYST}.plans.logical"
_CONNECTOR = "org.apache.spark.sql.connector.catalog"


class WriterCommands:
    """The commands that a JVM writer (`df.write` or `df.writeTo`) would run, by the method that starts them."""

    def __init__(self, session: SparkSession, jframe: Any, jwriter: Any) -> None:
        self.session = session
        self.jframe = jframe
        self.jwriter = jwriter

    @property
    def jvm(self) -> Any:
        return self.session._jvm

    def save(self, path: str | None) -> Any:
        option = self.jvm.scala.Option
        return self.jwriter.saveCommand(option.empty() if path is None else option.apply(path))

    def insert_into(self, table: str) -> Any:
        return self.jwriter.insertIntoCommand(table)

    def save_as_table(self, table: str) -> Any:
        return self.jwriter.saveAsTableCommand(table)

    def create(self) -> Any:
        return self.jwriter.createCommand()

    def replace(self, or_create: bool) -> Any:
        return self.jwriter.replaceCommand(or_create)

    def append(self) -> Any:
        return self.jwriter.appendCommand()

    def overwrite(self, condition: Any) -> Any:
        return self.jwriter.overwriteCommand(condition)

    def overwrite_partitions(self) -> Any:
        return self.jwriter.overwritePartitionsCommand()


class OlderCommands(WriterCommands):
    """The same before 4.1, from the private fields of the writer. Each method follows the one that it is named after in
    Spark's `DataFrameWriter` and `DataFrameWriterV2`."""

    # --- df.write -----------------------------------------------------------------------------------------------------

    def save(self, path: str | None) -> Any:
        options = self._field("extraOptions")
        if path is not None and options.contains("path"):
            raise _declined("a path as an argument and as an option")
        if self._field("source").lower() == "hive" or self._is_bucketed():
            raise _declined("hive as a format, or buckets, in save()")
        given = self._private("getOptionsWithPath", ["scala.Option"], [self._option(path)])
        provider = self._private("lookupV2Provider")
        command = None if provider.isEmpty() else self._save_v2(provider.get(), given)
        return command or self._save_v1(given)

    def _save_v1(self, given: Any) -> Any:
        options, columns = self._as_dict(given.originalMap()), self._field("partitioningColumns")
        utilities = self._class(f"{_DATASOURCES}.DataSourceUtils")
        if columns.isDefined():
            options[utilities.PARTITIONING_COLUMNS_KEY()] = utilities.encodePartitioningColumns(columns.get())
        source = self._case_class(
            f"{_DATASOURCES}.DataSource",
            {
                1: self.session._jsparkSession,
                2: self._field("source"),
                5: columns.get() if columns.isDefined() else self._seq([]),
                7: self._scala_map(options),
            },
        )
        return source.planForWriting(self._mode(), self.jframe.logicalPlan())

    def _save_v2(self, provider: Any, given: Any) -> Any | None:
        """None if the source has no batch write of its own: then it is written as a V1 source."""
        mode = self._mode().toString()
        if mode not in ("Append", "Overwrite") or self._field("partitioningColumns").isDefined():
            raise _declined("partitions or this mode of a V2 source")
        if self._is_instance(provider, f"{_CONNECTOR}.SupportsCatalogOptions"):
            raise _declined("a source with a catalog of its own")
        utilities = self._class("org.apache.spark.sql.execution.datasources.v2.DataSourceV2Utils")
        configured = self._as_dict(utilities.extractSessionConfigs(provider, self._conf()))
        options = {name: value for name, value in configured.items() if not given.contains(name)}
        options |= self._as_dict(given.originalMap())
        jmap = self.jvm.java.util.HashMap()
        for name, value in options.items():
            jmap.put(name, value)
        joptions = self.jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(jmap)
        if self._asked(provider, f"{_CONNECTOR}.TableProvider", "supportsExternalMetadata"):
            none = self._array(self.jvm.org.apache.spark.sql.connector.expressions.Transform, 0)
            table = provider.getTable(self.jframe.schema().asNullable(), none, joptions.asCaseSensitiveMap())
        else:
            table = utilities.getTableFromProvider(provider, joptions, self.jvm.scala.Option.empty())
        if not table.capabilities().contains(self._class(f"{_CONNECTOR}.TableCapability").BATCH_WRITE):
            return None
        nothing = self.jvm.scala.Option.empty()
        relation = self._class("org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation").create(
            table, nothing, nothing, joptions
        )
        plan, written = self.jframe.logicalPlan(), self._scala_map(options)
        if mode == "Append":
            return self._class(f"{_LOGICAL}.AppendData").byName(relation, plan, written)
        always = self._class(f"{_CATALYST}.expressions.Literal").TrueLiteral()
        return self._class(f"{_LOGICAL}.OverwriteByExpression").byName(relation, plan, always, written)

    def insert_into(self, table: str) -> Any:
        """The parser makes the statement: of the same name with another query, which is replaced."""
        if self._is_bucketed() or self._field("partitioningColumns").isDefined():
            raise _declined("partitions or buckets in insertInto()")
        name = self._name_in_session_catalog(table)
        what = "OVERWRITE" if self._mode().toString() == "Overwrite" else "INTO"
        statement = self._parser().parsePlan(f"INSERT {what} TABLE {name} SELECT 1")
        return statement.withNewChildren(self._seq([self.jframe.logicalPlan()]))

    def save_as_table(self, table: str) -> Any:
        self._name_in_session_catalog(table)
        identifier = self._catalog().qualifyIdentifier(self._parser().parseTableIdentifier(table))
        options, columns = self._field("extraOptions"), self._field("partitioningColumns")
        storage = self._class(f"{_DATASOURCES}.DataSource").buildStorageFormatFromOptions(options)
        types = self._class(f"{_CATALYST}.catalog.CatalogTableType")
        description = self._case_class(
            f"{_CATALYST}.catalog.CatalogTable",
            {
                1: identifier,
                2: types.EXTERNAL() if storage.locationUri().isDefined() else types.MANAGED(),
                3: storage,
                4: self.jvm.org.apache.spark.sql.types.StructType(),
                5: self.jvm.scala.Option.apply(self._field("source")),
                6: columns.get() if columns.isDefined() else self._seq([]),
                7: self._private("getBucketSpec"),
            },
        )
        plan = self.jvm.scala.Option.apply(self.jframe.logicalPlan())
        return self._class(f"{_DATASOURCES}.CreateTable")(description, self._mode(), plan)

    # --- df.writeTo ---------------------------------------------------------------------------------------------------

    def create(self) -> Any:
        return self._new_table("CreateTableAsSelect", False)

    def replace(self, or_create: bool) -> Any:
        return self._new_table("ReplaceTableAsSelect", or_create)

    def _new_table(self, command: str, flag: bool) -> Any:
        name = self._class(f"{_CATALYST}.analysis.UnresolvedIdentifier")(self._field("tableName"), False)
        partitioning = self._field("partitioning")
        if self._has_clustering("clustering"):
            raise _declined("clusterBy() in writeTo()")
        return self._class(f"{_LOGICAL}.{command}")(
            name,
            partitioning.get() if partitioning.isDefined() else self._seq([]),
            self._field("logicalPlan"),
            self._private("buildTableSpec"),
            self._options_v2(),
            flag,
            False,
        )

    def append(self) -> Any:
        return self._class(f"{_LOGICAL}.AppendData").byName(
            self._relation("INSERT"), self._field("logicalPlan"), self._options_v2()
        )

    def overwrite(self, condition: Any) -> Any:
        return self._class(f"{_LOGICAL}.OverwriteByExpression").byName(
            self._relation("INSERT", "DELETE"),
            self._field("logicalPlan"),
            self._expression(condition),
            self._options_v2(),
        )

    def _expression(self, jcolumn: Any) -> Any:
        return self.session._jsparkSession.expression(jcolumn)

    def overwrite_partitions(self) -> Any:
        return self._class(f"{_LOGICAL}.OverwritePartitionsDynamic").byName(
            self._relation("INSERT", "DELETE"), self._field("logicalPlan"), self._options_v2()
        )

    def _relation(self, *privileges: str) -> Any:
        empty = self.jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap.empty()
        relation = self._class(f"{_CATALYST}.analysis.UnresolvedRelation")(self._field("tableName"), empty, False)
        known = self._class(f"{_CONNECTOR}.TableWritePrivilege")
        return relation.requireWritePrivileges(self._seq([getattr(known, privilege) for privilege in privileges]))

    def _options_v2(self) -> Any:
        return self._scala_map(self._as_dict(self._field("options")))

    # --- the writer's settings ----------------------------------------------------------------------------------------

    def _mode(self) -> Any:
        return self._field("curmode", "mode")

    def _is_bucketed(self) -> bool:
        return any(self._field(name).isDefined() for name in ("numBuckets", "sortColumnNames"))

    def _has_clustering(self, name: str) -> bool:
        clustering = self._field(name, required=False)
        return clustering is not None and bool(clustering.isDefined())

    def _name_in_session_catalog(self, table: str) -> str:
        """A table's name, quoted. Declined if another catalog than Spark's own may have it."""
        if self._private("lookupV2Provider").isDefined() or self._has_clustering("clusteringColumns"):
            raise _declined("tables of V2 sources, or clusterBy(), in insertInto() and saveAsTable()")
        manager = self.session._jsparkSession.sessionState().catalogManager()
        parts = self._parser().parseMultipartIdentifier(table)
        names = [str(parts.apply(index)) for index in range(parts.size())]
        is_own = manager.currentCatalog().getClass().getSimpleName() == "V2SessionCatalog"
        if not is_own or len(names) > 2 or (len(names) == 2 and manager.isCatalogRegistered(names[0])):
            raise _declined("tables of another catalog")
        return ".".join(f"`{name.replace('`', '``')}`" for name in names)

    # --- Scala's objects ----------------------------------------------------------------------------------------------

    def _parser(self) -> Any:
        return self.session._jsparkSession.sessionState().sqlParser()

    def _catalog(self) -> Any:
        return self.session._jsparkSession.sessionState().catalog()

    def _conf(self) -> Any:
        return self.session._jsparkSession.sessionState().conf()

    def _field(self, *names: str, required: bool = True) -> Any:
        """The value of a private field, by the first of the names that the writer's class or one above it has."""
        jclass = self.jwriter.getClass()
        while jclass is not None:
            for field in jclass.getDeclaredFields():
                if field.getName() in names:
                    field.setAccessible(True)
                    return field.get(self.jwriter)
            jclass = jclass.getSuperclass()
        if required:
            raise _declined(f"a writer without {names[0]}")
        return None

    def _private(self, name: str, types: Sequence[str] = (), arguments: Sequence[Any] = ()) -> Any:
        """What a private method of the writer's class returns."""
        for_name, jobject = self.jvm.java.lang.Class.forName, self.jvm.java.lang.Object
        classes = self._array(self.jvm.java.lang.Class, len(types))
        given = self._array(jobject, len(arguments))
        for index, (type_name, argument) in enumerate(zip(types, arguments, strict=True)):
            classes[index], given[index] = for_name(type_name), argument
        method = self.jwriter.getClass().getDeclaredMethod(name, classes)
        method.setAccessible(True)
        return method.invoke(self.jwriter, given)

    def _asked(self, jobject: Any, interface: str, name: str) -> bool:
        """The result of a method without parameters. py4j does not see the default methods of an interface."""
        method = self.jvm.java.lang.Class.forName(interface).getMethod(name, self._array(self.jvm.java.lang.Class, 0))
        return bool(method.invoke(jobject, self._array(self.jvm.java.lang.Object, 0)))

    def _case_class(self, name: str, given: dict[int, Any]) -> Any:
        """An object of a case class: parameters by their numbers, from 1 on, and the defaults of all others."""
        companion = getattr(getattr(self.jvm, f"{name}$"), "MODULE$")
        count = self.jvm.java.lang.Class.forName(name).getConstructors()[0].getParameterCount()
        values = [
            given[number] if number in given else getattr(companion, f"apply$default${number}")()
            for number in range(1, count + 1)
        ]
        return self._class(name)(*values)

    def _class(self, name: str) -> Any:
        return getattr(self.jvm, name)

    def _is_instance(self, jobject: Any, name: str) -> bool:
        return bool(self.jvm.java.lang.Class.forName(name).isInstance(jobject))

    def _array(self, of: Any, length: int) -> Any:
        return self.session.sparkContext._gateway.new_array(of, length)

    def _option(self, value: Any) -> Any:
        return self.jvm.scala.Option.empty() if value is None else self.jvm.scala.Option.apply(value)

    def _seq(self, values: Sequence[Any]) -> Any:
        return self.jvm.PythonUtils.toSeq(list(values))

    def _scala_map(self, values: dict[str, str]) -> Any:
        return self.jvm.PythonUtils.toScalaMap(values)

    def _as_dict(self, jmap: Any) -> dict[str, str]:
        keys = jmap.keysIterator()
        found: dict[str, str] = {}
        while keys.hasNext():
            key = keys.next()
            found[key] = jmap.apply(key)
        return found


class CommandsOf35(OlderCommands):
    """A column of 3.5 is an expression of Catalyst's already."""

    def _expression(self, jcolumn: Any) -> Any:
        return jcolumn.expr()


def _declined(what: str) -> Declined:
    return Declined.because(Code.WRITE, f"this Spark's writers give out no command, and sundog makes none of {what}")

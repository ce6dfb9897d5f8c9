"""Read options and Hadoop settings of a scan: checked against the table, and translated for sundog's reader."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sundog.front.jvm.method_handles import json_of, methods
from sundog.front.jvm.objects import once_per_jvm
from sundog.front.relation.file_listing import ListedFile
from sundog.front.session.conf_table import (
    HADOOP_OPTION_PREFIXES,
    LOCAL_FILE_SYSTEMS,
    READ_OPTIONS,
    Only,
    parquet_setting,
)
from sundog.front.session.session_conf import SessionConf
from sundog.parquet.paths import authority_of, is_local, scheme_of
from sundog.parquet.reading import ReadOptions
from sundog.parquet.store_settings import PREFIXES, UnsupportedFileSystem, needed_settings
from sundog.support import Code, Declined, Reason
from sundog.versions import spark_version

REBASE_MODES = ("LEGACY", "CORRECTED", "EXCEPTION")


def unknown_options(options: Iterable[str]) -> list[Reason]:
    """Reasons against read options that the table does not know."""
    return [
        Reason(Code.READ_OPTION, f"the read option {name} is set, which sundog does not know")
        for name in options
        if name not in READ_OPTIONS and not name.startswith(HADOOP_OPTION_PREFIXES)
    ]


def unknown_hadoop_settings(jvm: Any, hadoop: Any) -> list[Reason]:
    """Reasons against Hadoop settings that the table does not know, or that change a meaning."""
    reasons = []
    file_system, parquet = json.loads(_hadoop_settings(jvm)(hadoop))
    for key, value in parquet.items():
        answer = parquet_setting(key)
        if answer is None or (isinstance(answer, Only) and value.strip().lower() not in answer.values):
            doc = f": {answer.doc}" if isinstance(answer, Only) else ", which sundog does not know"
            reasons.append(Reason(Code.READ_OPTION, f"the Hadoop setting parquet.{key} is set{doc}"))
    if (file_system or "") not in LOCAL_FILE_SYSTEMS:
        reasons.append(Reason(Code.FILE_SYSTEM, f"fs.file.impl is {file_system}"))
    return reasons


@once_per_jvm
def _hadoop_settings(jvm: Any) -> Any:
    """A function from Hadoop's Configuration to the JSON of `[fs.file.impl, {what is set under parquet.}]`."""
    made = methods(jvm)
    owner, text = "org.apache.hadoop.conf.Configuration", "java.lang.String"
    get = made.bind_last(made.virtual(owner, "get", text, text), "fs.file.impl")
    under = made.bind_last(made.virtual(owner, "getPropsWithPrefix", "java.util.Map", text), "parquet.")
    return made.to_json(made.all_of([get, under]))


def read_options(options: dict[str, str], conf: SessionConf, case_sensitive: bool, decoder: str) -> ReadOptions:
    """The scan's options, and the session's settings for those that it does not set."""

    def flag(option: str, key: str) -> bool:
        return _one_of(option, options.get(option.lower(), conf.text(key).strip()).lower(), ("true", "false")) == "true"

    def text(option: str, key: str) -> str:
        return _one_of(option, options.get(option.lower(), conf.text(key).strip().upper()), REBASE_MODES)

    if flag("ignoreCorruptFiles", "spark.sql.files.ignoreCorruptFiles"):
        sentence = "under ignoreCorruptFiles the rows before the damage count, as Spark's reader comes to them"
        raise Declined.because(Code.READ_OPTION, sentence)
    return ReadOptions(
        case_sensitive=case_sensitive,
        ignore_missing_files=flag("ignoreMissingFiles", "spark.sql.files.ignoreMissingFiles"),
        datetime_rebase_mode=text("datetimeRebaseMode", "spark.sql.parquet.datetimeRebaseModeInRead"),
        int96_rebase_mode=text("int96RebaseMode", "spark.sql.parquet.int96RebaseModeInRead"),
        widens=spark_version().widens_stored_types,
        int96_conversion=conf.flag("spark.sql.parquet.int96TimestampConversion"),
        decoder=decoder,
    )


def _one_of(option: str, value: str, values: tuple[str, ...]) -> str:
    """The value if it is one of `values`; else declines, as Spark may raise or not, depending on the files."""
    if value not in values:
        raise Declined.because(Code.READ_OPTION, f"{option} is {value}, which is none of {', '.join(values)}")
    return value


def filesystem_settings(files: Sequence[ListedFile], hadoop: Any, session: Any) -> tuple[tuple[str, str], ...]:
    """How to open files that are not local, by Hadoop's settings of this scan; declines settings that are not
    understood."""
    remote = [file.uri for file in files if not is_local(file.uri)]
    if not remote:
        return ()
    schemes = {scheme_of(path) for path in remote}
    if len(schemes) > 1 or not schemes <= set(PREFIXES):
        raise Declined.because(Code.FILE_SYSTEM, f"files are on {', '.join(sorted(schemes))}")
    (scheme,) = schemes
    jvm, prefix = session._jvm, PREFIXES[scheme]
    found: dict[str, str] = json.loads(json_of(jvm, hadoop.getPropsWithPrefix(prefix)))
    defaults: dict[str, str] = json.loads(json_of(jvm, _hadoop_defaults(jvm, scheme).getPropsWithPrefix(prefix)))
    changed = [(prefix + key, value) for key, value in found.items() if defaults.get(key) != value]
    try:
        return needed_settings(scheme, {authority_of(path) for path in remote}, changed)
    except UnsupportedFileSystem as problem:
        raise Declined.because(Code.FILE_SYSTEM, str(problem)) from problem


def _hadoop_defaults(jvm: Any, scheme: str) -> Any:
    """Hadoop's defaults, without settings of Spark's session or of a reader.

    The machine's own configuration files count as defaults for HDFS, since Arrow reads the same files.
    """
    configuration = jvm.org.apache.hadoop.conf.Configuration(scheme == "hdfs")
    if scheme != "hdfs":
        configuration.addResource("core-default.xml")
    return configuration

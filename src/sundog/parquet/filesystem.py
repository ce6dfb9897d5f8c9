"""Opens the paths that Spark lists: local files directly, object stores through Arrow's file systems.

Spark names files by URI (`file:/a/b%20c`, `s3a://bucket/key`) and configures access through Hadoop's `fs.*` settings,
which `store_settings.py` translates or refuses.

Local files are read with plain `pread`. A memory map was measured on row groups of 100,000 rows: 25.9 ms against
24.5 ms for 16 columns, 1.2 ms against 1.2-1.4 ms for one. It gains nothing, and if a mapped file is truncated, the
process is killed where a read would return an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

import pyarrow as pa
from pyarrow import fs

from sundog.parquet.paths import authority_of, is_local, plain_path, scheme_of
from sundog.parquet.problems import FileProblem, ProblemKind
from sundog.parquet.store_settings import Settings, UnsupportedFileSystem, arguments_of, for_authority


def open_filesystem(scheme: str, settings: Iterable[tuple[str, str]] = (), authority: str = "") -> fs.FileSystem:
    """The Arrow file system for a scheme (`s3a`, `gs`, `abfss`, `hdfs`, `file`) under Hadoop's settings.

    `authority` is the part of the URI between `//` and the path: a bucket, an account or a host.
    """
    if scheme in ("file", ""):
        return fs.LocalFileSystem()
    if scheme not in _MAKERS:
        raise UnsupportedFileSystem(f"There is no file system for {scheme}:// paths.")
    arguments = arguments_of(scheme, authority, for_authority(scheme, authority, settings))
    return _cached_filesystem(scheme, tuple(sorted(arguments.items())))


def open_file(uri: str, settings: Settings) -> pa.NativeFile:
    """A random-access file. Raises FileProblem when it is not there."""
    try:
        if is_local(uri):
            return pa.OSFile(plain_path(uri))
        return open_filesystem(scheme_of(uri), settings, authority_of(uri)).open_input_file(plain_path(uri))
    except FileNotFoundError as problem:
        raise FileProblem(ProblemKind.MISSING, uri, str(problem)) from problem
    except OSError as problem:
        raise FileProblem(ProblemKind.CORRUPT, uri, str(problem)) from problem


@lru_cache(maxsize=16)
def _cached_filesystem(scheme: str, arguments: tuple[tuple[str, object], ...]) -> fs.FileSystem:
    return _MAKERS[scheme](**dict(arguments))


_MAKERS: dict[str, Callable[..., fs.FileSystem]] = {
    "s3a": lambda **arguments: fs.S3FileSystem(**arguments),
    "gs": lambda **arguments: fs.GcsFileSystem(**arguments),
    "abfss": lambda **arguments: fs.AzureFileSystem(**arguments),
    "hdfs": lambda **arguments: fs.HadoopFileSystem(**arguments),
}

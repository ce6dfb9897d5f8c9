"""Size and modification time of files of HDFS and object stores as they are now, many in one request.

Spark's listing may be as old as the DataFrame. An object store lists a thousand files of a folder in one request, while
their footers would take two requests each.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyarrow import fs

from sundog.parquet.filesystem import open_filesystem
from sundog.parquet.paths import authority_of, plain_path, scheme_of
from sundog.parquet.store_settings import Settings

log = logging.getLogger("sundog")
_THREADS = 8  # a request takes 10 to 100 ms, most of it waiting


@dataclass(frozen=True)
class FileStatus:
    """`modified_ns` is 0 if the file system does not tell."""

    size: int
    modified_ns: int


def statuses_of(uris: Sequence[str], settings: Settings) -> dict[str, FileStatus]:
    """The statuses of the existing files, by URI; none if the file system does not answer."""
    folders: dict[tuple[str, str, str], list[str]] = {}
    for uri in uris:
        place = scheme_of(uri), authority_of(uri), plain_path(uri).rpartition("/")[0]
        folders.setdefault(place, []).append(uri)

    def of_folder(place: tuple[str, str, str]) -> dict[str, FileStatus]:
        scheme, authority, folder = place
        by_name = {_name(plain_path(uri)): uri for uri in folders[place]}
        try:
            infos = _infos(open_filesystem(scheme, settings, authority), folder, list(by_name))
        except (OSError, pa.ArrowException) as problem:  # opening the files raises the reason, if they cannot be read
            log.info("sundog cannot list the files of a folder", exc_info=problem)
            return {}
        return {
            by_name[_name(info.path)]: FileStatus(int(info.size), int(info.mtime_ns or 0))
            for info in infos
            if _name(info.path) in by_name and info.type is fs.FileType.File
        }

    if not folders:
        return {}
    with ThreadPoolExecutor(min(_THREADS, len(folders)), thread_name_prefix="sundog-status") as pool:
        return dict(chain.from_iterable(each.items() for each in pool.map(of_folder, folders)))


def _name(path: str) -> str:
    """The name of a file in its folder. HDFS lists files with scheme and authority."""
    return path.rpartition("/")[2]


def _infos(filesystem: fs.FileSystem, folder: str, names: list[str]) -> list[fs.FileInfo]:
    """The statuses of these files of a folder, and maybe of others there."""
    if len(names) == 1:
        return [filesystem.get_file_info(f"{folder}/{names[0]}")]
    found: list[fs.FileInfo] = filesystem.get_file_info(fs.FileSelector(folder or "/", allow_not_found=True))
    return found

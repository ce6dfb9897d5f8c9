"""Hadoop's checksum files of local files: whether Spark would refuse to read a file that was changed after its
checksum.

Hadoop's local file system writes `.name.crc` beside each file and compares on reading. A tool that rewrites a file of
Spark's does not update it, and Spark then raises a ChecksumException. Rows of such a file would be an answer that Spark
does not give.

A checksum file is compared only if the times make the file suspicious, and only for the end of the file, which holds
the Parquet footer and differs after any rewrite. A copied folder has odd times too, and must not become slow.
"""

from __future__ import annotations

import os
import zlib

_HEADER = 8  # "crc\0", then the bytes that each checksum covers
_MAGIC = b"crc\0"
_SAME_MOMENT_NS = 1_000_000_000  # times of a file and its checksum file closer than this: written together
_COMPARED_CHUNKS = 8  # at the end of the file


def is_refused(path: str, status: os.stat_result) -> bool:
    """Whether the end of a file differs from its checksum file. `status`: of the file itself."""
    checksum_path = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.crc")
    try:
        other = os.stat(checksum_path)
    except FileNotFoundError:
        return False
    is_older = other.st_mtime_ns < status.st_mtime_ns
    if not is_older and abs(other.st_ctime_ns - status.st_ctime_ns) <= _SAME_MOMENT_NS:
        return False
    with open(checksum_path, "rb") as file:
        checksums = file.read()
    covered = int.from_bytes(checksums[4:_HEADER], "big")
    if checksums[:4] != _MAGIC or covered <= 0:
        return False  # Hadoop reads such a file unchecked
    chunks = -(-status.st_size // covered)
    first = max(0, chunks - _COMPARED_CHUNKS)
    with open(path, "rb") as file:
        file.seek(first * covered)
        end = file.read()
    return any(
        checksums[_HEADER + 4 * chunk :][:4]
        != zlib.crc32(end[(chunk - first) * covered :][:covered]).to_bytes(4, "big")
        for chunk in range(first, chunks)
    )

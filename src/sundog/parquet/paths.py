"""URIs as Spark lists them (`file:/a/b%20c`, `s3a://bucket/key`), and paths for file systems. Opens nothing."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit


def scheme_of(uri: str) -> str:
    """`file` for a plain path."""
    if uri.startswith("/"):
        return "file"
    head = uri.split("/", 1)[0]
    return urlsplit(uri).scheme.lower() if ":" in head else "file"


def is_local(uri: str) -> bool:
    return scheme_of(uri) == "file"


def authority_of(uri: str) -> str:
    """The part between `//` and the path: a bucket, or a host."""
    return urlsplit(uri).netloc


def plain_path(uri: str) -> str:
    """The path for the file system itself. A string without a scheme is a local path already."""
    if uri.startswith("/"):
        return uri
    scheme = scheme_of(uri)
    parts = urlsplit(uri)
    if scheme == "file":
        return unquote(parts.path) if ":" in uri.split("/", 1)[0] else uri
    if scheme == "hdfs":
        return unquote(parts.path)
    if scheme == "abfss":
        container = parts.netloc.split("@", 1)[0]
        return container + unquote(parts.path)
    return parts.netloc + unquote(parts.path)

from __future__ import annotations

import pytest
from pyarrow import fs

from sundog.parquet.filesystem import (
    UnsupportedFileSystem,
    open_file,
    open_filesystem,
    unsupported_scheme,
)
from sundog.parquet.paths import is_local, plain_path
from sundog.parquet.problems import FileProblem, ProblemKind


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/a/b", "/a/b"),
        ("/a/50%20off", "/a/50%20off"),  # no scheme: already a path
        ("file:/a/b", "/a/b"),
        ("file:///a/b%20c", "/a/b c"),
        ("file:/a/k=x%252Fy", "/a/k=x%2Fy"),
        ("s3a://bucket/a/b%20c", "bucket/a/b c"),
        ("gs://bucket/a", "bucket/a"),
        ("abfss://box@account.dfs.core.windows.net/a/b", "box/a/b"),
        ("hdfs://name:8020/a/b", "/a/b"),
    ],
)
def test_plain_path(uri, path):
    assert plain_path(uri) == path


def test_local_paths():
    assert is_local("/a")
    assert is_local("file:/a")
    assert not is_local("s3a://b/a")


def test_a_scheme_without_a_file_system_is_refused_with_a_sentence():
    assert unsupported_scheme("/a/b") is None
    assert unsupported_scheme("s3a://b/k") is None
    assert "ftp" in (unsupported_scheme("ftp://host/a") or "")
    with pytest.raises(UnsupportedFileSystem):
        open_filesystem("ftp")


@pytest.mark.parametrize(
    ("uri", "settings"),
    [
        ("s3a://b/k", [("fs.s3a.aws.credentials.provider", "com.example.Custom")]),
        ("s3a://b/k", [("encryption.algorithm", "SSE-C")]),
        ("gs://b/k", [("auth.type", "USER_CREDENTIALS")]),
        ("abfss://c@a.dfs.core.windows.net/k", []),
        ("abfss://c@a.dfs.core.windows.net/k", [("account.auth.type", "OAuth"), ("account.key", "a2V5")]),
    ],
)
def test_settings_that_change_who_reads_are_refused(uri, settings):
    assert unsupported_scheme(uri, settings)


def test_hadoop_settings_become_arrow_arguments():
    settings = [
        ("fs.s3a.access.key", "A"),
        ("secret.key", "S"),
        ("endpoint", "http://localhost:9000"),
        ("endpoint.region", "eu-west-1"),
        ("connection.maximum", "96"),
    ]
    opened = open_filesystem("s3a", settings)
    assert isinstance(opened, fs.S3FileSystem)
    assert opened.region == "eu-west-1"
    assert open_filesystem("s3a", settings) is opened
    account = open_filesystem("abfss", [("account.key", "a2V5")], "c@account.dfs.core.windows.net")
    assert isinstance(account, fs.AzureFileSystem)


def test_a_missing_file_names_its_path(tmp_path):
    with pytest.raises(FileProblem) as problem:
        open_file(str(tmp_path / "no.parquet"), ())
    assert problem.value.kind is ProblemKind.MISSING
    assert "no.parquet" in str(problem.value)


def test_local_file_by_uri(tmp_path):
    (tmp_path / "a b").write_bytes(b"hello")
    with open_file(f"file://{tmp_path}/a%20b", ()) as source:
        assert source.read() == b"hello"

from __future__ import annotations

import pytest
from pyarrow import fs

from sundog.parquet.filesystem import open_file, open_filesystem
from sundog.parquet.paths import is_local, plain_path
from sundog.parquet.problems import FileProblem, ProblemKind
from sundog.parquet.store_settings import UnsupportedFileSystem, for_authority, needed_settings


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
    with pytest.raises(UnsupportedFileSystem, match="ftp"):
        open_filesystem("ftp")
    with pytest.raises(UnsupportedFileSystem, match="ftp"):
        needed_settings("ftp", {"host"}, [])


@pytest.mark.parametrize(
    ("scheme", "authority", "settings"),
    [
        ("s3a", "b", {"aws.credentials.provider": "com.example.Custom"}),
        ("s3a", "b", {"bucket.b.aws.credentials.provider": "com.example.Custom", "access.key": "A", "secret.key": "S"}),
        ("s3a", "b", {"encryption.algorithm": "SSE-C"}),
        ("s3a", "b", {"bucket.b.encryption.algorithm": "CSE-KMS"}),
        ("s3a", "b", {"assumed.role.arn": "arn:aws:iam::1:role/r"}),
        ("s3a", "b", {"security.credential.provider.path": "jceks://file/keys"}),
        ("s3a", "b", {"proxy.host": "proxy"}),
        ("s3a", "b", {"accesspoint.arn": "arn"}),
        ("s3a", "b", {"impl": "com.example.S3"}),
        ("s3a", "b", {"something.new": "x"}),
        ("gs", "b", {"auth.type": "USER_CREDENTIALS"}),
        ("gs", "b", {"storage.root.url": "http://localhost"}),
        ("abfss", "c@a.dfs.core.windows.net", {}),
        ("abfss", "c@a.dfs.core.windows.net", {"account.auth.type": "OAuth", "account.key": "a2V5"}),
        ("abfss", "c@a.dfs.core.windows.net", {"client-provided-encryption-key": "k", "account.key": "a2V5"}),
        ("hdfs", "h:8020", {"nameservices": "n"}),
    ],
)
def test_settings_that_change_what_is_read_or_by_whom_are_refused(scheme, authority, settings):
    prefix = {"s3a": "fs.s3a.", "gs": "fs.gs.", "abfss": "fs.azure.", "hdfs": "dfs."}[scheme]
    with pytest.raises(UnsupportedFileSystem):
        needed_settings(scheme, {authority}, [(prefix + key, value) for key, value in settings.items()])


def test_settings_of_a_bucket_win_and_those_of_others_stay_behind():
    settings = [
        ("fs.s3a.access.key", "A"),
        ("fs.s3a.secret.key", "S"),
        ("fs.s3a.bucket.mine.access.key", "B"),
        ("fs.s3a.bucket.mine.secret.key", "T"),
        ("fs.s3a.bucket.mine.endpoint", "http://localhost:9000"),
        ("fs.s3a.bucket.other.secret.key", "never"),
        ("fs.s3a.connection.maximum", "96"),
    ]
    needed = needed_settings("s3a", {"mine"}, settings)
    assert "never" not in dict(needed).values()
    assert "fs.s3a.connection.maximum" not in dict(needed)
    found = for_authority("s3a", "mine", needed)
    assert (found["access.key"], found["secret.key"]) == ("B", "T")
    assert found["endpoint"] == "http://localhost:9000"
    assert for_authority("s3a", "third", needed)["access.key"] == "A"


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

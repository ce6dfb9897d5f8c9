"""Hadoop's settings of an object store as arguments of Arrow's file system, or a sentence why that is not possible.

Hadoop has a hundred settings for each store, in the session, in read options and for single buckets. There are three
kinds: those with a counterpart in Arrow, those that only tune (timeouts, threads, read-ahead, how files are written),
and all others. One of the others may change *what is read or who reads it* (a role, a proxy, a key store, encryption by
the client), so the query is left to Spark. Nothing here opens a file.
"""

from __future__ import annotations

from collections.abc import Iterable

Settings = tuple[tuple[str, str], ...]

PREFIXES = {"s3a": "fs.s3a.", "gs": "fs.gs.", "abfss": "fs.azure.", "hdfs": "dfs."}

_ANONYMOUS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
_SIMPLE_KEYS = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_TEMPORARY_KEYS = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_KNOWN_S3_PROVIDERS = (_ANONYMOUS, _SIMPLE_KEYS, _TEMPORARY_KEYS)
_SERVER_SIDE = ("", "AES256", "SSE-S3", "SSE-KMS", "DSSE-KMS")  # decrypted by the server for every permitted reader
_GCS_DEFAULT_AUTH = ("", "APPLICATION_DEFAULT", "COMPUTE_ENGINE")

_UNDERSTOOD = {
    "s3a": (
        *("access.key", "secret.key", "session.token", "aws.credentials.provider", "endpoint", "endpoint.region"),
        *(
            "connection.ssl.enabled",
            "path.style.access",
            "encryption.algorithm",
            "server-side-encryption-algorithm",
            "impl",
        ),
    ),
    "gs": ("auth.type", "impl", "project.id"),
    "abfss": ("account.key", "account.auth.type", "impl"),
    "hdfs": (),
}
_TUNING = {
    "s3a": (
        *("acl.", "attempts.", "audit.", "block.size", "buffer.dir", "change.detection.", "committer.", "connection."),
        *("create.", "directory.", "downgrade.", "encryption.key", "etag.", "executor.", "experimental.", "fast."),
        *("input.", "list.", "max.", "metrics.", "multiobjectdelete.", "multipart.", "optimized.", "paging."),
        *("performance.", "prefetch.", "readahead.", "retry.", "socket.", "threads.", "user.agent.", "vectored."),
    ),
    "gs": (
        *("batch.", "block.size", "copy.", "glob.", "grpc.", "http.", "implicit.", "inputstream.", "lazy.", "list."),
        *("marker.", "max.", "metadata.", "outputstream.", "performance.", "rewrite.", "status.", "working.dir"),
    ),
    "abfss": (
        *("abfs.", "analysis.", "atomic.", "block.", "cluster.", "custom.", "delete.", "disable.", "enable.", "fast."),
        *("io.", "list.", "oauth.token.fetch.retry.", "read.", "readahead", "skip.", "ssl.", "use.upn", "write."),
    ),
    "hdfs": (),
}
_OWN_CLASSES = {
    "s3a": ("org.apache.hadoop.fs.s3a.S3AFileSystem",),
    "gs": ("com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem", "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem"),
    "abfss": ("org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",),
}


class UnsupportedFileSystem(ValueError):
    """The path or its settings have no counterpart in Arrow; the message is a sentence for the user."""


def needed_settings(scheme: str, authorities: Iterable[str], settings: Iterable[tuple[str, str]]) -> Settings:
    """Of all settings that differ from Hadoop's defaults, those that Arrow's file system is made with.

    Keys of buckets that are not read are left out. Raises UnsupportedFileSystem if one may change what is read.
    """
    if scheme not in PREFIXES:
        raise UnsupportedFileSystem(f"There is no file system for {scheme}:// paths.")
    kept = dict(settings)
    found: dict[str, str] = {}
    for authority in sorted(set(authorities)):
        plain = for_authority(scheme, authority, kept.items())
        for key in plain:
            if _is_understood(scheme, key):
                continue
            if not key.startswith(_TUNING[scheme]):
                raise UnsupportedFileSystem(f"{PREFIXES[scheme]}{key} is set, which has no counterpart in Arrow.")
        arguments_of(scheme, authority, plain)
        bucket = f"{PREFIXES[scheme]}bucket.{authority}."
        for key, value in kept.items():
            name = key.removeprefix(bucket).removeprefix(PREFIXES[scheme])
            if _is_understood(scheme, name):
                found[key] = value
    return tuple(sorted(found.items()))


def for_authority(scheme: str, authority: str, settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The settings without their prefix; those of a bucket override the general ones, as in Hadoop's S3A."""
    plain, of_bucket = {}, {}
    for key, value in settings:
        name = key.removeprefix(PREFIXES.get(scheme, ""))
        if scheme == "s3a" and name.startswith("bucket."):
            if name.startswith(f"bucket.{authority}."):
                of_bucket[name.removeprefix(f"bucket.{authority}.")] = value
        else:
            plain[name] = value
    return plain | of_bucket


def arguments_of(scheme: str, authority: str, plain: dict[str, str]) -> dict[str, object]:
    """The arguments of Arrow's file system for settings without prefix."""
    own = _OWN_CLASSES.get(scheme, ())
    if plain.get("impl", "") not in ("", *own):
        raise UnsupportedFileSystem(f"fs.{scheme}.impl is {plain['impl']}, which is not Hadoop's own.")
    match scheme:
        case "s3a":
            return _s3_arguments(plain)
        case "gs":
            return _gcs_arguments(plain)
        case "abfss":
            return _azure_arguments(plain, authority)
        case "hdfs":
            host, _, port = authority.partition(":")
            return {"host": host or "default", "port": int(port or 0)}
    raise UnsupportedFileSystem(f"There is no file system for {scheme}:// paths.")


def _is_understood(scheme: str, key: str) -> bool:
    if scheme == "abfss" and key.startswith(("account.key.", "account.auth.type.")):
        return True
    return key in _UNDERSTOOD[scheme]


def _s3_arguments(settings: dict[str, str]) -> dict[str, object]:
    providers = [name.strip() for name in settings.get("aws.credentials.provider", "").split(",") if name.strip()]
    unknown = [name for name in providers if name not in _KNOWN_S3_PROVIDERS]
    if unknown:
        raise UnsupportedFileSystem(f"The S3 credential provider {unknown[0]} has no counterpart in Arrow.")
    algorithm = settings.get("encryption.algorithm") or settings.get("server-side-encryption-algorithm") or ""
    if algorithm.upper() not in _SERVER_SIDE:
        raise UnsupportedFileSystem("Arrow cannot read S3 objects under a customer-provided encryption key.")
    arguments: dict[str, object] = {}
    if providers == [_ANONYMOUS]:
        arguments["anonymous"] = True
    elif "access.key" in settings and "secret.key" in settings:
        arguments |= {"access_key": settings["access.key"], "secret_key": settings["secret.key"]}
        has_token = "session.token" in settings and (not providers or _TEMPORARY_KEYS in providers)
        if has_token:
            arguments["session_token"] = settings["session.token"]
    elif providers:
        raise UnsupportedFileSystem("The S3 credential providers that are set have no keys to read with.")
    if region := settings.get("endpoint.region", ""):
        arguments["region"] = region
    if endpoint := settings.get("endpoint", ""):
        arguments["endpoint_override"] = endpoint
        plain_http = endpoint.startswith("http://") or settings.get("connection.ssl.enabled", "true") == "false"
        arguments["scheme"] = "http" if plain_http else "https"
    return arguments


def _gcs_arguments(settings: dict[str, str]) -> dict[str, object]:
    auth = settings.get("auth.type", "")
    if auth not in _GCS_DEFAULT_AUTH or any(key.startswith("auth.service.account.json") for key in settings):
        raise UnsupportedFileSystem("Arrow opens gs:// paths with application default credentials only.")
    return {}


def _azure_arguments(settings: dict[str, str], authority: str) -> dict[str, object]:
    host = authority.rsplit("@", 1)[-1]
    key = settings.get(f"account.key.{host}") or settings.get("account.key")
    auth = settings.get(f"account.auth.type.{host}") or settings.get("account.auth.type") or "SharedKey"
    if auth != "SharedKey" or not key:
        raise UnsupportedFileSystem("Arrow opens abfss:// paths with an account key (fs.azure.account.key) only.")
    return {"account_name": host.split(".", 1)[0], "account_key": key}

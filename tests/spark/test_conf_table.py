"""The table of Spark's settings: complete for the running Spark, read as Spark reads them, and obeyed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sundog
from sundog.front.session.conf_table import (
    COMPUTED,
    DECLINES,
    PREFIX,
    explicit_keys,
    families,
    irrelevant,
    is_known,
)
from sundog.front.session.session_conf import SessionConf
from sundog.versions import VERSIONS, spark_version
from tests.oracle.needs import needs_newest_spark
from tests.oracle.spark_settings import all_settings
from tests.oracle.tables import events, write_files
from tests.spark.test_relations import same, settings

pytestmark = pytest.mark.spark


OF_OLDER_VERSIONS = {key for version in VERSIONS.values() for key in version.own_confs}


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = write_files(events(), tmp_path_factory.mktemp("confs") / "events")
    enabled.read.parquet(str(folder)).createOrReplaceTempView("confs_events")
    return enabled


QUERY = "SELECT grp, count(*), sum(dec), max(ts) FROM confs_events GROUP BY grp"


def test_every_setting_of_the_running_spark_has_an_answer(spark: Any) -> None:
    registered = all_settings(spark)
    assert len(registered) > 400
    missing = sorted(key for key in registered if key.startswith(PREFIX) and not is_known(key))
    assert not missing, f"decide about these in front/session/conf_table.py: {missing}"


@needs_newest_spark
def test_every_answer_is_about_a_setting_that_exists(spark: Any) -> None:
    registered = all_settings(spark)
    assert explicit_keys() - set(registered) == OF_OLDER_VERSIONS
    assert not [family for family in families() if not any(key.startswith(family) for key in registered)]


def test_settings_that_the_newest_spark_has_not_are_named_by_the_versions_that_have_them(spark: Any) -> None:
    assert OF_OLDER_VERSIONS & set(all_settings(spark)) == spark_version().own_confs


def test_no_setting_has_two_answers() -> None:
    assert not COMPUTED.keys() & DECLINES.keys()
    assert not [key for key in (*COMPUTED, *DECLINES) if irrelevant(PREFIX + key) is not None]


def test_spark_itself_declines_nothing_by_default(spark: Any) -> None:
    SessionConf.of(spark.newSession()).check(())


DECLINED = {
    "spark.sql.parquet.enableVectorizedReader": "false",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "TRUE",
    "spark.sql.legacy.nullInEmptyListBehavior": "true",
    "spark.sql.files.archive.reader.enabled": "true",
    "spark.sql.somethingNew.enabled": "true",
}


@pytest.mark.parametrize("key", DECLINED)
def test_a_declined_value_leaves_the_query_to_spark_and_says_so(session: Any, key: str) -> None:
    if key in spark_version().confs_of_the_optimizer:
        pytest.skip("this Spark's optimiser has obeyed it in the plan")
    if is_known(key) and key not in all_settings(session):
        pytest.skip("this Spark has no such setting")
    with settings(session, {key: DECLINED[key]}):
        same(session, lambda: session.sql(QUERY), accelerated=False)
        session.sql(QUERY).collect()
        assert any(reason.startswith("SETTING") and key in reason for reason in sundog.last_run().fallback_reasons)
    session.sql(QUERY).collect()
    assert sundog.last_run().accelerated


@pytest.mark.parametrize(
    "trusted", ["spark.sql.house.style", "spark.other, spark.sql.hou*", "spark.sql.house", "spark.sql.ansi.*"]
)
def test_settings_of_a_platform_that_the_user_trusts_are_no_obstacle(session: Any, trusted: str) -> None:
    with settings(session, {"spark.sql.house.style": "gothic", "spark.sundog.trustedSettings": trusted}):
        same(session, lambda: session.sql(QUERY), accelerated="hou" in trusted and not trusted.endswith("house"))


HARMLESS = {
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.catalog.mine": "com.example.Catalog",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.legacy.statisticalAggregate": "true",
    "spark.sql.files.maxPartitionBytes": "1000",
    "spark.sql.caseSensitive": "true",
}


@pytest.mark.parametrize("key", HARMLESS)
def test_an_obeyed_or_irrelevant_value_gives_sparks_answer(session: Any, key: str) -> None:
    query = "SELECT grp, sum(dec) / 7, avg(wide), max(num) + 1 FROM confs_events WHERE d > 0 GROUP BY grp"
    with settings(session, {key: HARMLESS[key]}):
        same(session, lambda: session.sql(query))


@pytest.mark.parametrize("known", [True, False])
def test_an_extension_that_is_not_known_leaves_the_query_to_spark(session: Any, known: bool) -> None:
    delta = "io.delta.sql.DeltaSparkSessionExtension"
    conf = SessionConf.of(session)
    conf.effective["spark.sql.extensions"] = delta if known else f"{delta}, com.example.MyExtension"
    if known:
        conf.check(())
    else:
        with pytest.raises(sundog.support.Declined, match=r"com\.example"):
            conf.check(())


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(write_files(events(50), tmp_path / "t", files=1))


@pytest.mark.parametrize(
    ("option", "accelerated"),
    [
        ("mergeSchema", True),
        ("header", True),
        ("fs.some.setting", True),
        ("parquet.filter.stats.enabled", True),
        ("whatIsThis", False),
        ("parquet.page.verify-checksum.enabled", False),
        ("parquet.new.setting", False),
    ],
)
def test_read_options(session: Any, folder: str, option: str, accelerated: bool) -> None:
    same(session, lambda: session.read.option(option, "true").parquet(folder).groupBy("grp").count(), accelerated)


def test_a_hadoop_setting_of_the_session_counts(session: Any, folder: str) -> None:
    factory = "org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory"
    with settings(session, {"parquet.crypto.factory.class": factory}):
        frame = session.read.parquet(folder).groupBy("grp").count()
        text = sundog.explain(frame)
    assert "parquet.crypto.factory.class" in text

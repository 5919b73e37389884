"""A cluster of its own: a master and two workers on loopback find what one process finds."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tarfile
import threading
import venv
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.dataset as ds
import pyspark
import pytest

from kafkalite.spark.audits import AUDITS
from kafkalite.spark.journal import STAGING
from tests.captures.cut import cut
from tests.clients.observer import wait_until
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

HOME = Path(pyspark.__file__).parent
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
LEAN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


class Daemon(NamedTuple):
    """One of Spark's, and what it said when it was ready."""

    process: subprocess.Popen[str]
    said: re.Match[str]


@contextmanager
def started(ready: str, folder: Path, *arguments: str) -> Iterator[Daemon]:
    """Run one of Spark's daemons until it is no longer needed."""
    environ = {
        # What this process imports from elsewhere, those of a cluster would not find.
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": LEAN,
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
        said = []
        for line in process.stderr:
            said.append(line)
            found = re.search(ready, line)
            if found is not None:
                break
        else:
            pytest.fail("".join(said))
        # A daemon whose pipe is full would stand still.
        draining = threading.Thread(target=process.stderr.read, daemon=True)
        draining.start()
        yield Daemon(process, found)
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stderr.close()


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the folder that the daemons work in."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def master(folder: Path) -> Iterator[str]:
    """Start a master and two workers of one core each; returns the master's URL."""
    port = free_port()
    with started(
        r"Starting Spark master at (spark://\S+)", folder, MASTER, *_AT, "--port", port
    ) as daemon:
        url = daemon.said[1]
        with worker(folder, url), worker(folder, url):
            yield url


_AT = ("--host", "127.0.0.1", "--webui-port", "0")


def worker(folder: Path, master: str) -> AbstractContextManager[Daemon]:
    """Start a worker of one core."""
    ready = "Successfully registered with master"
    return started(ready, folder, WORKER, *_AT, "--cores", "1", "--memory", "1g", master)


def on(master: str) -> tuple[str, ...]:
    """Return what an audit is told to run on a cluster of small executors."""
    java = f"spark.executor.extraJavaOptions={LEAN}"
    return ("--master", master, "--conf", "spark.executor.memory=512m", "--conf", java)


def auditing(inputs: Path, out: Path, *arguments: str) -> subprocess.Popen[str]:
    # A process of its own, as users run it: this one's session is another's.
    return subprocess.Popen(
        [sys.executable, "-m", "kafkalite", "audit", str(inputs), "--out", str(out),
         "--task-mib", "1", "--conf", f"spark.driver.extraJavaOptions={LEAN}",
         "--conf", "spark.sql.shuffle.partitions=2", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=out.parent,
    )  # fmt: skip


def ended(auditing: subprocess.Popen[str]) -> str:
    told, failed = auditing.communicate()
    assert auditing.returncode == 0, failed
    return told


def audited(inputs: Path, out: Path, *arguments: str) -> None:
    told = ended(auditing(inputs, out, *arguments))
    assert f"report: {out}/report.html" in told


def tables(out: Path) -> dict[str, list[str]]:
    """Return every table that an audit left, its rows in no order.

    But for one: one process reduces few requests all at once, without what each task would leave.
    """
    found: dict[str, list[str]] = {}
    for folder in [*out.glob("requests/*"), *out.glob("state/*"), *out.glob("audits/*")]:
        rows = ds.dataset(folder, format="parquet", partitioning="hive").to_table().to_pylist()
        found[f"{folder.parent.name}/{folder.name}"] = sorted(map(str, rows))
    found.pop("state/heartbeat_runs", None)
    return found


@pytest.mark.parametrize(
    "jobs",
    [
        "fencing",
        pytest.param(
            ",".join(AUDITS), marks=[pytest.mark.endurance, pytest.mark.timeout(1_800)], id="all"
        ),
    ],
)
def test_a_cluster_finds_what_one_process_finds(master: str, tmp_path: Path, jobs: str) -> None:
    captures = tmp_path / "in"
    cut(captures, files=4)
    audited(captures, tmp_path / "alone", "--jobs", jobs, "--master", "local[2]")
    audited(captures, tmp_path / "together", "--jobs", jobs, *on(master))
    alone, together = tables(tmp_path / "alone"), tables(tmp_path / "together")
    assert together == alone
    assert any(rows for name, rows in alone.items() if name.startswith("requests/"))


def test_every_audit_takes_connections_that_span_files(tmp_path: Path) -> None:
    cut(tmp_path / "in", files=4)
    audited(tmp_path / "in", tmp_path / "out", "--master", "local[2]")
    found = tables(tmp_path / "out")
    assert found["state/taken_offsets"]
    assert found["audits/fencing_totals"]


@pytest.mark.endurance
@pytest.mark.timeout(900)
def test_a_worker_that_dies_while_it_reads_takes_nothing_with_it(
    master: str, folder: Path, tmp_path: Path
) -> None:
    made = write(tmp_path / "in", 24_000_000, connections=9, file_bytes=1_000_000)
    out = tmp_path / "together"
    with worker(folder, master) as doomed:
        run = auditing(tmp_path / "in", out, "--jobs", "requests", *on(master))
        wait_until(
            lambda: run.poll() is not None or any(out.glob(f"{STAGING}/requests/*/*/*.parquet")),
            "something to be staged",
            300,
        )
        doomed.process.kill()
        # Else nobody died while it read.
        assert not (out / "requests").exists()
        told = ended(run)
    assert f"files: {len(made.files)}, " in told
    assert f"requests: {made.frames // 2:,}" in told
    ended(auditing(tmp_path / "in", tmp_path / "alone", "--jobs", "requests"))
    assert tables(out) == tables(tmp_path / "alone")
    assert not (out / STAGING).exists()


@pytest.mark.endurance
@pytest.mark.timeout(900)
def test_executors_need_our_libraries_and_not_our_package(master: str, tmp_path: Path) -> None:
    """An environment without the package goes along as an archive, as `venv-pack` makes them."""
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    [theirs] = environment.glob("lib/*/site-packages")
    for path in Path(pyspark.__file__).parents[1].iterdir():
        # Java's workers bring PySpark; whoever it is installed by, our package is not there.
        if path.suffix != ".pth" and not path.name.startswith(("kafkalite", "pyspark", "_")):
            (theirs / path.name).symlink_to(path)
    archive = tmp_path / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(environment, ".")
    cut(tmp_path / "in")
    audited(tmp_path / "in", tmp_path / "alone", "--jobs", "fencing", "--master", "local[2]")
    audited(
        tmp_path / "in",
        tmp_path / "together",
        *("--jobs", "fencing", *on(master)),
        *("--conf", f"spark.archives={archive}#there"),
        *("--conf", "spark.pyspark.python=./there/bin/python"),
    )
    assert tables(tmp_path / "together") == tables(tmp_path / "alone")

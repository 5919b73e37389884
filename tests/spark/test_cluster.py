"""A cluster of its own: a master and two workers on loopback find what one process finds."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pyspark
import pytest

from kafkalite.spark.audits import AUDITS
from tests.captures.cut import cut

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

HOME = Path(pyspark.__file__).parent
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
LEAN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


@contextmanager
def started(ready: str, folder: Path, *arguments: str) -> Iterator[re.Match[str]]:
    """Run one of Spark's daemons; yields what it said when it was ready."""
    environ = {
        **os.environ,
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
        yield found
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stderr.close()


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a master and two workers of one core each; returns the master's URL."""
    folder = tmp_path_factory.mktemp("cluster")
    at = ("--host", "127.0.0.1", "--webui-port", "0")
    with started(
        r"Starting Spark master at (spark://\S+)", folder, MASTER, *at, "--port", free_port()
    ) as said:
        url = said[1]
        worker = (WORKER, *at, "--cores", "1", "--memory", "1g", url)
        registered = "Successfully registered with master"
        with started(registered, folder, *worker), started(registered, folder, *worker):
            yield url


def audited(inputs: Path, out: Path, *arguments: str) -> None:
    # A process of its own, as users run it: this one's session is another's.
    done = subprocess.run(
        [sys.executable, "-m", "kafkalite", "audit", str(inputs), "--out", str(out),
         "--task-mib", "1", "--conf", f"spark.driver.extraJavaOptions={LEAN}",
         "--conf", "spark.sql.shuffle.partitions=2", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=out.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"report: {out}/report.html" in done.stdout


def tables(out: Path) -> dict[str, list[str]]:
    """Return every table that an audit left, its rows in no order."""
    found: dict[str, list[str]] = {}
    folders = [
        *(out / "requests").iterdir(),
        *(out / "state").iterdir(),
        *(out / "audits").iterdir(),
    ]
    for folder in folders:
        rows = ds.dataset(folder, format="parquet", partitioning="hive").to_table().to_pylist()
        found[f"{folder.parent.name}/{folder.name}"] = sorted(map(str, rows))
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
    audited(
        captures,
        tmp_path / "together",
        "--jobs",
        jobs,
        "--master",
        master,
        "--conf",
        "spark.executor.memory=512m",
        "--conf",
        f"spark.executor.extraJavaOptions={LEAN}",
    )
    alone, together = tables(tmp_path / "alone"), tables(tmp_path / "together")
    assert together == alone
    assert any(rows for name, rows in alone.items() if name.startswith("requests/"))

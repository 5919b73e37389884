"""Stores on loopback: S3 served by moto, and a minimal HDFS cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.clients.observer import wait_until
from tests.oracle.requirements import program, required
from tests.spark.jars import SPARKS, hadoop_version, jars

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HERE: Final = Path(__file__).parent
_PATIENCE_S: Final = 180.0
_BUCKET: Final = "traffic"
LEAN: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


class Store:
    """A store's URL, and the environment and Spark settings that it needs."""

    def __init__(self, url: str, environ: Mapping[str, str], conf: Mapping[str, str]) -> None:
        self.url = url
        self.environ = environ
        self.conf = conf


@contextmanager
def s3() -> Iterator[Store]:
    """Serve S3 with one bucket; also sets this process's environment."""
    with required():
        added = jars("spark-s3", _HERE / "s3.xml", hadoop=hadoop_version())
    serving = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert serving.stderr is not None
    try:
        for line in serving.stderr:
            ready = re.search(r"Running on (http://\S+)", line)
            if ready is not None:
                break
        else:
            pytest.fail("moto did not start")
        threading.Thread(target=serving.stderr.read, daemon=True).start()
        environ = {
            "AWS_ENDPOINT_URL": ready[1],
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        conf = {
            "spark.jars": ",".join(map(str, added)),
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }
        with pytest.MonkeyPatch.context() as patched:
            for name, value in environ.items():
                patched.setenv(name, value)
            _make_bucket(ready[1])
            yield Store(f"s3://{_BUCKET}", environ, conf)
    finally:
        serving.terminate()
        serving.wait(timeout=_PATIENCE_S)
        serving.stderr.close()


def _make_bucket(endpoint: str) -> None:
    from pyarrow import fs  # noqa: PLC0415 - heavy, and needed by few tests

    files = fs.S3FileSystem(endpoint_override=endpoint, allow_bucket_creation=True)
    files.create_dir(_BUCKET)


@contextmanager
def hdfs(folder: Path) -> Iterator[Store]:
    """Serve HDFS: a name node and a data node in one process."""
    with required():
        java = program("java")
        added = jars("spark-hdfs", _HERE / "hdfs.xml", hadoop=hadoop_version())
    details = folder / "details.json"
    path = os.pathsep.join([*map(str, added), f"{SPARKS}/*"])
    with (folder / "hdfs.log").open("w") as log:
        serving = subprocess.Popen(
            [java, *LEAN, "-Xmx512m", "-cp", path, "org.apache.hadoop.test.MiniDFSClusterManager",
             "-format", "-datanodes", "1", "-nnport", "0", "-httpport", "0",
             "-writeDetails", str(details)],
            cwd=folder,
            stdout=log,
            stderr=log,
        )  # fmt: skip
    try:
        wait_until(
            lambda: serving.poll() is not None or (details.exists() and details.stat().st_size > 0),
            "HDFS",
            _PATIENCE_S,
        )
        assert serving.poll() is None, (folder / "hdfs.log").read_text()[-3000:]
        port = json.loads(details.read_text())["namenode_port"]
        yield Store(f"hdfs://127.0.0.1:{port}", {}, {})
    finally:
        serving.kill()  # it has no state to save
        serving.wait(timeout=_PATIENCE_S)

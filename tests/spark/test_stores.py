"""Captures and audits in remote stores: S3 and HDFS."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pyarrow import fs

from kafkalite.lab.columnar.options import Options, Table
from kafkalite.lab.columnar.reading import read_file
from kafkalite.lab.spark.locations import LocationError, find, location
from kafkalite.lab.spark.pipeline import Job, audit
from tests.captures.split_captures import split_capture
from tests.spark.stores.serving import Store, hdfs, s3
from tests.spark.test_cluster import tables
from tests.unit.lab.spark.changes import (
    NEW,
    OLD,
    STAGED_COMMIT,
    STAGED_STEPS,
    WRITTEN_ONCE_COMMIT,
    WRITTEN_ONCE_STEPS,
    Crash,
    committed,
    crash_at,
    output_in,
    write_change,
    write_old_output,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(
    scope="module",
    params=["s3", pytest.param("hdfs", marks=pytest.mark.endurance)],
)
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """Start a store."""
    served = s3() if request.param == "s3" else hdfs(tmp_path_factory.mktemp("hdfs"))
    with served as running_store:
        yield running_store


def frames(*paths: Path) -> int:
    count = 0
    for path in paths:
        with path.open("rb") as stream:
            for table, batch in read_file(
                stream, str(path), Options(tables=frozenset({Table.FRAMES}))
            ):
                count += batch.num_rows if table is Table.FRAMES else 0
    return count


_FOLDER = re.compile(r"'connection': -?\d+|(?<='file': ')[^']*/")


def without_locations(rows_by_table: dict[str, list[str]]) -> dict[str, list[str]]:
    """Remove folders and connection numbers, which depend on the folder."""
    return {
        name: sorted(_FOLDER.sub("", row) for row in rows) for name, rows in rows_by_table.items()
    }


@pytest.mark.endurance
@pytest.mark.timeout(1_800)
def test_store_is_read_and_written_like_a_folder(store: Store, tmp_path: Path) -> None:
    paths = split_capture(tmp_path / "in")
    for path in paths:
        with (location(f"{store.url}/captures") / path.name).create() as stream:
            stream.write(path.read_bytes())
    (location(f"{store.url}/captures") / "_hidden/a capture.pcapng").write_text("no capture")

    arguments = (store.url, str(tmp_path), json.dumps(store.conf))
    completed = subprocess.run(
        [sys.executable, "-m", "tests.spark.stores.application", *arguments],
        env={**os.environ, **store.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
    result = json.loads(completed.stdout)
    local = tables(tmp_path / "out")
    requests = sum(len(rows) for name, rows in local.items() if name.startswith("requests/"))

    assert result["read"] == [len(paths), len(paths), 0, len(paths), 0]
    assert result["requests"] == [requests] * 5
    assert result["read back"] == [requests] * 2
    assert result["quarantined"] == []
    assert result["frames"] == [frames(*paths), frames(*paths[:2])]
    assert (location(result["report"]).read_text() or "").startswith("<!doctype html>")
    out = location(f"{store.url}/out")
    assert not any("staging" in name for name in out.walk())
    (tmp_path / "fetched").mkdir()
    fs.copy_files(out.path, str(tmp_path / "fetched"), out.files, fs.LocalFileSystem())
    assert without_locations(tables(tmp_path / "fetched")) == without_locations(local)


def test_interrupted_change_is_finished_or_undone_in_a_store(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_object = location(store.url).is_object
    steps, commit = (
        (WRITTEN_ONCE_STEPS, WRITTEN_ONCE_COMMIT) if is_object else (STAGED_STEPS, STAGED_COMMIT)
    )
    for step in range(len(steps)):
        out = location(f"{store.url}/changed-{step}")
        stored = write_old_output(out)
        with monkeypatch.context() as patched:
            done = crash_at(patched, step)
            with pytest.raises(Crash):
                write_change(out, stored)
            assert tuple(done) == steps[:step]
        output_in(out).recover()
        files, manifest = committed(out)
        expected = NEW if step >= commit else OLD
        assert (files - {"report"}, manifest) == (expected[0] - {"report"}, expected[1])


def test_error_for_a_missing_location_is_one_line(store: Store) -> None:
    for name in ("nowhere", "*.pcapng", "nowhere/*"):
        with pytest.raises(LocationError, match=r"no such file|no file matches") as error:
            find([f"{store.url}/{name}"])
        assert "\n" not in str(error.value)


def test_missing_jar_is_reported_before_reading(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    job = Job(inputs=("/nowhere",), out="s3://elsewhere/out")
    with pytest.raises(
        LocationError, match=r"--conf spark\.jars\.packages=.*:hadoop-aws:\d"
    ) as error:
        audit(spark, job)
    assert "\n" not in str(error.value)

"""Captures and audits in stores that are no folder of this machine: S3, and HDFS."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pyarrow import fs

from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.reading import read_file
from kafkalite.spark.journal import commit, recover
from kafkalite.spark.pipeline import Job, audit
from kafkalite.spark.places import PlaceError, find, place
from tests.captures.cut import cut
from tests.spark.stores.serving import Store, hdfs, s3
from tests.spark.test_cluster import tables
from tests.unit.spark.changes import CHANGE, NEW, OLD, STEPS, Crash, crash_at, laid, state

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
    """Serve a store of each kind."""
    served = s3() if request.param == "s3" else hdfs(tmp_path_factory.mktemp("hdfs"))
    with served as found:
        yield found


def frames(*paths: Path) -> int:
    found = 0
    for path in paths:
        with path.open("rb") as stream:
            for table, batch in read_file(
                stream, str(path), Options(tables=frozenset({Table.FRAMES}))
            ):
                found += batch.num_rows if table is Table.FRAMES else 0
    return found


_FOLDER = re.compile(r"'connection': -?\d+|(?<='file': ')[^']*/")


def anywhere(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """Leave out where files lie, and the numbers of connections, which hang on that."""
    return {name: sorted(_FOLDER.sub("", row) for row in rows) for name, rows in found.items()}


@pytest.mark.endurance
@pytest.mark.timeout(1_800)
def test_a_store_is_read_and_written_as_a_folder_is(store: Store, tmp_path: Path) -> None:
    paths = cut(tmp_path / "in")
    for path in paths:
        with (place(f"{store.url}/captures") / path.name).create() as stream:
            stream.write(path.read_bytes())
    (place(f"{store.url}/captures") / "_hidden/a capture.pcapng").write_text("no capture")

    arguments = (store.url, str(tmp_path), json.dumps(store.conf))
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.stores.application", *arguments],
        env={**os.environ, **store.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    local = tables(tmp_path / "out")
    requests = sum(len(rows) for name, rows in local.items() if name.startswith("requests/"))

    assert told["read"] == [len(paths), len(paths), 0, len(paths), 0]
    assert told["requests"] == [requests] * 5
    assert told["read back"] == [requests] * 2
    assert told["quarantined"] == []
    assert told["frames"] == [frames(*paths), frames(*paths[:2])]
    assert (place(told["report"]).read_text() or "").startswith("<!doctype html>")
    out = place(f"{store.url}/out")
    assert not any("staging" in name for name in out.walk())
    (tmp_path / "fetched").mkdir()
    fs.copy_files(out.path, str(tmp_path / "fetched"), out.files, fs.LocalFileSystem())
    assert anywhere(tables(tmp_path / "fetched")) == anywhere(local)


@pytest.mark.parametrize("step", range(STEPS))
def test_a_change_that_breaks_off_is_made_whole_there_too(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    out = laid(place(f"{store.url}/changed-{step}"))
    with monkeypatch.context() as patched:
        crash_at(patched, step)
        with pytest.raises(Crash):
            commit(out, CHANGE)
    recover(out)
    assert state(out) == (OLD if step == 0 else NEW)


def test_a_move_that_copied_and_did_not_delete_is_made_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = laid(place(f"{store.url}/copied"))
    with monkeypatch.context() as patched:
        crash_at(patched, STEPS - 4)
        with pytest.raises(Crash):
            commit(out, CHANGE)
    # That is what moving is in a store that has no names but those of what it keeps.
    source, target = CHANGE.moves[0]
    with (out / target).create() as stream:
        stream.write(((out / source).read_text() or "").encode())
    recover(out)
    assert state(out) == NEW


def test_what_is_not_there_is_told_in_one_line(store: Store) -> None:
    for name in ("nowhere", "*.pcapng", "nowhere/*"):
        with pytest.raises(PlaceError, match=r"no such file|no file matches") as told:
            find([f"{store.url}/{name}"])
        assert "\n" not in str(told.value)


def test_a_missing_jar_is_told_before_anything_is_read(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    job = Job(inputs=("/nowhere",), out="s3://elsewhere/out")
    with pytest.raises(PlaceError, match=r"--conf spark\.jars\.packages=.*:hadoop-aws:\d") as told:
        audit(spark, job)
    assert "\n" not in str(told.value)

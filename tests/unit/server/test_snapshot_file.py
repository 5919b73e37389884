"""Files of snapshots: what they restore, and how damaged ones are refused."""

from __future__ import annotations

import io
import json
import os
import random
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.ports.memory_files import Memory
from kafkalite.server.snapshot import Snapshot, SnapshotError
from kafkalite.server.snapshot_file import load_snapshot, save_snapshot
from kafkalite.testing import Broker
from kafkalite.testing.files import CrashedError, FaultyFiles, MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOW = "manual@2026-03-01T12:00:00Z"


@pytest.fixture(scope="module")
def source() -> Iterator[Broker]:
    with Broker(2, {"orders": 2}, storage="memory", seed=7, clock=NOW) as broker:
        broker.produce("orders", "apples")
        broker.faults.add(api="Produce", topic="orders", error="NOT_ENOUGH_REPLICAS", times=2)
        broker.links.cut(client_id="shop")
        broker.nodes[2].stop()
        yield broker


@pytest.fixture
def path(source: Broker, tmp_path: Path) -> Path:
    path = tmp_path / "snapshot.zip"
    source.snapshot().save(path)
    return path


def test_a_loaded_snapshot_has_all_parts(source: Broker, path: Path) -> None:
    snapshot, loaded = source.snapshot(), Snapshot.load(path)
    for name in ("cluster_id", "initial_image", "clock", "random_state", "faults", "links"):
        assert getattr(loaded, name) == getattr(snapshot, name)
    for name in ("image", "stopped_nodes", "lagging_replicas"):
        assert getattr(loaded.cluster, name) == getattr(snapshot.cluster, name)
    assert loaded.cluster.history.latest() == snapshot.cluster.history.latest()
    assert loaded.settings.brokers == 2


def test_a_cluster_can_begin_with_a_loaded_snapshot(path: Path) -> None:
    with Broker(storage="memory") as other, other.fork(Snapshot.load(path)) as fork:
        assert fork.topics() == ["orders"]
        assert [each.state for each in map(fork.nodes.__getitem__, fork.nodes)] == [
            "running",
            "stopped",
        ]


def test_equal_snapshots_are_equal_files(source: Broker, path: Path, tmp_path: Path) -> None:
    source.snapshot().save(tmp_path / "other.zip")
    assert (tmp_path / "other.zip").read_bytes() == path.read_bytes()


def test_a_crash_leaves_the_old_or_the_new_file(source: Broker) -> None:
    snapshot = source.snapshot()
    files = MemoryFiles()
    files.makedirs("/backup")
    save_snapshot(snapshot, "/backup/s.zip", files)
    new = files.read("/backup/s.zip")
    old = new[:4] + b"the old snapshot"
    outcomes = set()
    for step in range(1, 1000):
        disk = MemoryFiles()
        disk.makedirs("/backup")
        disk.write("/backup/s.zip", old)
        disk.sync("/backup/s.zip")
        faulty = FaultyFiles(disk, fail_at=step, crash=True)
        try:
            save_snapshot(snapshot, "/backup/s.zip", faulty)
        except CrashedError:
            for lost in (disk.after_power_loss(lambda size: size // 2), disk):
                outcomes.add(lost.read("/backup/s.zip") == new)
                assert lost.read("/backup/s.zip") in (old, new)
        else:
            break
    assert outcomes == {True, False}


def test_another_file_is_not_replaced(source: Broker, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("notes")
    with pytest.raises(SnapshotError, match=r"notes\.txt is not a snapshot, and is not replaced"):
        source.snapshot().save(path)
    assert path.read_text() == "notes"
    with pytest.raises(SnapshotError, match="cannot write the snapshot: No such file or directory"):
        source.snapshot().save(tmp_path / "missing" / "s.zip")


def changed(
    path: Path, change: Callable[[dict[str, bytes]], object], compression: int = zipfile.ZIP_STORED
) -> None:
    """Change the members of a zip file, by name."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def with_manifest(**values: object) -> Callable[[dict[str, bytes]], object]:
    def change(members: dict[str, bytes]) -> None:
        manifest: dict[str, Any] = json.loads(members["manifest.json"])
        members["manifest.json"] = json.dumps({**manifest, **values}).encode()

    return change


LOG = "data/orders-0/00000000000000000000.log"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (with_manifest(version=2),
         "manifest.json: the snapshot has version 2, but this kafkalite reads version 1"),
        (with_manifest(release="9.9.9"), "manifest.json: the snapshot has release '9.9.9', but"),
        (with_manifest(clock={"now_ms": 2**63, "rate": 0, "skip_rate": 0}),
         "manifest.json: clock.now_ms must be a whole number from 0 to 253402300799999, not 9223"),
        (with_manifest(clock={"now_ms": 0, "rate": 1e308, "skip_rate": 0}),
         "manifest.json: clock.rate must be a number from 0 to 1000000, not 1e+308"),
        (with_manifest(links=[{"id": "x", "rule": {"cut": True}}]),
         "manifest.json: the ids must be different ones from l1 to l1, not 'x'"),
        (with_manifest(last_fault=0),
         "manifest.json: the ids must be different ones from f1 to f0, not 'f1'"),
        (with_manifest(cluster_id="x"),
         "data/meta.properties: cluster_id must be that in the file"),
        (with_manifest(metadata_offset=1),
         "manifest.json: metadata_offset must be the end of the metadata log, "),
        (with_manifest(faults=[{"id": "f1", "rule": {"match": {"api": "X"}}, "matches": 0,
                                "firings": 0}]), "fault f1: "),
        (with_manifest(random_state=[1, 2]), "random_state: "),
        (with_manifest(colour="red"), "manifest.json: the manifest has no field 'colour'"),
        (with_manifest(files={}), "the manifest does not list this file"),
        (lambda each: each.pop("manifest.json"),
         "manifest.json: the file is missing, so this is no snapshot of kafkalite"),
        (lambda each: each.update({"manifest.json": b'{\n"a": }'}),
         "manifest.json: line 2 column 6: Expecting value"),
        (lambda each: each.pop(LOG), f"{LOG}: the file is missing, but the manifest lists it"),
        (lambda each: each.update({LOG: b"short"}),
         f"{LOG}: it has 5 bytes, but the manifest says"),
        (lambda each: each.update({"data/../../etc/passwd": b""}),
         "'data/../../etc/passwd' at byte "),
        (lambda each: each.update({"/etc/passwd": b""}), "'/etc/passwd' at byte "),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_the_position(
    path: Path, change: Callable[[dict[str, bytes]], object], text: str
) -> None:
    changed(path, change)
    with pytest.raises(SnapshotError) as caught:
        Snapshot.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_bytes_are_found(path: Path) -> None:
    content = path.read_bytes()
    dice = random.Random(5)  # noqa: S311 - repeatable
    refused = 0
    for _ in range(150):
        damaged = bytearray(content)
        damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        path.write_bytes(damaged[: dice.choice((len(damaged), dice.randrange(len(damaged))))])
        try:
            Snapshot.load(path)  # the bit may be one that does not matter, such as a time
        except SnapshotError as error:
            assert f"{error}".startswith(f"{path}: ")  # noqa: PT017 - not always raised
            refused += 1
    assert refused > 100


def test_a_zip_bomb_is_refused_by_its_size(path: Path) -> None:
    size = 1 << 25

    def add_zeros(members: dict[str, bytes]) -> None:
        manifest: dict[str, Any] = json.loads(members["manifest.json"])
        members["data/zeros"] = bytes(size)
        with_manifest(files={**manifest["files"], "zeros": size})(members)

    changed(path, add_zeros)
    memory = Memory(1 << 24)
    with pytest.raises(SnapshotError, match=r"its files have 32 MiB, and the data in memory may"):
        load_snapshot(f"{path}", memory)
    assert memory.used_bytes == 0


def test_a_failed_load_changes_nothing(path: Path) -> None:
    with Broker(storage="memory", topics={"a": 1}) as broker:
        broker.produce("a", "x")
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(ValueError, match="this is no complete snapshot: File is not a zip"):
            broker.load_snapshot(path)
        assert len(broker.records("a")) == 1


def test_an_encrypted_file_is_refused(path: Path) -> None:
    content = bytearray(path.read_bytes())
    central = content.index(b"PK\x01\x02")
    content[central + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(SnapshotError, match="stored or deflated, and not encrypted"):
        load_snapshot(f"{path}")
    assert zipfile.is_zipfile(io.BytesIO(content))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes with paths")
def test_pipes_and_devices_are_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.zip"
    os.mkfifo(pipe)
    for path in (f"{pipe}", "/dev/zero"):
        with pytest.raises(SnapshotError, match=f"{path} is no regular file"):
            load_snapshot(path)


def test_a_member_that_is_larger_than_it_says_is_not_inflated(path: Path) -> None:
    actual, stated = 1 << 24, 100

    def enlarge(members: dict[str, bytes]) -> None:
        manifest: dict[str, Any] = json.loads(members["manifest.json"])
        with_manifest(files={**manifest["files"], LOG.removeprefix("data/"): stated})(members)
        members[LOG] = bytes(actual)

    changed(path, enlarge, zipfile.ZIP_DEFLATED)
    content = path.read_bytes()
    path.write_bytes(content.replace(actual.to_bytes(4, "little"), stated.to_bytes(4, "little")))
    tracemalloc.start()
    with pytest.raises(SnapshotError, match=f"{LOG} at byte .*: its content is damaged"):
        load_snapshot(f"{path}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < actual // 2


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        (b" " * (17 << 20), r"it has 17825792 bytes; 167\d+ are possible"),
        (b'{"a":[' + b'{"":0},' * 500_100 + b"0]}", r"it has more than 5000\d\d values"),
    ],
)
def test_a_manifest_that_is_too_large_is_refused_before_it_is_read(
    path: Path, manifest: bytes, text: str
) -> None:
    changed(path, lambda members: members.update({"manifest.json": manifest}))
    with pytest.raises(SnapshotError, match=text):
        load_snapshot(f"{path}")


def test_a_failed_save_leaves_no_file(source: Broker) -> None:
    snapshot = source.snapshot()
    disk = MemoryFiles()
    disk.makedirs("/backup")
    counting = FaultyFiles(disk)
    save_snapshot(snapshot, "/backup/s.zip", counting)
    old, steps = disk.read("/backup/s.zip"), counting.steps
    for step in (0, 1, steps // 2, *range(steps - 4, steps)):
        with pytest.raises(SnapshotError, match="no space left on device"):
            save_snapshot(snapshot, "/backup/s.zip", FaultyFiles(disk, fail_at=step, crash=False))
        assert disk.list("/backup") == ["s.zip"]
        assert disk.read("/backup/s.zip") == old


def test_threads_that_save_to_one_path_leave_a_whole_file(source: Broker, tmp_path: Path) -> None:
    snapshot, path = source.snapshot(), tmp_path / "one.zip"
    with ThreadPoolExecutor(4) as threads:
        for each in [threads.submit(snapshot.save, path) for _ in range(20)]:
            each.result()
    assert Snapshot.load(path).cluster_id == snapshot.cluster_id
    assert [each.name for each in tmp_path.iterdir()] == ["one.zip"]

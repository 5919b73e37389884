"""Manifests with values that no cluster has are refused, and each error names the position."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.server.snapshot import Snapshot, SnapshotError
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = "manual@2026-03-01T12:00:00Z"


@pytest.fixture(scope="module")
def source() -> Iterator[Broker]:
    with Broker(2, {"orders": 2}, storage="memory", seed=7, clock=NOW) as broker:
        broker.produce("orders", "apples", partition=0)
        broker.nodes[2].stop()
        yield broker


@pytest.fixture(scope="module")
def members(source: Broker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("saved") / "snapshot.zip"
    source.snapshot().save(path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def changed(value: Any, keys: list[str | int], new: object) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON value in which the value at a path is another one."""
    if not keys:
        return new
    key, *others = keys
    copy = value.copy()
    if key == "+":
        copy.append(new)
    else:
        copy[key] = changed(copy.get(key) if isinstance(copy, dict) else copy[key], others, new)
    return copy


ENTRY: dict[str, object] = {
    "number": 0,
    "group": None,
    "transactional_id": None,
    "topic": None,
    "client": None,
    "kind": "joined",
    "text": "",
    "facts": {},
    "times": 1,
    "first_ms": 5,
    "at_ms": 5,
}


FORMER = {
    "leader": 2,
    "first_lost_offset": 1,
    "end_offset": 1,
    "start_offset": 0,
    "high_watermark": 1,
    "last_stable_offset": 1,
    "low_watermark": 0,
    "has_enough_replicas": True,
    "producers": "",
}


@pytest.mark.parametrize(
    ("keys", "new", "text"),
    [
        (["settings", "brokers"], 10**12,
         "settings.brokers must be a whole number from 1 to 1000, not 1000000000000"),
        (["settings", "controller_id"], 2,
         "settings: --controller-id 2 is the id of a broker"),
        (["settings", "config"], {"listeners": "A://:1"},
         "settings: config has 'listeners': a snapshot has no secrets, addresses and files"),
        (["settings", "node_config"], {"x": {}},
         "settings: node_config must have different node ids, not 'x'"),
        (["settings", "node_config"], {"2": {}, "02": {}},
         "settings: node_config must have different node ids, not '02'"),
        (["settings", "node_config"], {"7": {}},
         "settings: --node-config has node 7, but the nodes are 1, 2"),
        (["settings", "node_config"], {"2": {"ssl.key.password": "x"}},
         "settings: node_config.2 has 'ssl.key.password': a snapshot has no secrets"),
        (["settings", "topics"], {"a b": 1},
         "settings: topics: Topic name is invalid: 'a b' contains"),
        (["settings", "seed"], -1, "settings.seed must be a whole number from 0 to "),
        (["stopped_nodes", 0, "node_id"], 9,
         "stopped_nodes[0].node_id: there is no node 9; the nodes are 1, 2"),
        (["lagging_replicas", 0, "topic_id"], "00",
         "lagging_replicas[0].topic_id must be 16 bytes in hex, not '00'"),
        (["lagging_replicas", 0, "topic_id"], "00" * 16,
         "lagging_replicas[0].topic_id: there is no topic 0000"),
        (["lagging_replicas", 0, "partition"], 2,
         "lagging_replicas[0].partition: orders has 2 partitions, and none with the index 2"),
        (["lagging_replicas", 0, "node_id"], 3,
         "lagging_replicas[0].node_id: there is no node 3; the nodes are 1, 2"),
        (["lagging_replicas", 0, "replica_end"], 10**30,
         "lagging_replicas[0].replica_end must be an offset of orders-0 from 0 to 1, not 1000"),
        (["lagging_replicas", 0, "replica_start"], 2,
         "lagging_replicas[0].replica_start must be an offset of orders-0 from 0 to 1, not 2"),
        (["lagging_replicas", 0, "caught_up_ms"], -1,
         "lagging_replicas.caught_up_ms must be a whole number from 0 to "),
        (["lagging_replicas", 0, "led_isr"], [9],
         "lagging_replicas[0].led_isr: there is no node 9; the nodes are 1, 2"),
        (["lagging_replicas", 0, "former_leader"], {**FORMER, "leader": 1},
         "lagging_replicas[0].former_leader.leader must be node 2, without led_isr, not 1"),
        (["lagging_replicas", 0, "former_leader"], {**FORMER, "end_offset": 0},
         "lagging_replicas[0].former_leader.end_offset must not be before first_lost_offset, 1"),
        (["lagging_replicas", 0, "former_leader"], {**FORMER, "producers": "00"},
         "former_leader.producers must be a snapshot file of Kafka in hex, not '00'"),
        (["uncommitted", 0, "high_watermark"], 2,
         "uncommitted[0].high_watermark must be an offset of orders-0 from 0 to 1, not 2"),
        (["uncommitted", 0, "transaction_ends"], [{"first_offset": 0, "end_offset": 9}],
         "uncommitted[0].transaction_ends[0].end_offset must be an offset of orders-0 from 0 to 1"),
        (["uncommitted", 0, "transaction_ends"], [{"first_offset": 1, "end_offset": 0}],
         "uncommitted[0].transaction_ends[0].first_offset must be an offset of orders-0 from 0 to"),
        (["history", "+"], ENTRY,
         "must have one of group, transactional_id, topic, client, not 0"),
        (["history"], [{**ENTRY, "topic": "a"}, {**ENTRY, "topic": "a"}],
         "history[1].number must be larger than that of the entry before, 0, not 0"),
        (["history", "+"], {**ENTRY, "topic": "a", "number": 9999, "at_ms": 4},
         ".at_ms must not be before first_ms, 5, but is 4"),
        (["history", "+"], {**ENTRY, "topic": "a", "facts": {"x": float("nan")}},
         "manifest.json: NaN is no number in JSON"),
        (["random_state"], [0] * 626, "random_state has 626 items; 625 are possible"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_position(
    members: dict[str, bytes], tmp_path: Path, keys: list[str | int], new: object, text: str
) -> None:
    manifest = changed(json.loads(members["manifest.json"]), keys, new)
    assert_refused(members, manifest, tmp_path, text)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("stopped_nodes", "stopped_nodes[1].node_id: node 2 is there twice"),
        ("lagging_replicas", "the replica of node 2 is there twice"),
        ("uncommitted", "orders-0 is there twice"),
    ],
)
def test_repeated_rows_are_refused(
    members: dict[str, bytes], tmp_path: Path, field: str, text: str
) -> None:
    manifest = json.loads(members["manifest.json"])
    rows = manifest[field]
    assert rows
    assert_refused(members, {**manifest, field: [*rows, rows[0]]}, tmp_path, text)


def assert_refused(members: dict[str, bytes], manifest: object, folder: Path, text: str) -> None:
    path = folder / "changed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            is_manifest = name == "manifest.json"
            archive.writestr(name, json.dumps(manifest) if is_manifest else content)
    with pytest.raises(SnapshotError) as caught:
        Snapshot.load(path)
    assert str(caught.value).startswith(f"{path}: manifest.json: ")
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)

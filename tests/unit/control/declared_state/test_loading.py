"""A broker with a declared state: its contents, the checks, and the reset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.control.broker_reset import reset
from kafkalite.control.command_table import CommandError
from kafkalite.control.declared_state.shape import MAX_END_OFFSET
from kafkalite.control.declared_state.source import StateError, state_of_mapping, with_state
from kafkalite.control.topic_records import read
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from kafkalite.testing import Broker as BrokerInTest
from tests.unit.control.ports import ANY_PORT

if TYPE_CHECKING:
    from pathlib import Path

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = Settings(
    listen=ANY_PORT,
    topics={"other": 1},
    config={"authorizer.class.name": AUTHORIZER, "offsets.topic.num.partitions": "3"},
    is_in_memory=True,
)
RECORDS: list[dict[str, Any]] = [
    {"key": "a", "value": "1", "timestamp": 1_000, "partition": 1},
    {"key": "b", "value": "2", "timestamp": 2_000, "partition": 1, "offset": 7},
    {"key": "c", "timestamp": 3_000, "partition": 1, "headers": {"h": "x"}},
]
STATE: dict[str, Any] = {
    "brokers": 2,
    "features": {"transaction.version": 1, "share.version": 0},
    "topics": {
        "orders": {
            "partitions": 3,
            "replication_factor": 2,
            "config": {"cleanup.policy": "compact"},
            "records": RECORDS,
            "end_offsets": {"1": 12, "2": 4},
        }
    },
    "groups": {"shop": {"offsets": {"orders": {"1": 8}}, "metadata": {"orders": {"1": "m"}}}},
    "acls": [
        {
            "principal": "User:alice",
            "operation": "READ",
            "resource_type": "TOPIC",
            "resource_name": "ord",
            "pattern_type": "PREFIXED",
        }
    ],
    "users": {"alice": {"password": "secret"}, "bob": {"mechanisms": {"SCRAM-SHA-256": 8192}}},
    "quotas": [{"user": "<default>", "client_id": "x", "quotas": {"producer_byte_rate": 10}}],
}


def settings_with(changes: dict[str, Any], settings: Settings = SETTINGS) -> Settings:
    return with_state(settings, state_of_mapping({**STATE, **changes}))


async def test_everything_that_is_declared_is_there_also_after_a_reset() -> None:
    broker = Broker(settings_with({}))
    await broker.start()
    try:
        before = await check_contents(broker)
        await reset(broker)
        assert await check_contents(broker) == before
    finally:
        await broker.stop()


async def check_contents(broker: Broker) -> object:
    """Check a broker with STATE, and return its SCRAM credentials."""
    assert broker.cluster is not None
    image = broker.cluster.metadata.image
    assert sorted(each for each in image.topics if not each.startswith("__")) == ["orders", "other"]
    assert [len(each.replicas) for each in image.topics["orders"].partitions] == [2, 2, 2]
    assert image.topic_config("orders") == {"cleanup.policy": "compact"}
    found = [each async for each in read(broker, "orders")]
    assert [each[1:7] for each in found] == [
        (1, 0, 1_000, b"a", b"1", ()),
        (1, 7, 2_000, b"b", b"2", ()),
        (1, 8, 3_000, b"c", None, (("h", b"x"),)),
    ]
    topic = broker.cluster.partitions.topic("orders")
    assert topic is not None
    ends = [topic.partition(index) for index in range(3)]
    assert [(each.log_start_offset, each.high_watermark) for each in ends if each is not None] == [
        (0, 0),
        (0, 12),
        (4, 4),
    ]
    (group,) = (
        shard.machine.offsets.of_group("shop")
        for shard in broker.cluster.groups.shards()
        if "shop" in shard.machine.directory.groups
    )
    assert (group["orders"][1].offset, group["orders"][1].metadata) == (8, "m")
    assert (image.features["transaction.version"], "share.version" in image.features) == (1, False)
    (acl,) = image.acls.values()
    assert f"{acl}" == "allows User:alice from host * operation READ on TOPIC PREFIXED ord"
    assert image.client_quotas == {
        frozenset({("user", None), ("client-id", "x")}): {"producer_byte_rate": 10.0}
    }
    iterations = {key: each.iterations for key, each in image.scram_credentials.items()}
    assert iterations == {(1, "alice"): 4096, (2, "alice"): 4096, (1, "bob"): 8192}
    return dict(image.scram_credentials)


async def test_a_reset_of_topics_or_groups_creates_only_those_that_match() -> None:
    topics = {**STATE["topics"], "audit": {"records": [{"value": "1"}]}}
    broker = Broker(settings_with({"topics": topics}))
    await broker.start()
    try:
        assert broker.cluster is not None
        metadata = broker.cluster.metadata
        ids = {name: each.topic_id for name, each in metadata.image.topics.items()}
        metadata.delete_acls(set(metadata.image.acls))
        result = await reset(broker, topics="aud*")
        assert result.created_topics == ("audit",)
        assert metadata.image.topics["audit"].topic_id != ids["audit"]
        assert metadata.image.topics["orders"].topic_id == ids["orders"]
        assert [each.value async for each in read(broker, "audit")] == [b"1"]
        assert not metadata.image.acls
        assert (await reset(broker, groups="shop")).created_topics == ()
        shards = broker.cluster.groups.shards()
        assert any("shop" in each.machine.directory.groups for each in shards)
    finally:
        await broker.stop()


async def test_a_reset_that_cannot_load_the_state_is_an_error() -> None:
    topics = {"orders": {"partitions": 2, "records": [{"value": "x" * 2_000}]}}
    broker = Broker(settings_with({"topics": topics, "acls": [], "quotas": [], "users": {}}))
    await broker.start()
    try:
        assert broker.cluster is not None
        resource = ConfigResource(ResourceType.BROKER, "")
        metadata = broker.cluster.metadata
        configs = {**metadata.image.configs[resource], "message.max.bytes": "1000"}
        assert metadata.replace_configs({resource: configs}) == {resource: None}
        broker.initial_image = metadata.image
        with pytest.raises(CommandError, match=r"topics\.orders\.records\[0\]: MESSAGE_TOO_LARGE"):
            await reset(broker)
    finally:
        await broker.stop()


TOPIC = STATE["topics"]["orders"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"topics": {"other": {}}}, "topics.other: topic other is also a topic of the other opt"),
        (
            {"topics": {"orders": {**TOPIC, "replication_factor": 3}}},
            "topics.orders: INVALID_REPLICATION_FACTOR: ",
        ),
        (
            {"topics": {"orders": {**TOPIC, "config": {"retention.ms": "x"}}}},
            "topics.orders: INVALID_CONFIG: Invalid value x for configuration retention.ms",
        ),
        (
            {"topics": {"orders": {**TOPIC, "partitions": 1}}},
            "topics.orders.end_offsets.1: topic 'orders' has the partitions 0 to 0, but not 1",
        ),
        (
            {"topics": {"orders": {"records": RECORDS}}, "groups": {}},
            "topics.orders.records[0].partition: topic 'orders' has the partitions 0 to 0",
        ),
        (
            {"topics": {"orders": {**TOPIC, "end_offsets": {"1": 3}}}},
            "topics.orders.end_offsets.1: end_offsets must be at least 9, the end of orders-1, not",
        ),
        (
            {"topics": {"orders": {**TOPIC, "records": [*RECORDS, {**RECORDS[1], "offset": 2}]}}},
            "topics.orders.records[3]: offset must be at least 9, the end of orders-1, not 2",
        ),
        (
            {
                "topics": {
                    "orders": {
                        "partitions": 3,
                        "records": [
                            *RECORDS,
                            {**RECORDS[1], "offset": MAX_END_OFFSET - 1},
                            RECORDS[1],
                        ],
                    }
                }
            },
            "topics.orders.records[4]: ",
        ),
        (
            {"topics": {"orders": {**TOPIC, "records": [*RECORDS, {"value": "no key"}]}}},
            "topics.orders.records[3]: INVALID_RECORD: Compacted topic cannot accept message with",
        ),
        (
            {"groups": {"shop": {"offsets": {"none": {"0": 1}}}}},
            "groups.shop.offsets.none.0: there is no topic 'none'; the topics are other, orders",
        ),
        (
            {"groups": {"shop": {"offsets": {"orders": {"x": 1}}}}},
            "groups.shop.offsets.orders.x: topic 'orders' has the partitions 0 to 2, but not x",
        ),
        (
            {"groups": {"g": {"metadata": {"orders": {"1": "m"}}}}},
            "groups.g.metadata.orders.1: partition 1 of 'orders' has metadata, but no offset",
        ),
        (
            {
                "groups": {
                    "g": {
                        "offsets": {"orders": {"0": 1}},
                        "metadata": {"orders": {"0": "m" * 5000}},
                    }
                }
            },
            "groups.g.offsets.orders.0: OFFSET_METADATA_TOO_LARGE: ",
        ),
        (
            {"acls": [{**STATE["acls"][0], "principal": "alice"}]},
            "acls[0]: INVALID_REQUEST: ",
        ),
        ({"users": {"": {"password": "x"}}}, "users.: UNACCEPTABLE_CREDENTIAL: "),
        (
            {"quotas": [{"user": "a", "quotas": {"speed": 1}}]},
            "quotas[0]: INVALID_REQUEST: ",
        ),
        (
            {"features": {"share.version": 9}},
            "features.share.version: share.version cannot be at level 9: Kafka 4.4 has level",
        ),
        (
            {"features": {"metadata.version": 20, "eligible.leader.replicas.version": 1}},
            "features.eligible.leader.replicas.version: eligible.leader.replicas.version could no",
        ),
    ],
)
async def test_a_state_that_does_not_fit_ends_the_start(
    changes: dict[str, Any], expected: str
) -> None:
    broker = Broker(settings_with(changes))
    with pytest.raises(StateError) as raised:
        await broker.start()
    assert str(raised.value).startswith(f"state: {expected}")
    assert "\n" not in str(raised.value)
    assert broker.cluster is None


async def test_acls_need_an_authorizer_and_users_have_one_source() -> None:
    broker = Broker(settings_with({}, SETTINGS._replace(config={})))
    with pytest.raises(StateError, match=r"acls\[0\]: ACLs need an authorizer: set authorizer"):
        await broker.start()


async def test_log_append_time_and_small_batches_keep_the_declared_times() -> None:
    config = {
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": 200,
        "message.timestamp.before.max.ms": 1,
    }
    records = [{"value": "x" * 50, "timestamp": each} for each in (5, 5, 9, 2**61)]
    broker = Broker(
        settings_with({"topics": {"orders": {"config": config, "records": records}}, "groups": {}})
    )
    await broker.start()
    try:
        found = [each async for each in read(broker, "orders")]
        assert [(each.offset, each.timestamp_ms) for each in found] == [
            (0, 5),
            (1, 5),
            (2, 9),
            (3, 2**61),
        ]
    finally:
        await broker.stop()


def test_a_broker_in_a_test_has_a_state_from_a_file_a_mapping_or_a_scenario(
    tmp_path: Path,
) -> None:
    path, scenario = tmp_path / "s.yaml", tmp_path / "scenario.yaml"
    path.write_text("topics: {orders: {records: [{value_file: v}]}}")
    (tmp_path / "v").write_bytes(b"\xff")
    scenario.write_text(
        "clock: manual@2026-03-01T12:00:00Z\n"
        "state:\n  topics: {orders: {records: [{value_file: v}]}}"
    )
    with BrokerInTest(state=path, storage="memory") as broker:
        assert [each.value for each in broker.records("orders")] == [b"\xff"]
        broker.produce("orders", "more")
        assert broker.reset().created_topics == ("orders",)
        assert [each.value for each in broker.records("orders")] == [b"\xff"]
    with BrokerInTest(state={"topics": {"orders": {}}}, storage="memory") as broker:
        assert broker.records("orders") == []
        with broker.cluster("w") as other, broker.fork() as fork:
            assert other.topics() == fork.topics() == ["orders"]
            assert fork.reset().created_topics == ("orders",)
    with BrokerInTest(scenario=scenario, storage="memory") as broker:
        (record,) = broker.records("orders")
        assert (record.value, record.timestamp_ms) == (b"\xff", 1_772_366_400_000)
        assert "state" not in broker.scenario_text()


@pytest.mark.parametrize(("changes", "warns"), [({}, False), ({"acls": []}, True)])
async def test_warnings_are_about_the_declared_acls(
    changes: dict[str, Any],
    warns: bool,  # noqa: FBT001 - a parameter
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker = Broker(settings_with(changes))
    await broker.start()
    await broker.stop()
    assert ("the authorizer refuses all clients" in capsys.readouterr().err) is warns

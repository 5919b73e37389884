"""The reset of a broker: everything that clients made is gone, also after a restart."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite import testing
from kafkalite.config.typed_json import read as read_command
from kafkalite.control import broker_reset
from kafkalite.control.broker_reset import reset
from kafkalite.control.command_table import CommandError, running_cluster
from kafkalite.control.commands.faults import AddFault
from kafkalite.control.commands.topics import CreateTopic
from kafkalite.control.group_reader import list_groups
from kafkalite.control.internal_requests import answer_of
from kafkalite.control.topic_records import produce, read
from kafkalite.control.transaction_reader import list_transactions
from kafkalite.metadata.client_quotas import QuotaAlteration
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.metadata.scram_credentials import ScramUpsertion
from kafkalite.ports.clock import AdjustableClock
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.security.acls import Acl
from kafkalite.security.sasl.users import User
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from kafkalite.storage.record_format import NewRecord
from kafkalite.transactions.intents import WriteMarkers
from kafkalite.transactions.state import TransactionState
from tests.unit.control.group_members import CONFIG, TOPIC, Members
from tests.unit.control.ports import ANY_PORT
from tests.unit.control.test_transaction_reader import begin
from tests.unit.control.test_turns import turns_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kafkalite.cluster.cluster import Cluster

SETTINGS = Settings(
    listen=ANY_PORT,
    topics={TOPIC: 2},
    config={**CONFIG, "transaction.state.log.num.partitions": "1"},
)
RECORDS = [NewRecord(b"k", b"v", 0)]


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    running = Broker(SETTINGS, clock=AdjustableClock(rate=0, now_ms=0))
    await running.start()
    yield running
    await running.stop(grace_s=0)


def user_topics(cluster: Cluster) -> dict[str, int]:
    """Return the topics and the ends of their first partitions."""
    ends = {}
    for name, image in cluster.metadata.image.topics.items():
        if not image.is_internal:
            hosted = cluster.partitions.topic(name)
            assert hosted is not None
            ends[name] = hosted.partitions[0].end_offset
    return ends


async def fill(broker: Broker) -> Members:
    """Create topics, groups of all types, and an open transaction."""
    members = Members(broker)
    await CreateTopic("own", 1).perform(broker)
    for topic in (TOPIC, "own"):
        await produce(broker, topic, RECORDS, 0)
    await members.join_classic("classic")
    await members.join_consumer("consumer", "c")
    await members.join_share("share", "s")
    await members.join_streams("streams", "p")
    await members.commit("simple", 1)
    await begin(broker, "shop")
    return members


async def error_of(broker: Broker, request: Any) -> ErrorCode:  # noqa: ANN401 - any request
    try:
        return ErrorCode((await answer_of(broker, request)).error_code)
    except CommandError as error:
        return ErrorCode[str(error).partition(":")[0]]


async def test_topics_groups_and_transactions_are_deleted(broker: Broker) -> None:
    await fill(broker)
    cluster = running_cluster(broker)
    former_id = cluster.metadata.image.topics[TOPIC].topic_id
    result = await reset(broker)
    assert result.deleted_topics == (TOPIC, "own")
    assert result.created_topics == (TOPIC,)
    assert result.deleted_groups == ("classic", "consumer", "share", "simple", "streams")
    assert result.deleted_transactional_ids == ("shop",)
    assert user_topics(cluster) == {TOPIC: 0}
    assert cluster.metadata.image.topics[TOPIC].topic_id != former_id
    assert (await list_groups(broker), await list_transactions(broker)) == ([], [])
    assert not any(list(each.machine.states()) for each in cluster.shares.shards())
    assert len(cluster.outbox) == 0
    assert (await reset(broker)).deleted_groups == ()


async def test_members_and_producers_get_the_errors_of_deleted_groups(broker: Broker) -> None:
    members = await fill(broker)
    shop = (await list_transactions(broker))[0]
    member, generation = await members.join_classic("second")
    await reset(broker)
    beats = [
        HeartbeatRequest(group_id="second", member_id=member, generation_id=generation),
        ConsumerGroupHeartbeatRequest(group_id="consumer", member_id="c", member_epoch=1),
        ShareGroupHeartbeatRequest(group_id="share", member_id="s", member_epoch=1),
        StreamsGroupHeartbeatRequest(group_id="streams", member_id="p", member_epoch=1),
    ]
    assert [await error_of(broker, each) for each in beats] == [ErrorCode.UNKNOWN_MEMBER_ID] * 4
    end = EndTxnRequest(
        transactional_id="shop",
        producer_id=shop.producer_id,
        producer_epoch=shop.producer_epoch,
        committed=True,
    )
    assert await error_of(broker, end) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    await begin(broker, "shop")
    assert await members.join_consumer("consumer", "c") > 0


async def test_a_waiting_join_is_answered(broker: Broker) -> None:
    members = Members(broker)
    await members.join_classic("g", "first")
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        group_instance_id="second",
        protocol_type="consumer",
        protocols=[protocol],
    )
    waiting = asyncio.create_task(answer_of(broker, join, members.coordinator_of("g")))
    await asyncio.sleep(0)
    assert not waiting.done()
    await reset(broker)
    assert (await waiting).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert await list_groups(broker) == []


async def test_offsets_of_an_open_transaction_do_not_remain(broker: Broker) -> None:
    members = await fill(broker)
    cluster = running_cluster(broker)
    shop = (await list_transactions(broker))[0]
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(committed_offset=1)
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
        name=TOPIC, topic_id=members.topic_id(), partitions=[partition]
    )
    request = TxnOffsetCommitRequest(
        transactional_id="shop",
        group_id="pending",
        producer_id=shop.producer_id,
        producer_epoch=shop.producer_epoch,
        topics=[topic],
    )
    answer = await answer_of(broker, request)
    assert answer.topics[0].partitions[0].error_code == 0
    await reset(broker)
    (shard,) = cluster.groups.shards()
    assert list(shard.machine.offsets.pending.all()) == []
    hosted = cluster.partitions.topic("__consumer_offsets")
    assert hosted is not None
    log = hosted.partitions[0]
    assert log.last_stable_offset == log.end_offset


async def test_a_reset_waits_for_markers(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(broker)
    cluster = running_cluster(broker)
    (shard,) = cluster.transactions.shards()
    intents: list[WriteMarkers] = []
    cluster.outbox.assign(WriteMarkers, intents.append)
    with monkeypatch.context() as patched:
        patched.setattr(broker_reset, "_MARKERS_TIMEOUT_MS", 0)
        with pytest.raises(CommandError, match=r"open after 0 s, .* cannot be written: shop"):
            await reset(broker)
    waiting = asyncio.create_task(reset(broker))
    for _ in range(100):  # more turns than the parts of the reset before the wait
        await asyncio.sleep(0)
    assert not waiting.done()
    (intent,) = set(intents)
    shard.write(lambda machine, now_ms: machine.complete_transaction(intent, now_ms))
    assert (await waiting).deleted_transactional_ids == ("shop",)
    assert await list_transactions(broker) == []


async def test_a_reset_writes_markers_that_a_fault_has_lost(broker: Broker) -> None:
    await fill(broker)
    rule = {"match": {"api": "WriteTxnMarkers"}, "action": {"lost": "request"}}
    await read_command(AddFault, rule, "a fault").perform(broker)
    (shop,) = await list_transactions(broker)
    end = EndTxnRequest(
        transactional_id="shop",
        producer_id=shop.producer_id,
        producer_epoch=shop.producer_epoch,
        committed=True,
    )
    assert await error_of(broker, end) == ErrorCode.NONE
    (shop,) = await list_transactions(broker)
    assert shop.state is TransactionState.PREPARE_COMMIT
    assert (await reset(broker)).deleted_transactional_ids == ("shop",)
    assert await list_transactions(broker) == []
    await begin(broker, "shop")


@pytest.mark.parametrize("kind", ["classic", "consumer", "share", "streams"])
async def test_other_tasks_run_while_the_members_of_a_group_are_removed(
    broker: Broker, kind: str
) -> None:
    members = Members(broker)
    join = members.request_member_id if kind == "classic" else getattr(members, f"join_{kind}")
    for number in range(120):
        await join("g", f"m{number}")
    assert await turns_of(reset(broker, groups="g")) >= 2
    assert await list_groups(broker) == []


async def test_the_history_names_the_reset(broker: Broker) -> None:
    await fill(broker)
    await reset(broker)

    def texts(name: str, kind: Entity) -> list[str]:
        return [each.text for each in broker.history.about(name, of=kind)]

    removed, epoch, deleted = texts("consumer", Entity.GROUP)[-3:]
    assert removed == "member c removed: the broker was reset"
    assert epoch.endswith("member c was removed")
    assert deleted == "group consumer with 0 offsets deleted by a reset"
    for group, member in (("share", "s"), ("streams", "p")):
        assert f"member {member} removed: the broker was reset" in texts(group, Entity.GROUP)
    assert "removed: the broker was reset, client kafkalite" in " ".join(
        texts("classic", Entity.GROUP)
    )
    assert texts("own", Entity.TOPIC) == ["topic own is deleted by a reset"]
    assert texts("shop", Entity.TRANSACTIONAL_ID)[-2:] == [
        "the broker was reset: its transaction is aborted",
        "the broker was reset: it is removed",
    ]


async def test_only_matching_topics_and_groups_are_deleted(broker: Broker) -> None:
    await fill(broker)
    result = await reset(broker, topics="o[wr]n*", groups="s*e")
    assert (result.deleted_topics, result.created_topics) == (("own",), ())
    assert result.deleted_groups == ("share", "simple")
    assert [each.group_id for each in await list_groups(broker)] == [
        "classic", "consumer", "streams",
    ]  # fmt: skip
    assert len(await list_transactions(broker)) == 1
    result = await reset(broker, topics="ord*")
    assert (result.deleted_topics, result.created_topics, result.deleted_groups) == (
        (TOPIC,), (TOPIC,), (),
    )  # fmt: skip
    assert user_topics(running_cluster(broker)) == {TOPIC: 0}


async def test_a_reset_of_groups_needs_all_coordinators(broker: Broker) -> None:
    await Members(broker).commit("shop", 1)
    metadata = running_cluster(broker).metadata
    metadata.fence(1)
    with pytest.raises(CommandError, match="no running node leads partition 0 of __consumer_off"):
        await reset(broker, groups="s*")
    metadata.unfence(1)
    assert [each.group_id for each in await list_groups(broker)] == ["shop"]
    assert (await reset(broker, groups="s*")).deleted_groups == ("shop",)


async def test_changes_of_settings_are_undone() -> None:
    users = [User("alice", "secret")]
    settings = SETTINGS._replace(listen=("SASL_PLAINTEXT://127.0.0.1:0",), users=users)
    broker = Broker(settings)
    await broker.start()
    try:
        metadata = running_cluster(broker).metadata
        before = metadata.image
        metadata.replace_configs(
            {
                ConfigResource(ResourceType.BROKER, ""): {"log.retention.ms": "1"},
                ConfigResource(ResourceType.GROUP, "g"): {"consumer.session.timeout.ms": "46000"},
            }
        )
        metadata.alter_client_quotas(
            [QuotaAlteration((("user", "alice"),), (("producer_byte_rate", 1.0),))]
        )
        metadata.create_acls([Acl(2, TOPIC, 3, "User:alice", "*", 3, 3)])
        (mechanism, _), *_ = before.scram_credentials
        metadata.alter_scram_credentials(
            [],
            [
                ScramUpsertion("alice", mechanism, 4096, b"salt", b"x" * 32),
                ScramUpsertion("bob", mechanism, 4096, b"salt", b"x" * 32),
            ],
        )
        assert metadata.image.acls
        assert len(metadata.image.scram_credentials) == len(before.scram_credentials) + 1
        await reset(broker)
        after = metadata.image
        assert after.configs == before.configs
        assert (dict(after.client_quotas), dict(after.acls)) == ({}, {})
        assert after.scram_credentials.keys() == before.scram_credentials.keys()
        assert after.scram_credentials[mechanism, "alice"].salt != b"salt"
    finally:
        await broker.stop(grace_s=0)


async def test_nodes_run_and_faults_and_logged_requests_are_gone() -> None:
    broker = Broker(Settings(listen=ANY_PORT, brokers=3, topics={TOPIC: 3}, request_log=10))
    await broker.start()
    try:
        cluster = running_cluster(broker)
        rule = {"match": {"api": "Produce"}, "action": {"error": "NOT_ENOUGH_REPLICAS"}}
        await read_command(AddFault, rule, "a fault").perform(broker)
        await broker.nodes.stop(2)
        cluster.node_control.freeze_metadata(3)
        cluster.node_control.pause_replication(3)
        await reset(broker)
        assert {each.state.value for each in cluster.nodes.values()} == {"running"}
        assert not cluster.nodes[3].is_metadata_frozen
        assert not cluster.nodes[3].is_replication_paused
        assert broker.faults.states() == []
        assert len(broker.request_log) == 0
        await produce(broker, TOPIC, RECORDS, 2)
    finally:
        await broker.stop(grace_s=0)


async def test_a_restart_does_not_restore_the_former_state(tmp_path: Path) -> None:
    settings = SETTINGS._replace(data_directory=str(tmp_path / "data"))
    broker = Broker(settings)
    await broker.start()
    await fill(broker)
    await reset(broker)
    await produce(broker, TOPIC, [NewRecord(b"k", b"new", 0)], 0)
    await broker.stop(grace_s=0)
    again = Broker(settings)
    await again.start()
    try:
        assert user_topics(running_cluster(again)) == {TOPIC: 1}
        assert [each.value async for each in read(again, TOPIC)] == [b"new"]
        assert (await list_groups(again), await list_transactions(again)) == ([], [])
    finally:
        await again.stop(grace_s=0)


def test_resets_and_restores_at_the_same_time_take_turns() -> None:
    with testing.Broker(storage="memory", topics={"orders": 2}) as broker:
        snapshot = broker.snapshot()
        server = broker._running_broker()

        async def race() -> None:
            for _ in range(5):
                await asyncio.gather(reset(server), server.restore(snapshot), reset(server))

        broker._run_on_loop(race())
        broker.produce("orders", "a")
        assert len(broker.records("orders")) == 1

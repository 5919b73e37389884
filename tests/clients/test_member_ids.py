"""Clients generate their member ids (KIP-1082): one per lifetime, and no ghost members."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer

from kafkalite.groups.consumer.settings import MEMBER_ID_KEY
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import is_reserved, parse_uuid, uuid_from_text, uuid_to_text
from tests.clients.client_libraries import java_classes
from tests.clients.observer import wait_until
from tests.conformance.raw import RawClient
from tests.oracle.jars import java_command
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from confluent_kafka import KafkaError

pytestmark = pytest.mark.client

_HASTY = 8
_TIMEOUT_S = 90.0
_MEMBERS, _GROUP_SIZE = 200, 25


@contextmanager
def strict_broker(directory: Path) -> Iterator[ServedKafkalite]:
    """Start a broker that requires UUIDs as member ids."""
    broker = ServedKafkalite(directory, {**COMMON_CONFIG, MEMBER_ID_KEY: "uuid"})
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@pytest.mark.endurance
def test_java_consumers_keep_their_ids_and_leave_no_ghosts(tmp_path: Path) -> None:
    """Ids must be UUIDs, and a second member with the same id is refused."""
    with required():
        command = java_command("HastyConsumers", classes=java_classes(), log_level="off")
    with strict_broker(tmp_path) as broker:
        completed = subprocess.run(
            [*command, broker.bootstrap, "t", "hasty", str(_HASTY)],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    assert completed.returncode == 0, completed.stderr[-3000:]
    result = json.loads(completed.stdout)
    first_id, repeated_id = result["ids"]
    assert first_id == repeated_id
    assert not is_reserved(uuid_from_text(first_id))
    assert result["left"] == []


def join_and_leave(broker: ServedKafkalite, group: str, count: int) -> set[str]:
    """Let this many librdkafka consumers join a group and leave it; return their member ids."""
    failures: list[KafkaError] = []
    consumers = [
        Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "error_cb": failures.append,
            }
        )
        for _ in range(count)
    ]

    def all_have_partitions() -> bool:
        for consumer in consumers:
            message = consumer.poll(0)
            assert message is None or message.error() is None, message.error()
        assert failures == []
        return all(consumer.assignment() for consumer in consumers)

    try:
        for consumer in consumers:
            consumer.subscribe(["t"])
        wait_until(all_have_partitions, "every member has a partition")
        return {consumer.memberid() for consumer in consumers}
    finally:
        for consumer in consumers:
            consumer.close()


@pytest.mark.endurance
def test_two_hundred_members_of_librdkafka_are_accepted(tmp_path: Path) -> None:
    """Half of the ids contain a `+` or a `/`: librdkafka encodes UUIDs in standard base64."""
    member_ids: set[str] = set()
    with strict_broker(tmp_path) as broker:
        client = RawClient(broker.port)
        topic = CreateTopicsRequest.CreatableTopic(
            name="t", num_partitions=_GROUP_SIZE, replication_factor=1
        )
        client.call(CreateTopicsRequest(topics=[topic]), 7)
        client.close()
        for number in range(_MEMBERS // _GROUP_SIZE):
            member_ids |= join_and_leave(broker, f"group-{number}", _GROUP_SIZE)
    assert len(member_ids) == _MEMBERS
    assert not any(is_reserved(parse_uuid(each)) for each in member_ids)
    assert any("+" in each or "/" in each for each in member_ids)


def test_a_confirmed_join_is_remembered_after_a_kill(tmp_path: Path) -> None:
    member_id = uuid_to_text(b"\x0c" * 16)

    def beat(broker: ServedKafkalite, epoch: int) -> tuple[ErrorCode, int]:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=-1 if epoch else 60_000,
            subscribed_topic_names=None if epoch else ["t"],
            topic_partitions=None if epoch else [],
        )
        client = RawClient(broker.port)
        client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        answer = client.call(request, 1)
        client.close()
        return ErrorCode(answer.error_code), answer.member_epoch

    with strict_broker(tmp_path) as broker:
        first = beat(broker, 0)
        assert first[0] is ErrorCode.NONE
        broker.kill()
        broker.start()
        # The join is not confirmed: its response may have been lost.
        assert beat(broker, 0) == first
        assert beat(broker, first[1]) == first
        broker.kill()
        broker.start()
        assert beat(broker, 0) == (ErrorCode.FENCED_MEMBER_EPOCH, 0)
        assert beat(broker, first[1]) == first

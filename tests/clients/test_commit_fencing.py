"""The case of KAFKA-19779: a commit is sent while a heartbeat is in flight.

`python -m tests.clients.commit_fencing` counts how often that happens to the Java consumer. Here,
some tests send both requests together, so that it always happens. Others run the Java consumer for
a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.groups.modern.offset_commit_fencing import (
    ASSIGNMENT_EPOCH,
    FENCING_KEY,
    REVOCATION_EPOCH,
    STRICT,
)
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.clients.commit_fencing import (
    CONFIG,
    TRANSACTIONAL_EVERY_MS,
    count_by_rule,
    count_refusals,
)
from tests.conformance.raw import RawClient
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.client

_ALL_BROKERS = 4
_REBALANCES = 10
_LONG_RUN_REBALANCES, _MEMBERS = 250, 2


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedKafkalite]:
    broker = ServedKafkalite(tmp_path_factory.mktemp("fencing"), CONFIG)
    broker.start()
    yield broker
    broker.kill()


class Member:
    """The only member of a group, subscribed by topic name."""

    def __init__(self, client: RawClient, group: str) -> None:
        self._client = client
        self._group = group
        self.epoch = 0

    def heartbeat(self, *topics: str) -> ConsumerGroupHeartbeatRequest:
        is_joining = self.epoch == 0
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id="member",
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000 if is_joining else -1,
            subscribed_topic_names=list(topics),
            topic_partitions=[] if is_joining else None,
        )

    def commit(self, topic: str) -> OffsetCommitRequest:
        offset_to_commit = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1
        )
        rows = [
            OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[offset_to_commit])
        ]
        return OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self.epoch,
            member_id="member",
            topics=rows,
        )

    def ask(self, request: ConsumerGroupHeartbeatRequest) -> Any:  # noqa: ANN401 - a response
        answer = self._client.call(request, 1)
        assert answer.error_code == ErrorCode.NONE, answer
        self.epoch = answer.member_epoch
        return answer


def set_rule(client: RawClient, rule: str) -> None:
    alter = IncrementalAlterConfigsRequest.AlterableConfig(
        name=FENCING_KEY, config_operation=0, value=rule
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=_ALL_BROKERS, resource_name="", configs=[alter]
    )
    (answer,) = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == ErrorCode.NONE, answer


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (STRICT, ErrorCode.STALE_MEMBER_EPOCH),
        (REVOCATION_EPOCH, ErrorCode.NONE),
        (ASSIGNMENT_EPOCH, ErrorCode.NONE),
    ],
)
def test_commit_after_a_heartbeat_that_changes_the_epoch(
    served: ServedKafkalite, rule: str, expected: ErrorCode
) -> None:
    client = RawClient(served.port)
    topics = [
        CreateTopicsRequest.CreatableTopic(
            name=f"{rule}-{name}", num_partitions=1, replication_factor=1
        )
        for name in "ab"
    ]
    client.call(CreateTopicsRequest(topics=topics), 7)
    client.call(FindCoordinatorRequest(coordinator_keys=[rule]), 4)
    set_rule(client, rule)
    member = Member(client, rule)
    member.ask(member.heartbeat(f"{rule}-a"))
    before = member.epoch
    # The client does not know yet that the heartbeat increases its epoch.
    client.send(member.heartbeat(f"{rule}-a", f"{rule}-b"), 1)
    client.send(member.commit(f"{rule}-a"), 9)
    assert client.receive().member_epoch == before + 1
    (topic,) = client.receive().topics
    assert topic.partitions[0].error_code == expected
    client.close()


@pytest.mark.endurance
@pytest.mark.parametrize("is_transactional", [False, True], ids=["plain", "transactional"])
def test_java_consumer_can_commit_retained_partitions(
    served: ServedKafkalite,
    is_transactional: bool,  # noqa: FBT001 - the tested difference
) -> None:
    with required():
        jar_directory()
    client = RawClient(served.port)
    set_rule(client, ASSIGNMENT_EPOCH)
    client.close()
    count = count_refusals(
        served.bootstrap,
        ASSIGNMENT_EPOCH,
        _REBALANCES,
        every_ms=TRANSACTIONAL_EVERY_MS if is_transactional else 0,
        is_transactional=is_transactional,
    )
    assert count.rebalances >= _REBALANCES
    assert count.commits >= _REBALANCES
    assert count.refused == {}


@pytest.mark.endurance
def test_transactions_are_aborted_only_by_older_rules() -> None:
    with required():
        jar_directory()
    counts = {
        count.rule: count
        for count in count_by_rule(_LONG_RUN_REBALANCES, _MEMBERS, is_transactional=True)
    }
    assert all(count.rebalances >= _LONG_RUN_REBALANCES for count in counts.values())
    assert counts[STRICT].stale > counts[REVOCATION_EPOCH].stale >= 0
    assert counts[ASSIGNMENT_EPOCH].refused == {}

"""After random work, a restored broker equals what it was, and forks are independent.

The work is that of clients and administrators: records, transactions, groups, topics, settings,
ACLs, quotas, users, faults, links, nodes and time. States are compared by all data files and by the
answers to Kafka's admin requests.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.control.internal_requests import answer_of
from kafkalite.protocol._generated.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.create_acls import CreateAclsRequest
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.describe_acls import DescribeAclsRequest
from kafkalite.protocol._generated.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
)
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.describe_producers import DescribeProducersRequest
from kafkalite.protocol._generated.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.list_transactions import ListTransactionsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer
from kafkalite.testing import Broker
from tests.unit.data_plane import batch_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkalite.server.snapshot import Snapshot

NAMES = ("a", "b", "c")
CONFIG: dict[str, str | float] = {
    "default.replication.factor": 2,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": True,
}
STEPS = 20


class Work:
    """Random work of clients and administrators on one broker."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.dice = random.Random(seed)  # noqa: S311 - repeatable
        self.number = 0
        self.actions: tuple[Callable[[], object], ...] = (
            self.produce, self.produce, self.transact, self.commit, self.join, self.create_topic,
            self.delete_topic, self.delete_records, self.configure, self.allow, self.limit,
            self.add_user, self.add_fault, self.disturb_link, self.change_node, self.advance,
        )  # fmt: skip

    def ask(self, request: Any, group: str = "", transactional_id: str = "") -> Any:  # noqa: ANN401 - any API
        """Return the answer of node 1, or of the coordinator of a group or transactional id."""
        server = self.broker._running_broker()
        cluster = server.cluster
        assert cluster is not None
        node = cluster.nodes[1]
        if group:
            node = cluster.nodes[cluster.groups.shard_for(group).leader_id]
        elif transactional_id:
            node = cluster.nodes[cluster.transactions.shard_for(transactional_id).leader_id]
        return self.broker._run_on_loop(answer_of(server, request, node))

    def create_internal_topics(self) -> None:
        for key_type in (0, 1):
            self.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a"]))

    def do(self, steps: int = STEPS) -> None:
        for _ in range(steps):
            self.number += 1
            # An action may be refused, as when a node without coordinators is asked.
            with suppress(ValueError):
                self.dice.choice(self.actions)()

    def topic(self) -> str:
        return self.dice.choice(self.broker.topics())

    def produce(self) -> None:
        self.broker.produce(self.topic(), f"{self.number}", key="k")

    def transact(self) -> None:
        name, topic = self.dice.choice(NAMES), self.topic()
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        made = self.ask(request, transactional_id=name)
        if made.error_code:
            return
        producer = BatchProducer(made.producer_id, made.producer_epoch, 0)
        data = ProduceRequest.PartitionProduceData(
            index=0, records=batch_of(b"t", attributes=TRANSACTIONAL, producer=producer)
        )
        topic_id = self.broker._running_broker().cluster.metadata.image.topics[topic].topic_id  # type: ignore[union-attr]
        topics = [ProduceRequest.TopicProduceData(topic_id=topic_id, partition_data=[data])]
        self.ask(ProduceRequest(transactional_id=name, acks=1, timeout_ms=1000, topic_data=topics))
        if self.dice.random() < 0.7:
            self.ask(
                EndTxnRequest(
                    transactional_id=name,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    committed=self.dice.random() < 0.5,
                ),
                transactional_id=name,
            )

    def commit(self) -> None:
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=self.number
        )
        topic = self.broker.topic(self.topic())
        topics = [
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic.name, topic_id=self._id_of(topic.name), partitions=[partition]
            )
        ]
        group = f"committed-{self.dice.choice(NAMES)}"
        self.ask(OffsetCommitRequest(group_id=group, topics=topics), group)

    def _id_of(self, topic: str) -> bytes:
        cluster = self.broker._running_broker().cluster
        assert cluster is not None
        return cluster.metadata.image.topics[topic].topic_id

    def join(self) -> None:
        group = f"modern-{self.dice.choice(NAMES)}"
        self.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id=f"member-{self.number}",
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[self.topic()],
                topic_partitions=[],
            ),
            group,
        )

    def create_topic(self) -> None:
        if len(self.broker.topics()) < 6:
            self.broker.create_topic(f"topic-{self.number}", self.dice.randrange(1, 4))

    def delete_topic(self) -> None:
        if len(self.broker.topics()) > 2:
            self.broker.delete_topic(self.topic())

    def delete_records(self) -> None:
        partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=-1)
        topic = DeleteRecordsRequest.DeleteRecordsTopic(name=self.topic(), partitions=[partition])
        self.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1000))

    def configure(self) -> None:
        kind, name, key = self.dice.choice(
            [(2, self.topic(), "retention.ms"), (4, "", "log.cleaner.threads")]
        )
        value = f"{self.dice.randrange(1, 3)}"
        config = IncrementalAlterConfigsRequest.AlterableConfig(
            name=key, config_operation=0, value=value
        )
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[config]
        )
        self.ask(IncrementalAlterConfigsRequest(resources=[resource]))

    def allow(self) -> None:
        acl = CreateAclsRequest.AclCreation(
            resource_type=2,
            resource_name=self.dice.choice(NAMES),
            resource_pattern_type=3,
            principal=f"User:{self.number}",
            host="*",
            operation=3,
            permission_type=3,
        )
        self.ask(CreateAclsRequest(creations=[acl]))

    def limit(self) -> None:
        self.broker.set_quotas(user=self.dice.choice(NAMES), producer_byte_rate=self.number)

    def add_user(self) -> None:
        upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            name=self.dice.choice(NAMES),
            mechanism=1,
            iterations=4096 + self.number,
            salt=b"salt",
            salted_password=b"password",
        )
        self.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))

    def add_fault(self) -> None:
        if self.dice.random() < 0.5:
            self.broker.faults.clear()
        self.broker.faults.add(api="Produce", topic="none", delay_ms=self.number)

    def disturb_link(self) -> None:
        if self.dice.random() < 0.5:
            self.broker.links.heal()
        self.broker.links.cut(client_id=f"client-{self.number}")

    def change_node(self) -> None:
        node = self.broker.nodes[2]
        if node.state == "running":
            node.stop()
        else:
            node.start()

    def advance(self) -> None:
        self.broker.clock.advance(seconds=self.dice.randrange(1, 30))


def seen(work: Work, snapshot: Snapshot) -> dict[str, object]:
    """Return what can be seen of the state of a broker, of which this is a snapshot."""
    broker, ask = work.broker, work.ask
    files = snapshot.cluster.files
    groups = sorted(each.group_id for each in broker.groups())
    topics = [
        DescribeProducersRequest.TopicRequest(name=name, partition_indexes=[0])
        for name in broker.topics()
    ]
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name)
        for kind, name in ((4, ""), *((2, name) for name in broker.topics()))
    ]
    requests = (
        DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        ),
        DescribeClientQuotasRequest(components=[]),
        DescribeUserScramCredentialsRequest(users=None),
        DescribeProducersRequest(topics=topics),
        DescribeConfigsRequest(resources=resources),
    )
    image = ask(MetadataRequest(topics=None))
    return {
        "files": {path: files.read(path) for path in files.paths_below("")},
        "topics": [broker.topic(name) for name in broker.topics()],
        "metadata": sorted(map(str, image.topics)),
        "committed": {each: broker.committed(each) for each in groups},
        "groups": [broker.group(each) for each in groups],
        "described": [
            ask(ConsumerGroupDescribeRequest(group_ids=[each]), each)
            for each in groups
            if each.startswith("modern")
        ],
        "transactions": sorted(map(str, broker.transactions())),
        "listed": [
            *sorted(map(str, ask(ListGroupsRequest()).groups)),
            *sorted(map(str, ask(ListTransactionsRequest()).transaction_states)),
        ],
        "nodes": [(each, broker.nodes[each].state) for each in broker.nodes],
        "rules": [
            *((each.id, each.rule, each.matches) for each in broker.faults.list()),
            *((each.id, each.rule) for each in broker.links.list()),
        ],
        "history": [each._replace(number=0) for each in broker.explain(limit=1000)],
        "time": broker.clock.now_ms(),
        "random": snapshot.random_state,
        **{type(each).__name__: ask(each) for each in requests},
    }


def assert_equal(first: dict[str, object], second: dict[str, object]) -> None:
    for name, value in first.items():
        assert value == second[name], name


@pytest.fixture
def broker() -> Any:  # noqa: ANN401 - a generator
    with Broker(
        2,
        {"a": 2},
        CONFIG,
        storage="memory",
        seed=5,
        clock="manual@2026-03-01T12:00:00Z",
    ) as broker:
        Work(broker, 0).create_internal_topics()
        yield broker


@pytest.mark.parametrize("seed", range(4))
def test_a_restored_broker_equals_what_it_was(broker: Broker, seed: int) -> None:
    work = Work(broker, seed)
    for _ in range(2):
        work.do()
        snapshot = broker.snapshot()
        before = seen(work, snapshot)
        for _ in range(2):
            work.do()
            broker.restore(snapshot)
            assert_equal(before, seen(work, broker.snapshot()))


@pytest.mark.parametrize("seed", range(3))
def test_a_saved_snapshot_equals_what_it_was(broker: Broker, seed: int, tmp_path: Path) -> None:
    work = Work(broker, seed)
    work.do()
    snapshot = broker.snapshot()
    before = seen(work, snapshot)
    snapshot.save(tmp_path / "snapshot.zip")
    work.do()
    loaded = broker.load_snapshot(tmp_path / "snapshot.zip")
    assert loaded.cluster.image == snapshot.cluster.image
    assert loaded.initial_image == snapshot.initial_image
    assert loaded.cluster.stopped_nodes == snapshot.cluster.stopped_nodes
    for _ in range(2):
        broker.restore(loaded)
        assert_equal(before, seen(work, broker.snapshot()))
        work.do(5)


@pytest.mark.parametrize("seed", range(3))
def test_a_fork_and_its_source_do_not_see_each_others_work(broker: Broker, seed: int) -> None:
    work = Work(broker, seed)
    work.do()
    before = seen(work, broker.snapshot())
    with broker.fork() as fork:
        other = Work(fork, seed + 100)
        other.number = work.number
        assert_equal(before, seen(other, fork.snapshot()))
        other.do()
        assert_equal(before, seen(work, broker.snapshot()))
        after = seen(other, fork.snapshot())
        work.do()
        assert_equal(after, seen(other, fork.snapshot()))

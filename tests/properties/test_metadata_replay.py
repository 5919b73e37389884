"""The replay law of the controller: replaying the log gives the decided state."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.brokers import NoNodesError
from kafkalite.metadata.client_quotas import QuotaAlteration
from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.controller import MetadataSerde
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.delegation_tokens import TokenRequest
from kafkalite.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    FeatureUpdate,
)
from kafkalite.metadata.image import (
    NO_LEADER,
    AddedNode,
    ConfigResource,
    MetadataImage,
    RegisteredListener,
    ResourceType,
)
from kafkalite.metadata.leadership import ElectionType
from kafkalite.metadata.partition_creation import NewPartitions
from kafkalite.metadata.reassignment import RequestedReassignment
from kafkalite.metadata.scram_credentials import ScramDeletion, ScramUpsertion
from kafkalite.metadata.shard import MetadataShard
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol.errors import KafkaError
from kafkalite.security.acls import Acl, AclFilter
from kafkalite.security.delegation_tokens import token_hmac
from tests.cluster.metadata import MetadataCluster
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.coordinator.contract import CoordinatorRecord

SECRET_KEY = "key"  # noqa: S105 - of a test
NAMES = st.sampled_from(["a", "b", "c.d", "c_d", "__consumer_offsets", "bad name", ""])
ADDED = AddedNode({"broker.rack": "b"}, (RegisteredListener("PLAINTEXT", "h", 9095, 0, 3),))
NODES = st.sets(st.integers(1, 4), min_size=1)
VALUES = st.sampled_from(["1", "5000000", "compact", "delete,compact", "x", ""])
KEYS = st.sampled_from(
    [
        "retention.ms",
        "cleanup.policy",
        "message.max.bytes",
        "consumer.session.timeout.ms",
        "foo",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    ]
)
RESOURCES = st.builds(
    ConfigResource,
    st.sampled_from([ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP]),
    st.sampled_from(["a", "b", "c.d", "1", ""]),
)

ACLS = st.builds(
    Acl, st.sampled_from([2, 3, 99]), NAMES, st.sampled_from([2, 3, 4]),
    st.sampled_from(["User:a", "User:*", "a"]), st.just("*"), st.sampled_from([1, 2, 3, 4]),
    st.sampled_from([2, 3]),
)  # fmt: skip

QUOTAS = st.builds(
    QuotaAlteration,
    st.lists(
        st.tuples(st.sampled_from(["user", "client-id", "ip", "x"]), NAMES | st.none()), max_size=2
    ).map(tuple),
    st.lists(
        st.tuples(
            st.sampled_from(["producer_byte_rate", "request_percentage", "x"]),
            st.sampled_from([None, -1.0, 1.5, 100.0]),
        ),
        max_size=2,
    ).map(tuple),
)


def image_from_log(cluster: MetadataCluster) -> MetadataImage:
    """Return the image that a new machine gets from the log alone."""
    shard = MetadataShard(BrokerConfig.from_text(), SeededEntropy())
    serde = MetadataSerde()

    def records() -> Iterator[CoordinatorRecord[object, object]]:
        for key, value in cluster.log.read_all():
            record = serde.decode(key, value)
            assert record is not None
            yield record

    for record in records():
        shard.replay(record)
    image, _ = shard.next_image(MetadataImage(), cluster.image.version)
    return image


class Cluster(RuleBasedStateMachine):
    """After any commands and restarts, the log has the complete state."""

    @initialize(nodes=NODES)
    def start(self, nodes: set[int]) -> None:
        self.cluster = MetadataCluster(nodes=nodes, delegation_token_secret_key=SECRET_KEY)
        self.epochs: dict[tuple[bytes, int], int] = {}
        self.max_incarnation_epoch = 0

    @rule(
        name=st.sampled_from([GROUP_VERSION, METADATA_VERSION, ELIGIBLE_LEADER_REPLICAS, "x"]),
        level=st.integers(-1, 2),
        upgrade_type=st.integers(0, 3),
        validate_only=st.booleans(),
    )
    def update_features(
        self, *, name: str, level: int, upgrade_type: int, validate_only: bool
    ) -> None:
        updates = [FeatureUpdate(name, level, upgrade_type), FeatureUpdate(SHARE_VERSION, 1)]
        with suppress(KafkaError):
            self.cluster.controller.update_features(updates, validate_only=validate_only)

    @rule(user=NAMES, mechanism=st.integers(0, 3), iterations=st.integers(4095, 4097))
    def set_scram_credential(self, user: str, mechanism: int, iterations: int) -> None:
        upsertion = ScramUpsertion(user, mechanism, iterations, b"salt", b"salted password")
        self.cluster.controller.alter_scram_credentials([], [upsertion])

    @rule(user=NAMES, mechanism=st.integers(1, 2))
    def remove_scram_credential(self, user: str, mechanism: int) -> None:
        self.cluster.controller.alter_scram_credentials([ScramDeletion(user, mechanism)], [])

    @rule(owner=NAMES, renewers=st.lists(NAMES, max_size=2), lifetime_ms=st.integers(-1, 9))
    def create_token(self, owner: str, renewers: list[str], lifetime_ms: int) -> None:
        request = TokenRequest(
            f"User:{owner}", "User:a", tuple(f"User:{each}" for each in renewers), lifetime_ms
        )
        self.cluster.controller.create_delegation_token(request)

    @rule(
        index=st.integers(0, 3), principal=NAMES, is_renewed=st.booleans(),
        period_ms=st.integers(-1, 9),
    )  # fmt: skip
    def change_token(self, *, index: int, principal: str, is_renewed: bool, period_ms: int) -> None:
        controller = self.cluster.controller
        change = controller.expire_delegation_token
        if is_renewed:
            change = controller.renew_delegation_token
        for token_id in [*self.cluster.image.delegation_tokens][index : index + 1]:
            with suppress(KafkaError):
                change(token_hmac(SECRET_KEY, token_id), f"User:{principal}", period_ms)

    @rule(elapsed_ms=st.integers(0, 5), limit=st.integers(1, 2))
    def remove_expired_tokens(self, elapsed_ms: int, limit: int) -> None:
        self.cluster.clock.advance(elapsed_ms)
        self.cluster.controller.remove_expired_delegation_tokens(limit)

    @rule(nodes=NODES)
    def restart(self, nodes: set[int]) -> None:
        with suppress(NoNodesError):  # all of these nodes were removed
            self.cluster = self.cluster.restart(*nodes, delegation_token_secret_key=SECRET_KEY)

    @rule(name=NAMES, partitions=st.integers(-1, 4), replicas=st.integers(-1, 3))
    def create(self, name: str, partitions: int, replicas: int) -> None:
        new = NewTopic(name=name, partitions=partitions, replication_factor=replicas)
        self.cluster.controller.create_topics([new])

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        topic = self.cluster.image.topics.get(name)
        self.cluster.controller.delete_topics([b"n" * 16 if topic is None else topic.topic_id])

    @rule(name=NAMES, count=st.integers(0, 6))
    def grow(self, name: str, count: int) -> None:
        self.cluster.controller.create_partitions([NewPartitions(topic=name, partitions=count)])

    @rule(resource=RESOURCES, key=KEYS, operation=st.sampled_from(AlterOperation), value=VALUES)
    def alter(
        self, resource: ConfigResource, key: str, operation: AlterOperation, value: str
    ) -> None:
        self.cluster.controller.alter_configs({resource: [ConfigChange(key, operation, value)]})

    @rule(resource=RESOURCES, key=KEYS, value=VALUES)
    def replace(self, resource: ConfigResource, key: str, value: str) -> None:
        self.cluster.controller.replace_configs({resource: {key: value}})

    @rule(name=NAMES, index=st.integers(0, 3), election_type=st.sampled_from(ElectionType))
    def elect(self, name: str, index: int, election_type: ElectionType) -> None:
        self.cluster.controller.elect_leaders([(name, index)], election_type)

    @rule(is_limited=st.booleans())
    def elect_periodically(self, *, is_limited: bool) -> None:
        limit = 1 if is_limited else 100
        self.cluster.controller.elect_preferred_leaders(limit)
        self.cluster.controller.elect_unclean_leaders(limit)

    @rule(node_id=st.integers(1, 4))
    def fence(self, node_id: int) -> None:
        self.cluster.controller.fence(node_id)

    @rule(node_id=st.integers(1, 4))
    def shut_down(self, node_id: int) -> None:
        self.cluster.controller.begin_shutdown(node_id)

    @rule(node_id=st.integers(1, 5), is_added=st.booleans(), has_crashed=st.booleans())
    def register(self, node_id: int, *, is_added: bool, has_crashed: bool) -> None:
        if node_id not in self.cluster.image.active_brokers:
            self.cluster.controller.register_broker(
                node_id,
                None,
                added=ADDED if is_added else None,
                has_crashed=has_crashed,
            )

    @rule(node_id=st.integers(1, 5))
    def unfence(self, node_id: int) -> None:
        if node_id in self.cluster.image.brokers:
            self.cluster.controller.unfence(node_id)

    @rule(node_id=st.integers(2, 5))
    def remove(self, node_id: int) -> None:
        self.cluster.controller.remove_broker(node_id)

    @rule(node_id=st.integers(1, 4))
    def unregister(self, node_id: int) -> None:
        with suppress(KafkaError):
            self.cluster.controller.unregister_broker(node_id)

    @rule(
        name=NAMES,
        index=st.integers(0, 3),
        replicas=st.none() | st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True),
    )
    def reassign(self, name: str, index: int, replicas: list[int] | None) -> None:
        target = None if replicas is None else tuple(replicas)
        self.cluster.controller.alter_reassignments([RequestedReassignment(name, index, target)])

    @rule(name=NAMES, index=st.integers(0, 3))
    def expand_isr(self, name: str, index: int) -> None:
        partition = self.cluster.image.partition(name, index)
        if partition is not None and partition.leader != NO_LEADER:
            topic_id = self.cluster.topic(name).topic_id
            isr = tuple(dict.fromkeys((*partition.isr, *partition.replicas)))
            self.cluster.controller.alter_isr([(topic_id, index, isr)])

    @rule(acls=st.lists(ACLS, max_size=3))
    def create_acls(self, acls: list[Acl]) -> None:
        self.cluster.controller.create_acls(acls)

    @rule(name=NAMES | st.none(), pattern_type=st.sampled_from([1, 2, 3, 4]))
    def delete_acls(self, name: str | None, pattern_type: int) -> None:
        selection = AclFilter(resource_name=name, pattern_type=pattern_type)
        acls = self.cluster.image.acls
        self.cluster.controller.delete_acls(
            [key for key, acl in acls.items() if selection.matches(acl)]
        )

    @rule(alterations=st.lists(QUOTAS, max_size=3))
    def alter_client_quotas(self, alterations: list[QuotaAlteration]) -> None:
        self.cluster.controller.alter_client_quotas(alterations)

    @rule(node_id=st.integers(1, 4))
    def allocate(self, node_id: int) -> None:
        self.cluster.controller.allocate_producer_ids(node_id)

    @invariant()
    def replay_equals_state(self) -> None:
        assert image_from_log(self.cluster) == self.cluster.image

    @invariant()
    def incarnation_epochs_are_unique_and_never_reused(self) -> None:
        image = self.cluster.image
        epochs = {
            (topic.topic_id, partition.index): partition.incarnation_epoch
            for topic in image.topics.values()
            for partition in topic.partitions
        }
        assert len(set(epochs.values())) == len(epochs)
        assert all(1 <= epoch <= image.max_incarnation_epoch for epoch in epochs.values())
        assert image.max_incarnation_epoch >= self.max_incarnation_epoch
        for key in epochs.keys() - self.epochs.keys():
            assert epochs[key] > self.max_incarnation_epoch
        for key in epochs.keys() & self.epochs.keys():
            assert epochs[key] == self.epochs[key]
        self.epochs = epochs
        self.max_incarnation_epoch = image.max_incarnation_epoch

    @invariant()
    def leaders_are_active_and_in_sync(self) -> None:
        image = self.cluster.image
        assert set(image.topics) == {topic.name for topic in image.topics_by_id.values()}
        for topic in image.topics.values():
            assert [partition.index for partition in topic.partitions] == list(
                range(len(topic.partitions))
            )
            for partition in topic.partitions:
                if partition.leader != NO_LEADER:
                    assert partition.leader in image.active_brokers
                    assert partition.leader in partition.isr
                assert partition.replicas
                assert len({*partition.replicas}) == len(partition.replicas)
                assert set(partition.isr) <= set(partition.replicas)
                assert not set(partition.isr) & set(partition.elr)
                assert {*partition.adding, *partition.removing} <= {*partition.replicas}


TestMetadataReplay = Cluster.TestCase
TestMetadataReplay.settings = settings(
    max_examples=examples(60), stateful_step_count=25, deadline=None
)

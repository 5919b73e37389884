"""MetadataShard: the controller's state machine, with one component for each part of its state.

Decisions read the state and return records; `replay` passes each record to the component that owns
its type. A restart replays the log and reaches the same state.
"""

from __future__ import annotations

from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kafkalite.coordinator.contract import CoordinatorRecord, CoordinatorResult
from kafkalite.metadata.brokers import Brokers, UsedControllerIdError, no_directories
from kafkalite.metadata.changes import Changes
from kafkalite.metadata.configs import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION, Configs
from kafkalite.metadata.creation import NewTopic, TopicCreation, TopicPlanner
from kafkalite.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS,
    FIRST_WITH_HOST_RANGES,
    METADATA_VERSION,
    Features,
)
from kafkalite.metadata.image import (
    NO_LEADER,
    AddedNode,
    ConfigResource,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    ResourceType,
)
from kafkalite.metadata.leadership import ElectionType, Leadership
from kafkalite.metadata.partition_change import LeadershipRules
from kafkalite.metadata.partition_creation import (
    NewPartitions,
    check_added_partitions,
    plan_new_partitions,
)
from kafkalite.metadata.reassignment import RequestedReassignment, plan_reassignment
from kafkalite.metadata.topics import Topics
from kafkalite.protocol._generated.records.clear_elr import ClearElrRecord
from kafkalite.protocol._generated.records.partition_change import PartitionChangeRecord
from kafkalite.protocol._generated.records.register_broker import RegisterBrokerRecord
from kafkalite.protocol._generated.records.remove_topic import RemoveTopicRecord
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.metadata.acls import Acls
    from kafkalite.metadata.client_quotas import ClientQuotas, QuotaAlteration
    from kafkalite.metadata.configs import ConfigChange
    from kafkalite.metadata.creation import Charge
    from kafkalite.metadata.delegation_tokens import DelegationTokens, TokenRequest
    from kafkalite.metadata.features import FeatureUpdate
    from kafkalite.metadata.image_table import ImageTable
    from kafkalite.metadata.producer_ids import ProducerIds
    from kafkalite.metadata.scram_credentials import (
        ScramCredentials,
        ScramDeletion,
        ScramUpsertion,
    )
    from kafkalite.metadata.topics import TopicState
    from kafkalite.ports.entropy import Entropy
    from kafkalite.protocol._generated.records.abort_transaction import AbortTransactionRecord
    from kafkalite.protocol._generated.records.begin_transaction import BeginTransactionRecord
    from kafkalite.protocol._generated.records.config import ConfigRecord
    from kafkalite.protocol._generated.records.end_transaction import EndTransactionRecord
    from kafkalite.protocol._generated.records.feature_level import FeatureLevelRecord
    from kafkalite.protocol._generated.records.partition import PartitionRecord
    from kafkalite.security.acls import Acl
    from kafkalite.security.delegation_tokens import DelegationToken
    from kafkalite.security.quotas import QuotaEntity


_NO_ROWS: Mapping[Any, Any] = MappingProxyType({})


def to_coordinator_records(
    records: Iterable[object],
) -> tuple[CoordinatorRecord[object, object], ...]:
    """Return metadata records as coordinator records: values without keys."""
    return tuple(CoordinatorRecord(None, record) for record in records)


def _ignore(record: object) -> None:
    """Apply a record without effect."""


class MetadataShard:
    """Topics, settings, nodes, features, producer ids, credentials, ACLs, quotas and tokens."""

    def __init__(
        self,
        config: BrokerConfig,
        entropy: Entropy,
        directories_of: Callable[[int], tuple[bytes, ...]] = no_directories,
        *,
        ignores_case: bool = False,
    ) -> None:
        self._controller_id = config.controller_id
        self.changes = Changes()
        self.features = Features(config)
        self.brokers = Brokers(entropy, self.changes, self.features, directories_of)
        self.topics = Topics(self.changes)
        self.configs = Configs(config, self.topics, self.brokers, self.features, self.changes)
        self._config = config
        self._rules = config.release.rules
        self.leadership = Leadership(self.topics, self.brokers, self._rules_of)
        self._entropy = entropy
        self._planner = TopicPlanner(
            topics=self.topics,
            brokers=self.brokers,
            configs=self.configs,
            config=config,
            entropy=entropy,
            ignores_case=ignores_case,
        )
        self._transaction: list[object] | None = None  # records whose end was not replayed
        self._ends_of_transactions = (self.replay_abort_transaction, self.replay_end_transaction)
        self._replayers = self._new_replayers()

    @cached_property
    def producer_ids(self) -> ProducerIds:
        """The ids of producers that were allocated."""
        from kafkalite.metadata.producer_ids import ProducerIds  # noqa: PLC0415 - a fast start

        return ProducerIds(self.brokers)

    @cached_property
    def scram_credentials(self) -> ScramCredentials:
        """The credentials of users for SCRAM."""
        from kafkalite.metadata.scram_credentials import ScramCredentials  # noqa: PLC0415 - as above

        return ScramCredentials()

    @cached_property
    def acls(self) -> Acls:
        """The ACLs."""
        from kafkalite.metadata.acls import Acls  # noqa: PLC0415 - as above

        return Acls(self._entropy, requires_hosts=self._rules.requires_acl_hosts)

    @cached_property
    def client_quotas(self) -> ClientQuotas:
        """The quotas of users, client ids and addresses."""
        from kafkalite.metadata.client_quotas import ClientQuotas  # noqa: PLC0415 - as above

        return ClientQuotas(requires_finite=self._rules.requires_finite_quotas)

    @cached_property
    def delegation_tokens(self) -> DelegationTokens:
        """The delegation tokens."""
        from kafkalite.metadata.delegation_tokens import DelegationTokens  # noqa: PLC0415 - as above

        return DelegationTokens(self._config, self._entropy, self._controller_config)

    def _controller_config(self) -> BrokerConfig:
        return self._config.of_controller(self.brokers.active)

    def _of(self, component: str, method: str) -> Callable[[object], object]:
        """Return a function that calls a method of a component, which may not exist yet."""

        def replay(record: object) -> None:
            getattr(getattr(self, component), method)(record)

        return replay

    def _new_replayers(self) -> Mapping[str, Callable[[Any], object]]:
        """Return the function for each type of record, by its name.

        Records that only Kafka writes, and that say nothing about topics and clients, have no
        effect: nodes are fenced or not by their registration at the next start.
        """
        return {
            "AbortTransactionRecord": self.replay_abort_transaction,
            "AccessControlEntryRecord": self._of("acls", "replay_access_control_entry"),
            "BeginTransactionRecord": self.replay_begin_transaction,
            "BrokerRegistrationChangeRecord": self.brokers.replay_broker_registration_change,
            "ClearElrRecord": self.topics.replay_clear_elr,
            "ClientQuotaRecord": self._of("client_quotas", "replay_client_quota"),
            "ConfigRecord": self.configs.replay_config,
            "DelegationTokenRecord": self._of("delegation_tokens", "replay_delegation_token"),
            "EndTransactionRecord": self.replay_end_transaction,
            "FeatureLevelRecord": self.features.replay_feature_level,
            "FenceBrokerRecord": _ignore,
            "NoOpRecord": _ignore,
            "PartitionChangeRecord": self.topics.replay_partition_change,
            "PartitionRecord": self.topics.replay_partition,
            "ProducerIdsRecord": self._of("producer_ids", "replay_producer_ids"),
            "RegisterBrokerRecord": self.brokers.replay_register_broker,
            "RegisterControllerRecord": _ignore,
            "RemoveAccessControlEntryRecord": (
                self._of("acls", "replay_remove_access_control_entry")
            ),
            "RemoveDelegationTokenRecord": (
                self._of("delegation_tokens", "replay_remove_delegation_token")
            ),
            "RemoveTopicRecord": self._replay_remove_topic,
            "RemoveUserScramCredentialRecord": (
                self._of("scram_credentials", "replay_remove_user_scram_credential")
            ),
            "TopicRecord": self.topics.replay_topic,
            "UnfenceBrokerRecord": _ignore,
            "UnregisterBrokerRecord": self.brokers.replay_unregister_broker,
            "UnregisterControllerRecord": _ignore,
            "UserScramCredentialRecord": (
                self._of("scram_credentials", "replay_user_scram_credential")
            ),
            "ZkMigrationStateRecord": _ignore,
        }

    def replay(self, record: CoordinatorRecord[object, object]) -> None:
        """Apply one record of the log to the state."""
        value = record.value
        replay = self._replayers[type(value).__name__]
        if self._transaction is None or replay in self._ends_of_transactions:
            replay(value)
        else:
            self._transaction.append(value)

    def replay_begin_transaction(self, record: BeginTransactionRecord) -> None:
        """Collect the next records, which Kafka's controller applies together or not at all.

        Only logs that Kafka has written have such transactions.
        """
        del record
        self._transaction = []

    def replay_end_transaction(self, record: EndTransactionRecord) -> None:
        """Apply the records of the transaction."""
        del record
        records, self._transaction = self._transaction or (), None
        for each in records:
            self._replayers[type(each).__name__](each)

    def replay_abort_transaction(self, record: AbortTransactionRecord) -> None:
        """Drop the records of the transaction."""
        del record
        self._transaction = None

    def _replay_remove_topic(self, record: RemoveTopicRecord) -> None:
        self.configs.replay_remove_topic(self.topics.replay_remove_topic(record))

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Return the records of a new cluster.

        On later starts there are none, unless feature levels have changed. As in Kafka, a
        transaction that has no end is aborted.
        """
        del now_ms
        new: list[object] = [*self.features.start_records()]
        if self.features.start_level(ELIGIBLE_LEADER_REPLICAS):
            new.extend(self.configs.bootstrap_records())
        if self._transaction is not None:
            from kafkalite.protocol._generated.records import abort_transaction  # noqa: PLC0415 - rarely used

            reason = "Controller failover"
            new.insert(0, abort_transaction.AbortTransactionRecord(reason=reason))
        return CoordinatorResult(response=None, records=to_coordinator_records(new))

    def on_timer(self, event: object, now_ms: int) -> CoordinatorResult[None]:
        """Raise AssertionError, because this machine sets no timers."""
        raise AssertionError(event, now_ms)

    def register(self, racks: Mapping[int, str | None]) -> CoordinatorResult[None]:
        """Set the nodes of the cluster, id → rack."""
        records = self.brokers.registration_records(racks)
        chosen = self._controller_id
        if any(
            isinstance(each, RegisterBrokerRecord) and each.broker_id == chosen for each in records
        ):
            raise UsedControllerIdError(
                f"--controller-id {chosen} is the id of a node that was added: use another id"
            )
        return CoordinatorResult(response=None, records=to_coordinator_records(records))

    def elect_missing_leaders(self) -> CoordinatorResult[None]:
        """Elect a registered node as leader of every partition that has none."""
        return CoordinatorResult(
            response=None, records=to_coordinator_records(self.leadership.start_records())
        )

    def fence(self, node_id: int) -> CoordinatorResult[None]:
        """Take a node out of all ISRs and leaderships; no effect if it is fenced."""
        return CoordinatorResult(
            response=None, records=to_coordinator_records(self.leadership.fence(node_id))
        )

    def begin_shutdown(self, node_id: int) -> CoordinatorResult[None]:
        """Let other nodes lead the partitions of a node that shuts down."""
        return CoordinatorResult(
            response=None, records=to_coordinator_records(self.leadership.begin_shutdown(node_id))
        )

    def unfence(self, node_id: int) -> CoordinatorResult[None]:
        """Let a node lead again; no effect if it is not fenced."""
        return CoordinatorResult(
            response=None, records=to_coordinator_records(self.leadership.unfence(node_id))
        )

    def register_broker(
        self,
        node_id: int,
        rack: str | None,
        *,
        added: AddedNode | None = None,
        has_crashed: bool = False,
    ) -> CoordinatorResult[None]:
        """Register a new incarnation of a node as a fenced one.

        A node that has crashed leaves all eligible leader replicas.
        """
        registration = self.brokers.registration_record(node_id, rack, is_fenced=True, added=added)
        changes = self.leadership.return_after_crash(node_id) if has_crashed else ()
        return CoordinatorResult(
            response=None, records=to_coordinator_records((*changes, registration))
        )

    def remove_broker(self, node_id: int) -> CoordinatorResult[None]:
        """Unregister a node; later starts do not register it."""
        is_registered = node_id in self.brokers.registered
        records = (
            self.leadership.unregister(node_id, is_removed=True)
            if is_registered
            else self.brokers.removal_records(node_id)
        )
        return CoordinatorResult(response=None, records=to_coordinator_records(records))

    def unregister_broker(self, node_id: int) -> CoordinatorResult[None]:
        """Take a node out of the cluster; raises the error of `Leadership.unregister`."""
        return CoordinatorResult(
            response=None, records=to_coordinator_records(self.leadership.unregister(node_id))
        )

    def alter_isr(
        self, changes: Iterable[tuple[bytes, int, tuple[int, ...]]]
    ) -> CoordinatorResult[None]:
        """Set the ISR of partitions, (topic id, index, ISR), except those of deleted topics."""
        records = [
            record
            for topic_id, index, isr in changes
            if topic_id in self.topics.by_id
            for record in self.leadership.alter_isr(topic_id, index, isr)
        ]
        return CoordinatorResult(response=None, records=to_coordinator_records(records))

    def assign_directories(
        self, node_id: int, directories: Mapping[tuple[bytes, int], bytes]
    ) -> CoordinatorResult[None]:
        """Set the directories of a node's replicas: (topic id, index) → directory id."""
        records = [
            PartitionChangeRecord(
                topic_id=topic_id,
                partition_id=index,
                directories=[
                    directory if replica == node_id else present
                    for replica, present in zip(
                        partition.replicas, partition.directories, strict=False
                    )
                ],
            )
            for (topic_id, index), directory in directories.items()
            if (partition := self._partition(topic_id, index)) is not None
            and partition.directory_of(node_id) not in (None, directory)
        ]
        return CoordinatorResult(response=None, records=to_coordinator_records(records))

    def _partition(self, topic_id: bytes, index: int) -> PartitionImage | None:
        topic = self.topics.by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(index)

    def cordon(self, node_id: int, directories: Sequence[bytes]) -> CoordinatorResult[None]:
        """Set the cordoned directories of a node; no effect if it is not registered."""
        broker = self.brokers.registered.get(node_id)
        if broker is None or broker.cordoned_directories == tuple(directories):
            return CoordinatorResult(response=None)
        record = self.brokers.cordoning_record(node_id, directories)
        return CoordinatorResult(response=None, records=to_coordinator_records((record,)))

    def move_leader(
        self, topic: str, index: int, leader: int, *, is_unclean: bool
    ) -> CoordinatorResult[None]:
        """Make a replica the leader; raises the errors of `Leadership.move`."""
        record = self.leadership.move(topic, index, leader, is_unclean=is_unclean)
        return CoordinatorResult(response=None, records=to_coordinator_records((record,)))

    def _rules_of(self, topic: TopicState) -> LeadershipRules:
        values = self.configs.effective_topic_values(topic.name)
        min_isr = int(values[MIN_INSYNC_REPLICAS])
        replication_factor = len(topic.partitions[0].replicas)
        return LeadershipRules(
            min_isr=min(min_isr, replication_factor),
            allows_unclean_election=values[UNCLEAN_LEADER_ELECTION] == "true",
            uses_eligible_replicas=self.features.levels.get(ELIGIBLE_LEADER_REPLICAS, 0) >= 1,
        )

    def create_topics(
        self,
        requested: Sequence[NewTopic],
        *,
        validate_only: bool,
        charge: Charge | None = None,
    ) -> CoordinatorResult[list[TopicCreation]]:
        """Create topics, or only validate their creation."""
        creations, records = self._planner.plan(requested, charge)
        self.topics.set_incarnation_epochs(records)
        return CoordinatorResult(
            response=creations, records=() if validate_only else to_coordinator_records(records)
        )

    def delete_topics(
        self, topic_ids: Sequence[bytes], charge: Charge | None = None
    ) -> CoordinatorResult[dict[bytes, KafkaError | None]]:
        """Delete topics by id; the ids must be distinct."""

        def check(topic_id: bytes) -> None:
            topic = self.topics.by_id.get(topic_id)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            if charge is not None:
                charge(len(topic.partitions))

        outcome = {topic_id: _catch_error(check, topic_id) for topic_id in topic_ids}
        removed = [
            RemoveTopicRecord(topic_id=topic_id)
            for topic_id, error in outcome.items()
            if error is None
        ]
        self.topics.set_incarnation_epochs(removed)
        return CoordinatorResult(response=outcome, records=to_coordinator_records(removed))

    def create_partitions(
        self,
        new_partitions: Sequence[NewPartitions],
        *,
        validate_only: bool,
        charge: Charge | None = None,
    ) -> CoordinatorResult[list[KafkaError | None]]:
        """Add partitions; the response has an error or None for each topic, in order.

        Raises KafkaError POLICY_VIOLATION if the topics get too many partitions together.
        """
        if self._rules.limits_added_partitions:
            check_added_partitions(new_partitions, self.topics)
        records: list[PartitionRecord] = []

        def plan(request: NewPartitions) -> None:
            records.extend(
                plan_new_partitions(request, self.topics, self.brokers, self._entropy, charge)
            )

        outcome = [_catch_error(plan, request) for request in new_partitions]
        self.topics.set_incarnation_epochs(records)
        return CoordinatorResult(
            response=outcome, records=() if validate_only else to_coordinator_records(records)
        )

    def elect_leaders(
        self, partitions: Sequence[tuple[str, int]], kind: ElectionType
    ) -> CoordinatorResult[list[KafkaError | None]]:
        """Elect leaders; the response has an error or None for each partition, in order."""
        records: list[PartitionChangeRecord] = []

        def elect(partition: tuple[str, int]) -> None:
            records.append(self.leadership.elect(*partition, kind))

        outcome = [_catch_error(elect, partition) for partition in partitions]
        return CoordinatorResult(response=outcome, records=to_coordinator_records(records))

    def alter_reassignments(
        self, requested: Sequence[RequestedReassignment], *, may_change_replication_factor: bool
    ) -> CoordinatorResult[list[KafkaError | None]]:
        """Begin or cancel reassignments; the response has an error or None for each, in order."""
        records: list[PartitionChangeRecord] = []

        def plan(reassignment: RequestedReassignment) -> None:
            records.extend(
                plan_reassignment(
                    reassignment,
                    self.topics,
                    self.brokers,
                    self.leadership,
                    may_change_replication_factor=may_change_replication_factor,
                )
            )

        outcome = [_catch_error(plan, reassignment) for reassignment in requested]
        return CoordinatorResult(response=outcome, records=to_coordinator_records(records))

    def elect_preferred_leaders(self, limit: int) -> CoordinatorResult[bool]:
        """Elect at most `limit` preferred leaders; the response is whether there may be more."""
        return _elections(self.leadership.preferred_elections(limit), limit)

    def elect_unclean_leaders(self, limit: int) -> CoordinatorResult[bool]:
        """Elect leaders of partitions without one, where topics allow unclean elections."""
        return _elections(self.leadership.unclean_elections(limit), limit)

    def alter_configs(
        self,
        altered: Mapping[ConfigResource, Sequence[ConfigChange]],
        *,
        validate_only: bool,
        is_forwarded: bool,
    ) -> CoordinatorResult[dict[ConfigResource, KafkaError | None]]:
        """Change some keys of some resources; each resource succeeds or fails on its own."""
        deciders = {
            resource: partial(self.configs.alter, resource, changes, is_forwarded=is_forwarded)
            for resource, changes in altered.items()
        }
        return self._decide_configs(deciders, validate_only=validate_only)

    def replace_configs(
        self,
        requested: Mapping[ConfigResource, Mapping[str, str]],
        *,
        validate_only: bool,
        is_forwarded: bool,
    ) -> CoordinatorResult[dict[ConfigResource, KafkaError | None]]:
        """Replace all keys of some resources; omitted keys get their defaults."""
        deciders = {
            resource: partial(self.configs.replace, resource, values, is_forwarded=is_forwarded)
            for resource, values in requested.items()
        }
        return self._decide_configs(deciders, validate_only=validate_only)

    def alter_scram_credentials(
        self, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
    ) -> CoordinatorResult[dict[str, KafkaError | None]]:
        """Set and remove credentials; the response has an error or None by user."""
        outcome, records = self.scram_credentials.alter(deletions, upsertions)
        return CoordinatorResult(response=outcome, records=to_coordinator_records(records))

    def _decide_configs(
        self,
        deciders: Mapping[ConfigResource, Callable[[], list[ConfigRecord]]],
        *,
        validate_only: bool,
    ) -> CoordinatorResult[dict[ConfigResource, KafkaError | None]]:
        records: list[ConfigRecord] = []

        def configure(decide: Callable[[], list[ConfigRecord]]) -> None:
            records.extend(decide())

        outcome = {
            resource: _catch_error(configure, decide) for resource, decide in deciders.items()
        }
        if validate_only:
            return CoordinatorResult(response=outcome)
        return CoordinatorResult(
            response=outcome,
            records=to_coordinator_records((*records, *self._clear_elr_records(records))),
        )

    def _clear_elr_records(self, configs: Iterable[ConfigRecord]) -> Iterator[ClearElrRecord]:
        """Yield records that clear the eligible leader replicas if their minimum changes.

        Replicas that are eligible by the old `min.insync.replicas` may lack records that the new
        one considers as committed.
        """
        if self.features.levels.get(ELIGIBLE_LEADER_REPLICAS, 0) < 1:
            return
        for config in configs:
            if config.name == MIN_INSYNC_REPLICAS:
                is_of_topic = config.resource_type == ResourceType.TOPIC
                yield ClearElrRecord(topic_name=config.resource_name if is_of_topic else "")

    def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool
    ) -> CoordinatorResult[Mapping[str, KafkaError]]:
        """Change feature levels, or only validate them; raises the error of `Features.update`.

        The response has the errors of features whose level does not change.
        """
        controller_id = self._controller_id
        if controller_id is None:
            controller_id = min(self.brokers.active, default=NO_LEADER)
        updated = self.features.update(updates, controller_id)
        records: list[ConfigRecord | FeatureLevelRecord] = [*updated.records]
        if any(
            record.name == ELIGIBLE_LEADER_REPLICAS and record.feature_level
            for record in updated.records
        ):
            records[:0] = self.configs.eligible_replicas_records()
        return CoordinatorResult(
            response=updated.errors,
            records=() if validate_only else to_coordinator_records(records),
        )

    def create_acls(self, requested: Sequence[Acl]) -> CoordinatorResult[list[KafkaError | None]]:
        """Create ACLs; the response has an error or None for each, in order."""
        level = self.features.levels.get(METADATA_VERSION, 0)
        errors, records = self.acls.create(
            requested, supports_ranges=level >= FIRST_WITH_HOST_RANGES
        )
        return CoordinatorResult(response=errors, records=to_coordinator_records(records))

    def delete_acls(self, ids: Collection[bytes]) -> CoordinatorResult[set[bytes]]:
        """Delete ACLs; the response has the ids of those that existed."""
        deleted, records = self.acls.delete(ids)
        return CoordinatorResult(response=deleted, records=to_coordinator_records(records))

    def alter_client_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool
    ) -> CoordinatorResult[dict[QuotaEntity, KafkaError | None]]:
        """Set or remove quotas; the response has an error or None for each entity."""
        outcome, records = self.client_quotas.alter(alterations)
        return CoordinatorResult(
            response=outcome, records=() if validate_only else to_coordinator_records(records)
        )

    def create_delegation_token(
        self, request: TokenRequest, now_ms: int
    ) -> CoordinatorResult[DelegationToken]:
        """Create a delegation token, which is the response."""
        token, records = self.delegation_tokens.create(request, now_ms)
        return CoordinatorResult(response=token, records=to_coordinator_records(records))

    def renew_delegation_token(
        self, hmac: bytes, principal: str, period_ms: int, now_ms: int
    ) -> CoordinatorResult[int]:
        """Let a token expire later; the response is the time."""
        expires_at_ms, records = self.delegation_tokens.renew(hmac, principal, period_ms, now_ms)
        return CoordinatorResult(response=expires_at_ms, records=to_coordinator_records(records))

    def expire_delegation_token(
        self, hmac: bytes, principal: str, period_ms: int, now_ms: int
    ) -> CoordinatorResult[int]:
        """Let a token expire earlier, or remove it; the response is the time."""
        expires_at_ms, records = self.delegation_tokens.expire(hmac, principal, period_ms, now_ms)
        return CoordinatorResult(response=expires_at_ms, records=to_coordinator_records(records))

    def remove_expired_delegation_tokens(self, limit: int, now_ms: int) -> CoordinatorResult[bool]:
        """Remove at most `limit` tokens; the response is whether there may be more."""
        records = self.delegation_tokens.removals(now_ms, limit)
        return CoordinatorResult(
            response=len(records) >= limit, records=to_coordinator_records(records)
        )

    def next_image(
        self, previous: MetadataImage, version: int
    ) -> tuple[MetadataImage, MetadataDelta]:
        """Return the state as an image, and the changes since `previous`; clears the changes."""
        changes = self.changes
        created = self.topics.images(changes.created_topic_ids)
        changed = self.topics.images(changes.changed_topic_ids - changes.created_topic_ids)
        topics, by_id = dict(previous.topics), dict(previous.topics_by_id)
        for deleted_topic in changes.deleted_topics:
            topics.pop(deleted_topic.name, None)
            by_id.pop(deleted_topic.topic_id, None)
        for topic in (*created, *changed):
            topics[topic.name] = topic
            by_id[topic.topic_id] = topic
        reconfigured = tuple(
            topics[resource.name]
            for resource in changes.changed_resources
            if resource.type is ResourceType.TOPIC and resource.name in topics
        )
        image = MetadataImage(
            version=version,
            topics=topics,
            topics_by_id=by_id,
            brokers=dict(self.brokers.registered),
            configs=self.configs.images(),
            features=self.features.levels,
            max_incarnation_epoch=self.topics.max_incarnation_epoch,
            scram_credentials=self._image_of("scram_credentials"),
            acls=self._image_of("acls"),
            client_quotas=self._image_of("client_quotas"),
            delegation_tokens=self._image_of("delegation_tokens"),
        )
        delta = MetadataDelta(
            created=created,
            deleted=tuple(changes.deleted_topics),
            changed=changed,
            reconfigured=reconfigured,
            configs=frozenset(changes.changed_resources),
            brokers_changed=changes.brokers_changed,
        )
        changes.clear()
        return image, delta

    def _image_of(self, component: str) -> Mapping[Any, Any]:
        """Return the rows of a component; one that has not been used has none."""
        if component not in vars(self):
            return _NO_ROWS
        table: ImageTable[Any, Any] = getattr(self, component).table
        return table.image()


def _elections(records: Sequence[PartitionChangeRecord], limit: int) -> CoordinatorResult[bool]:
    return CoordinatorResult(
        response=len(records) >= limit, records=to_coordinator_records(records)
    )


def _catch_error(decide: Callable[[Any], object], request: object) -> KafkaError | None:
    """Call `decide(request)`; return the KafkaError that it raises, else None."""
    try:
        decide(request)
    except KafkaError as error:
        return error.without_traceback()
    return None

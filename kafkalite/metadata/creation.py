"""Creation of topics: the request, its validation and its records."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkalite.metadata.placement import plan_replicas
from kafkalite.metadata.topic_names import (
    colliding_topic,
    invalid_name_reason,
    same_directory_topic,
)
from kafkalite.metadata.topics import topic_records
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.metadata.brokers import Brokers
    from kafkalite.metadata.configs import Configs
    from kafkalite.metadata.topics import Topics
    from kafkalite.ports.entropy import Entropy
    from kafkalite.protocol._generated.records.config import ConfigRecord
    from kafkalite.protocol._generated.records.partition import PartitionRecord
    from kafkalite.protocol._generated.records.topic import TopicRecord

    Charge = Callable[[int], None]
    """(number of partitions): counts mutations; raises KafkaError to refuse them."""

BROKER_DEFAULT = -1
"""Number of partitions or replicas that means the broker's default."""

MAX_PARTITIONS_PER_REQUEST = 10_000
"""Limit of Kafka's controller; it also limits the records of one CreateTopics request."""


class NewTopic(NamedTuple):
    """A topic to create; `assignments` are (partition index, replicas), with the leader first."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: Mapping[str, str | None] = MappingProxyType({})


class TopicCreation(NamedTuple):
    """The outcome of a NewTopic: an error, or the created topic."""

    name: str
    error: KafkaError | None = None
    topic_id: bytes = bytes(16)
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = MappingProxyType({})


class TopicPlanner:
    """Plans the creation of topics; has no state."""

    __slots__ = ("_brokers", "_config", "_configs", "_entropy", "_ignores_case", "_topics")

    def __init__(
        self,
        *,
        topics: Topics,
        brokers: Brokers,
        configs: Configs,
        config: BrokerConfig,
        entropy: Entropy,
        ignores_case: bool = False,
    ) -> None:
        """`ignores_case` says that the file system of the logs has no names that differ in case."""
        self._ignores_case = ignores_case
        self._topics = topics
        self._brokers = brokers
        self._configs = configs
        self._config = config
        self._entropy = entropy

    def plan(
        self, requested: Sequence[NewTopic], charge: Charge | None = None
    ) -> tuple[list[TopicCreation], list[TopicRecord | PartitionRecord | ConfigRecord]]:
        """Return the outcome of each requested topic, and the records of the valid ones.

        `charge` is called with the number of partitions of each valid topic.
        """
        creations: list[TopicCreation] = []
        records: list[TopicRecord | PartitionRecord | ConfigRecord] = []
        used_names = set(self._topics.by_name)
        for new_topic in requested:
            try:
                creation, new_records = self._plan_topic(new_topic, used_names)
                if charge is not None:
                    charge(creation.partitions)
            except KafkaError as error:
                creations.append(
                    TopicCreation(name=new_topic.name, error=error.without_traceback())
                )
                continue
            if len(records) + len(new_records) > MAX_PARTITIONS_PER_REQUEST:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    ErrorText.TOO_MANY_PARTITIONS.template,
                )
            used_names.add(new_topic.name)
            creations.append(creation)
            records += new_records
        return creations, records

    def _plan_topic(
        self, new_topic: NewTopic, used_names: set[str]
    ) -> tuple[TopicCreation, list[TopicRecord | PartitionRecord | ConfigRecord]]:
        self._check_name(new_topic.name, used_names)
        config_records = self._configs.new_topic_records(new_topic.name, new_topic.configs)
        assignments = self._assignments(new_topic)
        topic_id = self._entropy.uuid()
        creation = TopicCreation(
            name=new_topic.name,
            topic_id=topic_id,
            partitions=len(assignments),
            replication_factor=len(assignments[0]),
            configs={record.name: record.value or "" for record in config_records},
        )
        created_records = topic_records(new_topic.name, topic_id, assignments, self._brokers)
        # The TopicRecord comes first, because the ConfigRecords refer to its topic.
        return creation, [created_records[0], *config_records, *created_records[1:]]

    def _check_name(self, name: str, used_names: set[str]) -> None:
        if (reason := invalid_name_reason(name)) is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        # Topics of one request may collide with each other, as in Kafka.
        if (existing := colliding_topic(name, self._topics.by_name)) is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {existing}",
            )
        if self._ignores_case:
            same = same_directory_topic(name, used_names)
            if same is not None:
                raise KafkaError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"Topic '{name}' differs only in case from topic '{same}', and the file system "
                    "of the data directory ignores case",
                )
        if name in used_names:
            raise KafkaError(
                ErrorCode.TOPIC_ALREADY_EXISTS, ErrorText.TOPIC_EXISTS.format(topic=name)
            )

    def _assignments(self, new_topic: NewTopic) -> Sequence[tuple[int, ...]]:
        if new_topic.assignments:
            return self._manual_assignments(new_topic)
        if new_topic.replication_factor < BROKER_DEFAULT or new_topic.replication_factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                ErrorText.INVALID_REPLICATION_FACTOR.template,
            )
        if new_topic.partitions < BROKER_DEFAULT or new_topic.partitions == 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                ErrorText.INVALID_PARTITION_COUNT.template,
            )
        partitions, replication_factor = new_topic.partitions, new_topic.replication_factor
        if partitions == BROKER_DEFAULT:
            partitions = self._controller_config().int("num.partitions")
        if replication_factor == BROKER_DEFAULT:
            replication_factor = self._controller_config().int("default.replication.factor")
        if partitions > MAX_PARTITIONS_PER_REQUEST:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, ErrorText.TOO_MANY_PARTITIONS.template)
        return plan_replicas(
            self._brokers.usable,
            partitions=partitions,
            replication_factor=replication_factor,
            start=self._entropy.integer(max(1, len(self._brokers.active))),
        )

    def _controller_config(self) -> BrokerConfig:
        """Return the settings of the node that acts as controller."""
        return self._config.of_controller(self._brokers.active)

    def _manual_assignments(self, new_topic: NewTopic) -> Sequence[tuple[int, ...]]:
        if new_topic.replication_factor != BROKER_DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not "
                "set to -1.",
            )
        if new_topic.partitions != BROKER_DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        by_index: dict[int, tuple[int, ...]] = {}
        replication_factor: int | None = None
        for index, replicas in new_topic.assignments:
            if index in by_index:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Found multiple manual partition assignments for partition {index}",
                )
            check_manual_assignment(replicas, replication_factor, self._brokers)
            check_active_replicas(replicas, index, self._brokers)
            replication_factor = len(replicas)
            by_index[index] = replicas
        if sorted(by_index) != list(range(len(by_index))):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                ErrorText.ASSIGNMENT_HAS_GAPS.template,
            )
        return [by_index[index] for index in range(len(by_index))]


def check_manual_assignment(
    replicas: tuple[int, ...], replication_factor: int | None, brokers: Brokers
) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT unless `replicas` are distinct, known nodes.

    If `replication_factor` is not None, there must be that many. It is None for the first partition
    of a topic.
    """
    if not replicas:
        raise _invalid_assignment("The manual partition assignment includes an empty replica list.")
    seen_nodes: set[int] = set()
    for node_id in sorted(replicas):
        if node_id not in brokers.registered:
            raise _invalid_assignment(
                ErrorText.ASSIGNMENT_OF_UNKNOWN_BROKER.format(broker_id=node_id)
            )
        if brokers.registered[node_id].is_cordoned:
            raise _invalid_assignment(
                ErrorText.ASSIGNMENT_OF_CORDONED_BROKER.format(broker_id=node_id)
            )
        if node_id in seen_nodes:
            raise _invalid_assignment(
                ErrorText.ASSIGNMENT_OF_REPEATED_BROKER.format(broker_id=node_id)
            )
        seen_nodes.add(node_id)
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _invalid_assignment(
            ErrorText.ASSIGNMENT_OF_ANOTHER_SIZE.format(
                replicas=len(replicas), replication_factor=replication_factor
            )
        )


def check_active_replicas(replicas: tuple[int, ...], index: int, brokers: Brokers) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT if all replicas of a new partition are on fenced nodes."""
    if not any(brokers.is_active(node_id) for node_id in replicas):
        raise _invalid_assignment(
            "All brokers specified in the manual partition assignment for partition "
            f"{index} are fenced or in controlled shutdown."
        )


def _invalid_assignment(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

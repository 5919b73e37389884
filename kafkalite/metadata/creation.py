"""Making topics: what was asked for, what is wrong with it, and the records that make it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.metadata.placement import plan_replicas
from kafkalite.metadata.topic_names import colliding_topic, name_complaint
from kafkalite.metadata.topics import topic_records
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.metadata.brokers import Brokers
    from kafkalite.metadata.configs import Configs
    from kafkalite.metadata.topics import Topics
    from kafkalite.ports.entropy import Entropy
    from kafkalite.protocol.records.config import ConfigRecord
    from kafkalite.protocol.records.partition import PartitionRecord
    from kafkalite.protocol.records.topic import TopicRecord

BROKER_DEFAULT = -1
"""In the place of a number of partitions or replicas: as many as the broker is set to."""

MAX_PARTITIONS_PER_REQUEST = 10_000
"""As Kafka's controller: one request becomes at most this many records."""


class NewTopic(NamedTuple):
    """A topic somebody wants; `assignments` are (partition index, replicas), leaders first."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: Mapping[str, str | None] = MappingProxyType({})


class TopicCreation(NamedTuple):
    """What became of a NewTopic: an error, or what was made."""

    name: str
    error: KafkaError | None = None
    topic_id: bytes = bytes(16)
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = MappingProxyType({})


class TopicMaker:
    """Decides on new topics; has no state of its own."""

    __slots__ = ("_brokers", "_config", "_configs", "_entropy", "_topics")

    def __init__(
        self,
        *,
        topics: Topics,
        brokers: Brokers,
        configs: Configs,
        config: BrokerConfig,
        entropy: Entropy,
    ) -> None:
        self._topics = topics
        self._brokers = brokers
        self._configs = configs
        self._config = config
        self._entropy = entropy

    def plan(
        self, wanted: Sequence[NewTopic]
    ) -> tuple[list[TopicCreation], list[TopicRecord | PartitionRecord | ConfigRecord]]:
        """Return what became of each wanted topic, and the records of those that are fine."""
        creations: list[TopicCreation] = []
        records: list[TopicRecord | PartitionRecord | ConfigRecord] = []
        taken = set(self._topics.by_name)
        for new in wanted:
            try:
                creation, its_records = self._plan_one(new, taken)
            except KafkaError as error:
                creations.append(TopicCreation(name=new.name, error=error))
                continue
            if len(records) + len(its_records) > MAX_PARTITIONS_PER_REQUEST:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    "Excessively large number of partitions per request.",
                )
            taken.add(new.name)
            creations.append(creation)
            records += its_records
        return creations, records

    def _plan_one(
        self, new: NewTopic, taken: set[str]
    ) -> tuple[TopicCreation, list[TopicRecord | PartitionRecord | ConfigRecord]]:
        self._check_name(new.name, taken)
        config_records = self._configs.records_of_new_topic(new.name, new.configs)
        assignments = self._assignments(new)
        topic_id = self._entropy.uuid()
        creation = TopicCreation(
            name=new.name,
            topic_id=topic_id,
            partitions=len(assignments),
            replication_factor=len(assignments[0]),
            configs={record.name: record.value or "" for record in config_records},
        )
        made = topic_records(new.name, topic_id, assignments, self._brokers)
        # The topic's own record comes first: what configures it would else configure nothing.
        return creation, [made[0], *config_records, *made[1:]]

    def _check_name(self, name: str, taken: set[str]) -> None:
        if (complaint := name_complaint(name)) is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, complaint)
        # Two topics of one request may collide with each other, in Kafka too.
        if (other := colliding_topic(name, self._topics.by_name)) is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}",
            )
        if name in taken:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")

    def _assignments(self, new: NewTopic) -> Sequence[tuple[int, ...]]:
        if new.assignments:
            return self._manual_assignments(new)
        if new.replication_factor < BROKER_DEFAULT or new.replication_factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if new.partitions < BROKER_DEFAULT or new.partitions == 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )
        partitions, replication_factor = new.partitions, new.replication_factor
        if partitions == BROKER_DEFAULT:
            partitions = self._config.int("num.partitions")
        if replication_factor == BROKER_DEFAULT:
            replication_factor = self._config.int("default.replication.factor")
        if partitions > MAX_PARTITIONS_PER_REQUEST:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
            )
        return plan_replicas(
            self._brokers.registered,
            partitions=partitions,
            replication_factor=replication_factor,
            start=self._entropy.integer(max(1, len(self._brokers.registered))),
        )

    def _manual_assignments(self, new: NewTopic) -> Sequence[tuple[int, ...]]:
        if new.replication_factor != BROKER_DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not "
                "set to -1.",
            )
        if new.partitions != BROKER_DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        by_index: dict[int, tuple[int, ...]] = {}
        replication_factor: int | None = None
        for index, replicas in new.assignments:
            if index in by_index:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Found multiple manual partition assignments for partition {index}",
                )
            check_manual_assignment(replicas, replication_factor, self._brokers)
            replication_factor = len(replicas)
            by_index[index] = replicas
        if sorted(by_index) != list(range(len(by_index))):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "partitions should be a consecutive 0-based integer sequence",
            )
        return [by_index[index] for index in range(len(by_index))]


def check_manual_assignment(
    replicas: tuple[int, ...], replication_factor: int | None, brokers: Brokers
) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT unless these are different, known nodes, as many as others.

    `replication_factor` is what the partitions before have; None for the first.
    """
    if not replicas:
        raise _bad_assignment("The manual partition assignment includes an empty replica list.")
    seen: set[int] = set()
    for node_id in sorted(replicas):
        if node_id not in brokers.registered:
            raise _bad_assignment(
                f"The manual partition assignment includes broker {node_id}, but no such broker "
                "is registered."
            )
        if node_id in seen:
            raise _bad_assignment(
                f"The manual partition assignment includes the broker {node_id} more than once."
            )
        seen.add(node_id)
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _bad_assignment(
            f"The manual partition assignment includes a partition with {len(replicas)} "
            "replica(s), but this is not consistent with previous partitions, which have "
            f"{replication_factor} replica(s)."
        )


def _bad_assignment(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

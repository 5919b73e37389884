"""The command that moves the leader of a partition."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kafkalite.config.typed_json import About, check_types, quote
from kafkalite.control.command_table import (
    CommandError,
    Family,
    Joined,
    Row,
    Words,
    running_cluster,
    sentence,
    write_answers,
)
from kafkalite.metadata.topic_names import invalid_name_reason
from kafkalite.ports.texts import count_text
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.cluster.cluster import Cluster
    from kafkalite.server.broker import Broker


@dataclass(frozen=True, slots=True)
class LeaderStatus:
    """A partition after a change of its leader."""

    topic: Annotated[str, About("Name of the topic.")]
    partition: Annotated[int, About("Index of the partition.")]
    leader: Annotated[int, About("Node that leads the partition.")]
    leader_epoch: Annotated[int, About("Epoch of the leader.")]
    replicas: Annotated[tuple[int, ...], About("Nodes with a replica.")]
    isr: Annotated[tuple[int, ...], About("Nodes whose replica is in sync.")]
    end_offset: Annotated[int, About("End offset of the leader's log.")]
    truncated_records: Annotated[
        int,
        About(
            "Number of offsets that the change removed because the new leader did not have them."
        ),
    ]


@dataclass(frozen=True, slots=True)
class MoveLeader:
    """Make a replica the leader of a partition, and return the partition.

    Nothing changes if it is the leader already. Without `unclean`, the replica must be in sync. An
    unclean election removes all records that the replica does not have.
    """

    topic: Annotated[str, About("name of the topic")]
    partition: Annotated[int, About("index of the partition")]
    leader: Annotated[int, About("id of the node, which has a replica", metavar="ID")]
    unclean: Annotated[
        bool,
        About("allow a replica that is not in sync; the records that it does not have are lost"),
    ] = False

    def __post_init__(self) -> None:
        check_types(self)
        if invalid_name_reason(self.topic) is not None:
            raise CommandError(f"topic must be the name of a topic, not {quote(self.topic)}")

    async def perform(self, broker: Broker) -> LeaderStatus:
        """Move the leader; raises CommandError if that is impossible.

        Answers that the change triggered have been written when this returns.
        """
        cluster = running_cluster(broker)
        topic, index = self.topic, self.partition
        before = _end_offset(cluster, topic, index)
        try:
            cluster.metadata.move_leader(topic, index, self.leader, is_unclean=self.unclean)
        except KafkaError as error:
            if error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                raise CommandError(sentence(error)) from error
        partition = cluster.metadata.image.topics[topic].partitions[index]
        after = _end_offset(cluster, topic, index)
        await write_answers()
        return LeaderStatus(
            topic=topic,
            partition=index,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            replicas=tuple(partition.replicas),
            isr=tuple(partition.isr),
            end_offset=after,
            truncated_records=before - after,
        )


def _end_offset(cluster: Cluster, topic: str, index: int) -> int:
    """Return the end offset of a partition, 0 if there is none or its log is offline."""
    hosted = cluster.partitions.topic(topic)
    with suppress(KafkaError):
        partition = None if hosted is None else hosted.partition(index)
        return 0 if partition is None else partition.end_offset
    return 0


def _parts(text: str) -> dict[str, object]:
    """Return the fields of TOPIC-PARTITION; raises ValueError for other text."""
    topic, _, index = text.rpartition("-")
    if not topic or not index.isascii() or not index.isdigit():
        raise ValueError(f"{text[:60]!r} is not a partition: write TOPIC-PARTITION, as in orders-0")
    return {"topic": topic, "partition": int(index[:12])}


def _lines(moved: LeaderStatus, _: object) -> list[str]:
    lost = f"{count_text(moved.truncated_records, 'record')} lost"
    replicas, isr = (" ".join(map(str, ids)) for ids in (moved.replicas, moved.isr))
    line = (
        f"{moved.topic}-{moved.partition}: node {moved.leader} leads in epoch "
        f"{moved.leader_epoch}, replicas {replicas}, in sync {isr}, {lost}"
    )
    return [line]


COMMANDS = Family(
    (
        Row(
            MoveLeader,
            LeaderStatus,
            "POST",
            "/v1/leaders",
            (
                Words(
                    "leader move",
                    "Make a node the leader of a partition.",
                    (
                        Joined(
                            "TOPIC-PARTITION",
                            "partition, such as orders-0",
                            ("topic", "partition"),
                            _parts,
                        ),
                        "leader",
                    ),
                ),
            ),
            _lines,
            {"topic": "t", "partition": 0, "leader": 2},
        ),
    ),
    {"leader": "Move the leaders of partitions of a running broker."},
)

"""Moves of replicas between log directories, started by `kafka-reassign-partitions`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.brokers import ask_each_broker
from kafkalite.client.epochs import TopicPartition
from kafkalite.docker.tools.arguments import ToolError
from kafkalite.docker.tools.running import write_line
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
)
from kafkalite.protocol._generated.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.client.client import KafkaClient

_ANY: Final = "any"
_ALTER_VERSIONS: Final = Versions(1, 2)
_DESCRIBE_VERSIONS: Final = Versions(1, 5)
_RETRY_S: Final = 0.1
_ATTEMPTS: Final = 100
"""The number of attempts in the 10 s for which Kafka's tool waits by default."""


class Replica(NamedTuple):
    """A replica of a partition on a node; its text is that of Kafka's TopicPartitionReplica."""

    topic: str
    partition: int
    node_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.node_id}"


class MoveError(ToolError):
    """A move that cannot be started; the text is one line."""


def planned_moves(rows: Iterable[Mapping[str, Any]]) -> dict[Replica, str]:
    """Return the directories of replicas in the rows of a plan, without those that may be any.

    Raises MoveError unless a row has as many directories as replicas.
    """
    moves: dict[Replica, str] = {}
    for row in rows:
        replicas = row["replicas"]
        paths = row.get("log_dirs", [_ANY] * len(replicas))
        if not isinstance(paths, list) or len(paths) != len(replicas):
            partition = TopicPartition(row["topic"], row["partition"])
            raise MoveError(
                f"Size of replicas list {replicas} is different from size of log dirs list {paths} "
                f"for partition {partition}"
            )
        for node_id, path in zip(replicas, paths, strict=True):
            if path != _ANY:
                moves[Replica(row["topic"], row["partition"], node_id)] = str(path)
    return moves


async def start_moves(client: KafkaClient, moves: Mapping[Replica, str]) -> None:
    """Move replicas to directories, when their nodes have them; raises MoveError."""
    pending = dict(moves)
    for _ in range(_ATTEMPTS):
        for replica in sorted(await _started(client, pending)):
            write_line(
                f"Successfully started moving log directory to {pending.pop(replica)} for replica "
                f"{replica.topic}-{replica.partition} with broker {replica.node_id} "
            )
        if not pending:
            return
        await asyncio.sleep(_RETRY_S)
    plural = "s" * (len(pending) > 1)
    names = ",".join(map(str, sorted(pending)))
    raise MoveError(f"Timed out before log directory move{plural} could be started for: {names}")


async def _started(client: KafkaClient, moves: Mapping[Replica, str]) -> list[Replica]:
    """Request moves; return those of replicas that exist."""
    brokers = {each.node_id: each for each in (await client.metadata()).brokers}
    rows = AlterReplicaLogDirsRequest
    started = []
    for replica, path in moves.items():
        topic = rows.AlterReplicaLogDirTopic(name=replica.topic, partitions=[replica.partition])
        request = rows(dirs=[rows.AlterReplicaLogDir(path=path, topics=[topic])])
        broker = brokers[replica.node_id]
        address = Address(broker.host, broker.port)
        response = await client.ask(address, request, _ALTER_VERSIONS)
        code = response.results[0].partitions[0].error_code
        if code == ErrorCode.NONE:
            started.append(replica)
        elif code != ErrorCode.REPLICA_NOT_AVAILABLE:
            raise MoveError(f"Failed to alter dir for {replica}: {ErrorCode(code).name}")
    return started


async def active_moves(client: KafkaClient, moves: Mapping[Replica, str]) -> dict[Replica, str]:
    """Return the current directory of each replica that moves to its planned directory."""
    current, future = await _directories(client, moves)
    return {
        replica: current[replica]
        for replica, path in moves.items()
        if future.get(replica) == path and replica in current
    }


async def describe_moves(
    client: KafkaClient, moves: Mapping[Replica, str]
) -> tuple[list[str], bool]:
    """Return the lines of the states of moves, and whether one is in progress."""
    current, future = await _directories(client, moves)
    lines = [
        _state(replica, moves[replica], current.get(replica), future.get(replica))
        for replica in sorted(moves)
    ]
    return lines, any(replica in future for replica in moves)


async def _directories(
    client: KafkaClient, moves: Mapping[Replica, str]
) -> tuple[dict[Replica, str], dict[Replica, str]]:
    """Return the current and the future directories of replicas, nothing without moves."""
    current: dict[Replica, str] = {}
    future: dict[Replica, str] = {}
    request = DescribeLogDirsRequest(topics=None)
    responses = await ask_each_broker(client, request, _DESCRIBE_VERSIONS) if moves else {}
    for node_id, response in responses.items():
        for result in response.results:
            for topic in result.topics:
                for row in topic.partitions:
                    places = future if row.is_future_key else current
                    places[Replica(topic.name, row.partition_index, node_id)] = result.log_dir
    return current, future


def _state(replica: Replica, target: str, current: str | None, future: str | None) -> str:
    name = f"Partition {replica.topic}-{replica.partition}"
    if current is None:
        return (
            f"{name} is not found in any live log dir on broker {replica.node_id}. There is likely "
            "an offline log directory on the broker."
        )
    if future == target:
        return f"Reassignment of replica {replica} is still in progress."
    if future is not None:
        return (
            f"{name} on broker {replica.node_id} is being moved to log dir {future} instead of "
            f"{target}."
        )
    if current == target:
        return f"Reassignment of replica {replica} completed successfully."
    return (
        f"{name} on broker {replica.node_id} is not being moved from log dir {current} to {target}."
    )

"""`kafka-reassign-partitions`: move the replicas of partitions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.brokers import ask_each_broker
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.topics import list_topics
from kafkalite.docker.tools.arguments import (
    FAILED_STATUS,
    ToolError,
    ToolParser,
    add_bootstrap_options,
    file_text,
    integers,
)
from kafkalite.docker.tools.config_entities import BROKERS, TOPICS, Entity
from kafkalite.docker.tools.exceptions import exception_text, row_exception, with_cause
from kafkalite.docker.tools.log_directory_moves import (
    MoveError,
    active_moves,
    describe_moves,
    planned_moves,
    start_moves,
)
from kafkalite.docker.tools.partition_files import json_object, partitions_of
from kafkalite.docker.tools.resource_configs import alter_resource
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.protocol._generated.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from kafkalite.protocol._generated.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalite.protocol._generated.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.docker.tools.log_directory_moves import Replica

    Replicas = dict[TopicPartition, list[int]]

_ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")
_AT_CONTROLLER: Final = ("cancel", "list")
_ALTER_VERSIONS: Final = Versions(0, 1)
_LIST_VERSIONS: Final = Versions(0, 0)
_LOG_DIRS_VERSIONS: Final = Versions(1, 5)
_BROKER_THROTTLES: Final = ("leader.replication.throttled.rate",
                            "follower.replication.throttled.rate")  # fmt: skip
_MOVE_THROTTLE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_TOPIC_THROTTLES: Final = ("leader.replication.throttled.replicas",
                           "follower.replication.throttled.replicas")  # fmt: skip
_FAILED: Final = "org.apache.kafka.tools.AdminCommandFailedException: "


class _ReassignmentError(ToolError):
    """The tool fails; the text has the reason, and the exception that Java prints after it."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        parsed.environment = environment
        try:
            return run_with_client(parsed, environment, _run)
        except _ReassignmentError as error:
            write_line(f"Error: {error}")
            return FAILED_STATUS

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Move the replicas of partitions.")
    add_bootstrap_options(parser, has_controller=True)
    parser.add_switches(*_ACTIONS, "disable-rack-aware", "preserve-throttles", "additional")
    parser.add_switches("disallow-replication-factor-change")
    parser.add_values("topics-to-move-json-file", "broker-list", "reassignment-json-file")
    parser.add_values("throttle", "replica-alter-log-dirs-throttle", "timeout", type=int)
    parsed = parser.parse(arguments)
    action = parser.single(
        parsed,
        _ACTIONS,
        "Command must include exactly one action: --generate, --execute, --verify, --cancel, "
        "--list",
    )
    if parsed.bootstrap_controller and action not in _AT_CONTROLLER:
        parser.error(f'Option "[bootstrap-controller]" can\'t be used with action "[{action}]"')
    needed = {"generate": ("topics-to-move-json-file", "broker-list"), "list": ()}
    for option in needed.get(action, ("reassignment-json-file",)):
        if getattr(parsed, option.replace("-", "_")) is None:
            parser.error(f'Missing required argument "[{option}]"')
    return parsed


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    commands = (_generate, _execute, _verify, _cancel, _list)
    await next(run for action, run in zip(_ACTIONS, commands, strict=True)
               if getattr(parsed, action))(client, parsed)  # fmt: skip
    return 0


def _failure(reason: str) -> _ReassignmentError:
    return _ReassignmentError(f"{reason}\n{_FAILED}{reason}")


def _planned(parsed: Namespace) -> Replicas:
    """Return the replicas of the file with a plan; raises ToolError."""
    keys = ("topic", "partition", "replicas")
    rows = partitions_of(parsed.reassignment_json_file, parsed.environment, keys)
    if not rows:
        raise _failure("Partition reassignment list cannot be empty")
    planned: Replicas = {}
    for row in rows:
        partition = TopicPartition(row["topic"], row["partition"])
        if partition in planned:
            raise _failure(
                f"Partition reassignment contains duplicate topic partitions: {partition}"
            )
        if len(set(row["replicas"])) < len(row["replicas"]) or not row["replicas"]:
            raise _failure(
                "Partition replica lists may not contain duplicate entries, nor be empty: "
                f"{partition}"
            )
        planned[partition] = row["replicas"]
    return planned


def _planned_moves(parsed: Namespace) -> dict[Replica, str]:
    """Return the directories of replicas in the file with a plan; raises ToolError."""
    keys = ("topic", "partition", "replicas")
    rows = partitions_of(parsed.reassignment_json_file, parsed.environment, keys)
    try:
        return planned_moves(rows)
    except MoveError as error:
        raise _failure(str(error)) from None


async def _current(client: KafkaClient, topics: Sequence[str]) -> Replicas:
    """Return the replicas of topics; raises ToolError if one does not exist."""
    known = {each.name: each for each in await list_topics(client)}
    for name in topics:
        if name not in known:
            reason = exception_text(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name} not found."
            )
            raise _ReassignmentError(f"{reason}\n{with_cause(reason)}")
    return {
        TopicPartition(name, row.partition): list(row.replicas)
        for name in sorted(set(topics))
        for row in known[name].partitions
    }


async def _assignment_json(client: KafkaClient, replicas: Replicas, *, is_current: bool) -> str:
    """Return replicas as the JSON that the tool reads; `is_current` names their directories."""
    directories: dict[tuple[int, TopicPartition], str] = {}
    if is_current:
        request = DescribeLogDirsRequest(topics=None)
        responses = await ask_each_broker(client, request, _LOG_DIRS_VERSIONS)
        directories = {
            (node_id, TopicPartition(topic.name, row.partition_index)): each.log_dir
            for node_id, response in responses.items()
            for each in response.results
            for topic in each.topics
            for row in topic.partitions
        }
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": ids,
            "log_dirs": [directories.get((each, partition), "any") for each in ids],
        }
        for partition, ids in replicas.items()
    ]
    return json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"))


async def _generate(client: KafkaClient, parsed: Namespace) -> None:
    path = parsed.topics_to_move_json_file
    topics = json_object(file_text(path, parsed.environment), path).get("topics")
    rows = topics if isinstance(topics, list) else []
    names = [each["topic"] for each in rows if isinstance(each, dict) and "topic" in each]
    if not names or not all(isinstance(name, str) for name in names):
        raise ToolError(f"{path} has no list topics, with a topic in each of its objects")
    brokers = integers(parsed.broker_list, "--broker-list")
    current = await _current(client, names)
    for partition, ids in current.items():
        if len(ids) > len(brokers):
            raise _failure(
                f"Replication factor: {len(ids)} larger than available brokers: {len(brokers)} "
                f"for {partition}"
            )
    proposed = {
        each: [brokers[(each.partition + turn) % len(brokers)] for turn in range(len(ids))]
        for each, ids in current.items()
    }
    write_line("Current partition replica assignment")
    write_line(await _assignment_json(client, current, is_current=True))
    write_line("\nProposed partition reassignment configuration")
    write_line(await _assignment_json(client, proposed, is_current=False))


async def _execute(client: KafkaClient, parsed: Namespace) -> None:
    planned, moves = _planned(parsed), _planned_moves(parsed)
    known = {each.node_id for each in (await client.metadata()).brokers}
    for unknown in sorted({each for ids in planned.values() for each in ids} - known):
        raise _failure(f"Unknown broker id {unknown}")
    every = await _current(client, [each.topic for each in planned])
    current = {each: every[each] for each in planned if each in every}
    write_line("Current partition replica assignment\n")
    write_line(await _assignment_json(client, current, is_current=True))
    write_line("\nSave this to use as the --reassignment-json-file option during rollback")
    if parsed.throttle is not None or parsed.replica_alter_log_dirs_throttle is not None:
        write_line(
            "Warning: You must run --verify periodically, until the reassignment completes, to "
            "ensure the throttle is removed."
        )
    if parsed.throttle is not None:
        await _throttle(client, current, planned, parsed.throttle)
    if parsed.replica_alter_log_dirs_throttle is not None:
        await _throttle_moves(client, moves, parsed.replica_alter_log_dirs_throttle)
    errors = await _alter(
        client, planned, changes_factor=not parsed.disallow_replication_factor_change
    )
    if errors:
        details = "\n".join(f"{each}: {row_exception(row)}" for each, row in errors.items())
        raise _failure(f"Error reassigning partition(s):\n{details}")
    names = ",".join(map(str, sorted(planned)))
    write_line(f"Successfully started partition reassignment{'s' * (len(planned) > 1)} for {names}")
    if moves:
        await _start_moves(client, moves)


async def _start_moves(client: KafkaClient, moves: Mapping[Replica, str]) -> None:
    try:
        await start_moves(client, moves)
    except MoveError as error:
        raise _failure(str(error)) from None


async def _throttle(
    client: KafkaClient, current: Replicas, planned: Replicas, bytes_per_second: int
) -> None:
    """Limit the replication of moved partitions, as the tool does it."""
    both = {each: (current.get(each, []), ids) for each, ids in planned.items()}
    for topic in sorted({each.topic for each in planned}):
        rows = [(each.partition, *ids) for each, ids in both.items() if each.topic == topic]
        leaders = ",".join(f"{index}:{node}" for index, old, _ in rows for node in old)
        followers = ",".join(
            f"{index}:{node}" for index, old, new in rows for node in new if node not in old
        )
        values = dict(zip(_TOPIC_THROTTLES, (leaders, followers), strict=True))
        await alter_resource(client, Entity(TOPICS, topic), values, ())
    nodes = {node for pair in both.values() for ids in pair for node in ids}
    for node in sorted(nodes):
        values = dict.fromkeys(_BROKER_THROTTLES, str(bytes_per_second))
        await alter_resource(client, Entity(BROKERS, str(node)), values, ())
    write_line(f"The inter-broker throttle limit was set to {bytes_per_second} B/s")


async def _throttle_moves(
    client: KafkaClient, moves: Mapping[Replica, str], bytes_per_second: int
) -> None:
    """Limit the moves between the directories of nodes, as the tool does it."""
    for node in sorted({each.node_id for each in moves}):
        values = {_MOVE_THROTTLE: str(bytes_per_second)}
        await alter_resource(client, Entity(BROKERS, str(node)), values, ())
    write_line(f"The replica-alter-dir throttle limit was set to {bytes_per_second} B/s")


async def _alter(
    client: KafkaClient,
    replicas: Mapping[TopicPartition, list[int] | None],
    *,
    changes_factor: bool,
) -> dict[TopicPartition, Any]:
    """Request replicas, None to cancel a move; return the rows of refused partitions."""
    row = AlterPartitionReassignmentsRequest.ReassignablePartition
    topics: dict[str, list[Any]] = {}
    for (topic, index), ids in replicas.items():
        topics.setdefault(topic, []).append(row(partition_index=index, replicas=ids))
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=changes_factor,
        topics=[
            AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=rows)
            for name, rows in topics.items()
        ],
    )
    response = await client.ask_any(request, _ALTER_VERSIONS)
    if response.error_code:
        reason = row_exception(response)
        raise _ReassignmentError(f"{reason}\n{with_cause(reason)}")
    return {
        TopicPartition(topic.name, each.partition_index): each
        for topic in response.responses
        for each in topic.partitions
        if each.error_code
    }


async def _ongoing(client: KafkaClient) -> dict[TopicPartition, Any]:
    """Return the rows of partitions that are being moved."""
    request = ListPartitionReassignmentsRequest(topics=None)
    response = await client.ask_any(request, _LIST_VERSIONS)
    return {
        TopicPartition(topic.name, each.partition_index): each
        for topic in response.topics
        for each in topic.partitions
    }


async def _verify(client: KafkaClient, parsed: Namespace) -> None:
    planned = _planned(parsed)
    ongoing = await _ongoing(client)
    current = {
        TopicPartition(topic.name, row.partition): list(row.replicas)
        for topic in await list_topics(client)
        for row in topic.partitions
    }
    write_line("Status of partition reassignment:")
    for each, ids in planned.items():
        found = current.get(each, [])
        if each in ongoing:
            write_line(f"Reassignment of partition {each} is still in progress.")
        elif found == ids:
            write_line(f"Reassignment of partition {each} is completed.")
        else:
            write_line(
                f"There is no active reassignment of partition {each}, but replica set is "
                f"{_ids(found)} rather than {_ids(ids)}."
            )
    lines, is_moving = await describe_moves(client, _planned_moves(parsed))
    write_line("\n".join(lines))
    if not ongoing and not is_moving and not parsed.preserve_throttles:
        await _clear_throttles(client, planned)


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


async def _clear_throttles(client: KafkaClient, planned: Replicas) -> None:
    brokers = sorted(each.node_id for each in (await client.metadata()).brokers)
    plural = "s" * (len(brokers) > 1)
    write_line(f"Clearing broker-level throttles on broker{plural} {_ids(brokers)}")
    for node in brokers:
        names = (*_BROKER_THROTTLES, _MOVE_THROTTLE)
        await alter_resource(client, Entity(BROKERS, str(node)), {}, names)
    topics = sorted({each.topic for each in planned})
    plural = "s" * (len(topics) > 1)
    write_line(f"Clearing topic-level throttles on topic{plural} {','.join(topics)}")
    for topic in topics:
        await alter_resource(client, Entity(TOPICS, topic), {}, _TOPIC_THROTTLES)


async def _cancel(client: KafkaClient, parsed: Namespace) -> None:
    planned = _planned(parsed)
    ongoing = await _ongoing(client)
    active = [each for each in planned if each in ongoing]
    if active:
        errors = await _alter(client, dict.fromkeys(active), changes_factor=True)
        if errors:
            details = "\n".join(f"{each}: {row_exception(row)}" for each, row in errors.items())
            raise _failure(f"Error cancelling partition reassignment(s) for:\n{details}")
        plural = "s" * (len(active) > 1)
        names = ",".join(map(str, sorted(active)))
        write_line(f"Successfully cancelled partition reassignment{plural} for: {names}")
    else:
        write_line("None of the specified partition reassignments are active.")
    moving = await active_moves(client, _planned_moves(parsed))
    if moving:
        await _start_moves(client, moving)
    else:
        # As in Kafka, this text has no line break.
        write_line("None of the specified partition moves are active.", end="")
    if not parsed.preserve_throttles:
        await _clear_throttles(client, planned)


async def _list(client: KafkaClient, parsed: Namespace) -> None:
    del parsed
    ongoing = await _ongoing(client)
    if not ongoing:
        write_line("No partition reassignments found.")
        return
    write_line("Current partition reassignments:")
    for each, row in sorted(ongoing.items()):
        parts = [f"replicas: {_ids(row.replicas)}."]
        if row.adding_replicas:
            parts.append(f"adding: {_ids(row.adding_replicas)}.")
        if row.removing_replicas:
            parts.append(f"removing: {_ids(row.removing_replicas)}.")
        write_line(f"{each}: {' '.join(parts)}")

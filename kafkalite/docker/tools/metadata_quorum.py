"""`kafka-metadata-quorum`: the leader, the voters and the observers of the quorum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.docker.tools.arguments import (
    KafkaToolError,
    ToolError,
    ToolParser,
    add_bootstrap_options,
    error_message,
    error_reason,
)
from kafkalite.docker.tools.cluster import unregister_controller
from kafkalite.docker.tools.exceptions import terse_failure
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_quorum import DescribeQuorumRequest
from kafkalite.protocol._generated.messages.remove_raft_voter import RemoveRaftVoterRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_BROKERS, _CONTROLLERS = 1, 2
"""Endpoint types of DescribeCluster."""

_CLUSTER_VERSIONS: Final = Versions(1, 2)
_REMOVE_VERSIONS: Final = Versions(0, 0)
_QUORUM_VERSIONS: Final = Versions(0, 2)
_HEADER: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parser = ToolParser(name, "Describe the quorum of controllers.")
        parser.add_argument("command", choices=("describe", "add-controller", "remove-controller"))
        parser.add_argument("-i", "--controller-id", type=int)
        parser.add_argument("-d", "--controller-directory-id")
        parser.add_switches("dry-run", "unregister")
        parser.add_argument("--status", action="store_true")
        parser.add_argument("--replication", action="store_true")
        parser.add_argument("--human-readable", action="store_true")
        parser.add_argument("--bootstrap-controller", metavar="LIST")
        add_bootstrap_options(parser)
        parsed = parser.parse(arguments)
        if parsed.command == "add-controller":
            raise ToolError(
                "add-controller: the controllers are the nodes of the cluster, which vote since "
                "its start; there is no other process to add"
            )
        if parsed.command == "remove-controller":
            _check_removal(parser, parsed)
            return _remove(parsed, environment)
        _check(parsed)
        parsed.endpoint_type = _CONTROLLERS if parsed.bootstrap_controller else _BROKERS
        parsed.bootstrap_server = parsed.bootstrap_controller or parsed.bootstrap_server
        return run_with_client(parsed, environment, _run)

    return run_tool(name, command)


def _check_removal(parser: ToolParser, parsed: Namespace) -> None:
    """Raise UsageError for a removal without a controller."""
    if parsed.controller_id is None:
        parser.error("argument --controller-id/-i is required")
    if parsed.controller_directory_id is None:
        parser.error("argument --controller-directory-id/-d is required")


def _remove(parsed: Namespace, environment: Mapping[str, str]) -> int:
    """Remove a controller from the voters; return the exit status."""
    title = (
        f"KRaft controller {parsed.controller_id} with directory id "
        f"{parsed.controller_directory_id}"
    )
    try:
        directory_id = uuid_from_text(parsed.controller_directory_id)
    except ValueError:
        text = parsed.controller_directory_id
        raise ToolError(f"--controller-directory-id {text!r} is not a UUID in base64") from None
    if parsed.dry_run:
        write_line(f"DRY RUN of removing {title}")
        if parsed.unregister:
            write_line(f"DRY RUN of unregistering KRaft controller {parsed.controller_id}")
        return 0

    async def run(client: KafkaClient, _: Namespace) -> int:
        request = RemoveRaftVoterRequest(
            cluster_id=None, voter_id=parsed.controller_id, voter_directory_id=directory_id
        )
        response = await client.ask_any(request, _REMOVE_VERSIONS)
        if parsed.unregister and response.error_code == ErrorCode.VOTER_NOT_FOUND:
            raise KafkaToolError(
                f"Failed to remove KRaft voter {parsed.controller_id}: {error_message(response)}. "
                "To unregister the controller from the cluster, run `kafka-cluster.sh "
                f"unregister-controller --id {parsed.controller_id}`."
            )
        if response.error_code:
            raise terse_failure(response)
        write_line(f"Removed {title}")
        if parsed.unregister:
            await unregister_controller(client, parsed.controller_id)
            write_line(f"Unregistered KRaft controller {parsed.controller_id}")
        return 0

    return run_with_client(parsed, environment, run)


def _check(parsed: Namespace) -> None:
    """Raise ToolError for options that exclude each other."""
    if parsed.bootstrap_server and parsed.bootstrap_controller:
        raise ToolError("--bootstrap-controller: not allowed with --bootstrap-server")
    if parsed.status and parsed.replication:
        raise ToolError(
            "Only one of --status or --replication should be specified with describe sub-command"
        )
    if not parsed.status and not parsed.replication:
        raise ToolError(
            "One of --status or --replication must be specified with describe sub-command"
        )
    if parsed.status and parsed.human_readable:
        raise ToolError("The option --human-readable is only supported along with --replication")


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    rows = DescribeQuorumRequest
    partition = rows.PartitionData(partition_index=0)
    topic = rows.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    quorum = await client.ask_any(rows(topics=[topic]), _QUORUM_VERSIONS)
    _check_response(quorum)
    described = quorum.topics[0].partitions[0]
    _check_response(described)
    if parsed.replication:
        _print_replication(described, is_relative=parsed.human_readable)
        return 0
    request = DescribeClusterRequest(endpoint_type=parsed.endpoint_type)
    cluster = await client.ask_any(request, _CLUSTER_VERSIONS)
    _check_response(cluster)
    _print_status(cluster.cluster_id, described, quorum.nodes)
    return 0


def _check_response(response: Any) -> None:  # noqa: ANN401 - a response or a part of one
    if response.error_code:
        raise ToolError(error_reason(response))


def _leader(described: Any) -> Any:  # noqa: ANN401 - a part of a response
    return next(
        voter for voter in described.current_voters if voter.replica_id == described.leader_id
    )


def _print_status(cluster_id: str, described: Any, nodes: Iterable[Any]) -> None:  # noqa: ANN401 - as above
    leader = _leader(described)
    last = min(described.current_voters, key=lambda voter: int(voter.log_end_offset))
    lag_ms = leader.last_caught_up_timestamp - last.last_caught_up_timestamp
    endpoints = {
        node.node_id: [f"{each.name}://{Address(each.host, each.port)}" for each in node.listeners]
        for node in nodes
    }
    for name, value in (
        ("ClusterId", cluster_id),
        ("LeaderId", described.leader_id),
        ("LeaderEpoch", described.leader_epoch),
        ("HighWatermark", described.high_watermark),
        ("MaxFollowerLag", leader.log_end_offset - last.log_end_offset),
        ("MaxFollowerLagTimeMs", -1 if last.last_caught_up_timestamp < 0 else lag_ms),
        ("CurrentVoters", _replicas_text(described.current_voters, endpoints)),
        ("CurrentObservers", _replicas_text(described.observers, endpoints)),
    ):
        write_line(f"{name + ':':24}{value}")


def _replicas_text(replicas: Iterable[Any], endpoints: Mapping[int, Sequence[str]]) -> str:
    texts = []
    for replica in replicas:
        directory = replica.replica_directory_id
        fields = [f'"id": {replica.replica_id}']
        if directory != ZERO_UUID:
            fields.append(f'"directoryId": "{uuid_to_text(directory)}"')
        if addresses := endpoints.get(replica.replica_id):
            quoted = ", ".join(f'"{address}"' for address in addresses)
            fields.append(f'"endpoints": [{quoted}]')
        texts.append(f"{{{', '.join(fields)}}}")
    return f"[{', '.join(texts)}]"


def _print_replication(described: Any, *, is_relative: bool) -> None:  # noqa: ANN401 - as above
    leader = _leader(described)

    def time_text(timestamp: int) -> str:
        if timestamp < 0 or not is_relative:
            return str(timestamp)
        # The clock of the broker, which may not be that of the system.
        return f"{leader.last_caught_up_timestamp - timestamp} ms ago"

    rows = [_HEADER]
    followers = [voter for voter in described.current_voters if voter is not leader]
    for status, replicas in (
        ("Leader", [leader]),
        ("Follower", followers),
        ("Observer", described.observers),
    ):
        rows += [
            (
                str(each.replica_id),
                uuid_to_text(each.replica_directory_id),
                str(each.log_end_offset),
                str(leader.log_end_offset - each.log_end_offset),
                time_text(each.last_fetch_timestamp),
                time_text(each.last_caught_up_timestamp),
                status,
            )
            for each in replicas
        ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    for row in rows:
        cells = zip(row, widths, strict=True)
        write_line("".join(f"{text:{width}}\t" for text, width in cells))

"""`kafkalite node` and `leader`: commands about nodes and leaders to a running broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.cli.argument_types import whole_number
from kafkalite.cli.control_commands import add_action, run
from kafkalite.cli.output import as_json, print_output
from kafkalite.cli.streams import printable

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.control.client import ControlClient
    from kafkalite.control.http import LeaderJson, NodeJson

_LIST, _MOVE = "list", "move"
_REMOVED = "removed"
_ADD, _REMOVE, _STOP = "add", "remove", "stop"

_NODE_ACTIONS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    _STOP: (
        "Stop a node as if it was killed. Other nodes lead its partitions.",
        {"state": "stopped"},
    ),
    "start": (
        "Start a stopped node, or connect an isolated one. Its replicas follow again.",
        {"state": "running"},
    ),
    "isolate": (
        "Cut a node off from the other nodes. Clients still reach it.",
        {"state": "isolated"},
    ),
    "freeze": (
        "Let a node keep its present metadata, so that it does not know later leaders.",
        {"metadata": "frozen"},
    ),
    "thaw": ("Let a frozen node receive all changes of the metadata.", {"metadata": "live"}),
    "pause": (
        "Let the replicas of a node stay where they are, so that they lag.",
        {"replication": "paused"},
    ),
    "resume": (
        "Let the replicas of a node follow their leaders again.",
        {"replication": "running"},
    ),
}
"""Action → its description, and the body of POST /v1/nodes/ID."""

_ID_HELP = "id of the node, such as 1"


def add_node(parser: ArgumentParser) -> None:
    """Add the actions of `node` and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_action(actions, parser, _LIST, "Print all nodes with their states.")
    action = add_action(
        actions, parser, _ADD, "Add a running node. Later starts begin with it, too."
    )
    action.add_argument(
        "id",
        metavar="ID",
        type=whole_number,
        nargs="?",
        help="id of the node; by default the one after the largest id",
    )
    action.add_argument(
        "--config",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="configuration of the node, such as broker.rack=b; repeatable",
    )
    action = add_action(
        actions,
        parser,
        _REMOVE,
        "Remove a node without replicas. A running node is shut down before.",
    )
    action.add_argument("id", metavar="ID", type=whole_number, help=_ID_HELP)
    for name, (about, _) in _NODE_ACTIONS.items():
        action = add_action(actions, parser, name, about)
        action.add_argument("id", metavar="ID", type=whole_number, help=_ID_HELP)
        if name == _STOP:
            action.add_argument(
                "--controlled",
                action="store_true",
                help="let other nodes lead its partitions first, as Kafka's broker does on SIGTERM",
            )


def add_leader(parser: ArgumentParser) -> None:
    """Add the action of `leader` and its options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    action = add_action(actions, parser, _MOVE, "Make a node the leader of a partition.")
    action.add_argument("partition", metavar="TOPIC-PARTITION", help="partition, such as orders-0")
    action.add_argument(
        "id", metavar="ID", type=whole_number, help="id of the node, which has a replica"
    )
    action.add_argument(
        "--unclean",
        action="store_true",
        help="allow a replica that is not in sync; the records that it does not have are lost",
    )


def node(arguments: Namespace) -> None:
    """Show or change nodes; raises SystemExit if that fails."""

    def perform(client: ControlClient) -> None:
        shape: object
        nodes: Sequence[NodeJson]
        if arguments.action == _LIST:
            shape = listed = client.nodes()
            nodes = listed["nodes"]
        else:
            shape = changed = _change(client, arguments)
            nodes = [changed]
        print_output(as_json(shape) if arguments.json else "".join(map(_node_line, nodes)))

    run(arguments, perform)


def _change(client: ControlClient, arguments: Namespace) -> NodeJson:
    """Add, remove or change a node; raises ValueError for an invalid configuration."""
    if arguments.action == _ADD:
        from kafkalite.server.settings import parse_config  # noqa: PLC0415 - `--help` needs no broker

        body: dict[str, object] = {"config": parse_config(arguments.config)}
        if arguments.id is not None:
            body["id"] = arguments.id
        return client.add_node(body)
    if arguments.action == _REMOVE:
        return client.remove_node(arguments.id)
    _, command = _NODE_ACTIONS[arguments.action]
    if arguments.action == _STOP and arguments.controlled:
        return client.change_node(arguments.id, {**command, "controlled": True})
    return client.change_node(arguments.id, command)


def leader(arguments: Namespace) -> None:
    """Move the leader of a partition; raises SystemExit if that fails."""

    def perform(client: ControlClient) -> None:
        topic, index = _topic_and_index(arguments.partition)
        moved = client.move_leader(
            {
                "topic": topic,
                "partition": index,
                "leader": arguments.id,
                "unclean": arguments.unclean,
            }
        )
        print_output(as_json(moved) if arguments.json else _leader_line(moved))

    run(arguments, perform)


def _topic_and_index(text: str) -> tuple[str, int]:
    """Return the parts of TOPIC-PARTITION; raises ValueError for other text."""
    topic, _, index = text.rpartition("-")
    if not topic or not index.isascii() or not index.isdigit():
        raise ValueError(f"{text[:60]!r} is not a partition: write TOPIC-PARTITION, as in orders-0")
    return topic, int(index[:12])


def _node_line(shape: NodeJson) -> str:
    parts = [shape["state"]]
    if not shape["registered"] and shape["state"] != _REMOVED:
        parts.append("unregistered")
    if shape["state"] == _REMOVED:
        return f"node {shape['id']}: {_REMOVED}\n"
    if shape["metadata"] != "live":
        parts.append(f"metadata {shape['metadata']}")
    if shape["replication"] != "running":
        parts.append(f"replication {shape['replication']}")
    parts.append(f"leads {_count(shape['led_partitions'], 'partition')}")
    parts += (f"{name} {address}" for name, address in shape["listeners"].items())
    line = f"node {shape['id']}: {', '.join(parts)}"
    return f"{printable(line)}\n"


def _leader_line(shape: LeaderJson) -> str:
    line = (
        f"{shape['topic']}-{shape['partition']}: node {shape['leader']} leads in epoch "
        f"{shape['leader_epoch']}, replicas {_ids(shape['replicas'])}, in sync "
        f"{_ids(shape['isr'])}, {_count(shape['truncated_records'], 'record')} lost"
    )
    return f"{printable(line)}\n"


def _ids(node_ids: Sequence[int]) -> str:
    return " ".join(map(str, node_ids))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

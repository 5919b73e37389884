"""`kafkalite group`: list, describe, reset and delete the groups of any Kafka cluster."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.argument_types import whole_number
from kafkalite.cli.cluster_options import Action, add_actions, print_json, print_lines, run_action
from kafkalite.cli.output import print_to_stderr
from kafkalite.cli.streams import printable
from kafkalite.cli.tables import Coloured, in_colour, table_lines

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.epochs import TopicPartition
    from kafkalite.client.groups import (
        GroupDescription,
        GroupMemberDescription,
        GroupPartition,
    )

_TYPES: Final = ("classic", "consumer", "share", "streams")
_STATE_COLOURS: Final[Mapping[str, str]] = {"Stable": "green", "Empty": "yellow", "Dead": "red"}


def add_options(parser: ArgumentParser) -> None:
    """Add the actions of `kafkalite group`."""
    add_actions(
        parser,
        (
            Action("list", "List groups of all types.", _add_list, _list),
            Action("describe", "Show members, offsets and lag of groups.", _add_ids, _describe),
            Action(
                "reset",
                "Show the offsets of a group after a reset, and set them with --execute.",
                _add_reset,
                _reset,
            ),
            Action(
                "delete", "Delete groups without members, with their offsets.", _add_ids, _delete
            ),
        ),
    )


def run(arguments: Namespace) -> None:
    """Run the chosen action; raises SystemExit if it fails."""
    run_action(arguments)


def _add_list(parser: ArgumentParser) -> None:
    parser.add_argument("--type", choices=_TYPES, help="list groups of this type only [all]")
    parser.add_argument(
        "--state",
        type=_state_of,
        metavar="STATE",
        help="list groups in this state only, such as Stable [all]",
    )


def _state_of(text: str) -> str:
    """Return Kafka's name of a state, in any case; raises ArgumentTypeError for another one."""
    from kafkalite.control.group_status import STATES  # noqa: PLC0415 - imported if needed
    from kafkalite.ports.similar_names import similar_names_hint  # noqa: PLC0415 - as above

    by_lower_case = {name.lower(): name for name in STATES}
    if text.lower() in by_lower_case:
        return by_lower_case[text.lower()]
    hint = similar_names_hint(text.capitalize(), STATES)
    raise ArgumentTypeError(
        f"{text!r} is no state of a group{hint}; the states are {', '.join(STATES)}"
    )


def _add_ids(parser: ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="id of a group")


def _add_reset(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="id of the group, which has no members")
    parser.add_argument(
        "--topic",
        action="append",
        metavar="TOPIC[:PARTITIONS]",
        help="topic, and its partitions separated by commas; repeatable [all partitions with an "
        "offset of the group]",
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--to",
        metavar="POSITION",
        help="earliest, latest, an offset, or a time such as 2026-03-01T12:00:00Z",
    )
    target.add_argument(
        "--shift", type=whole_number, metavar="NUMBER", help="add this number to each offset"
    )
    parser.add_argument("--execute", action="store_true", help="set the offsets [only show them]")


async def _list(client: KafkaClient, arguments: Namespace) -> None:
    from kafkalite.client.groups import list_groups  # noqa: PLC0415 - imported if needed

    groups = [
        each
        for each in await list_groups(client)
        if arguments.type in (None, each.type) and arguments.state in (None, each.state)
    ]
    if arguments.json:
        print_json([each._asdict() for each in groups])
        return
    rows = [
        (each.group_id, each.type, each.protocol_type or None, _state(each.state), each.coordinator)
        for each in groups
    ]
    print_lines(table_lines(("GROUP", "TYPE", "PROTOCOL", "STATE", "COORDINATOR"), rows))


def _state(state: str) -> str | Coloured | None:
    colour = _STATE_COLOURS.get(state)
    return (state or None) if colour is None else Coloured(state, colour)


async def _describe(client: KafkaClient, arguments: Namespace) -> None:
    from kafkalite.client.groups import describe_group, group_partitions  # noqa: PLC0415 - as above

    shapes: list[dict[str, Any]] = []
    for position, group_id in enumerate(dict.fromkeys(arguments.ids)):
        group = await describe_group(client, group_id)
        partitions = await group_partitions(client, group)
        if arguments.json:
            shapes.append(_group_shape(group, partitions))
        else:
            print_lines([*([""] if position else []), *_group_lines(group, partitions)])
    if arguments.json:
        print_json(shapes)


def _group_shape(group: GroupDescription, partitions: Sequence[GroupPartition]) -> dict[str, Any]:
    return {
        **group._asdict(),
        "members": [
            {
                **each._asdict(),
                "assignment": [
                    {"topic": topic, "partitions": indexes}
                    for topic, indexes in _by_topic(each.assignment).items()
                ],
            }
            for each in group.members
        ],
        "offsets": [
            {
                **each.partition._asdict(),
                "offset": each.offset,
                "end_offset": each.end_offset,
                "lag": each.lag,
                "member_id": None if each.member is None else each.member.member_id,
            }
            for each in partitions
        ],
    }


def _group_lines(group: GroupDescription, partitions: Sequence[GroupPartition]) -> Iterable[str]:
    facts = [f"{group.type} group", group.state, f"coordinator {group.coordinator}"]
    if group.epoch is not None:
        facts.append(f"epoch {group.epoch}")
    if group.protocol:
        facts.append(f"assignor {group.protocol}")
    yield in_colour(printable(f"{group.group_id} ({', '.join(facts)})"), "bold")
    if group.members:
        yield from table_lines(
            ("MEMBER", "CLIENT", "HOST", "EPOCH", "PARTITIONS"),
            list(map(_member_row, group.members)),
        )
    if partitions:
        header = ("TOPIC", "PARTITION", "OFFSET", "END", "LAG", "CLIENT")
        yield from table_lines(header, list(map(_partition_row, partitions)))


def _member_row(member: GroupMemberDescription) -> tuple[str | int | None, ...]:
    assigned = " ".join(
        f"{topic}-{','.join(map(str, indexes))}"
        for topic, indexes in _by_topic(member.assignment).items()
    )
    name = member.instance_id or member.member_id
    return (name, member.client_id, member.host.removeprefix("/"), member.epoch, assigned or None)


def _partition_row(row: GroupPartition) -> tuple[str | int | Coloured | None, ...]:
    lag = Coloured(row.lag, "yellow") if row.lag else row.lag
    client_id = None if row.member is None else row.member.client_id
    return (*row.partition, row.offset, row.end_offset, lag, client_id)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    return indexes


async def _reset(client: KafkaClient, arguments: Namespace) -> None:
    from kafkalite.client.groups import set_offsets  # noqa: PLC0415 - imported if needed
    from kafkalite.client.offset_reset import plan_reset  # noqa: PLC0415 - as above
    from kafkalite.client.offsets import OffsetTarget  # noqa: PLC0415 - as above

    target = None if arguments.to is None else OffsetTarget.parse(arguments.to)
    topics = dict(map(_topic_option, arguments.topic or ()))
    plan = await plan_reset(client, arguments.id, topics, target, arguments.shift)
    if arguments.execute:
        await set_offsets(client, plan.group, plan.offsets)
    rows = [
        (*partition, plan.former.get(partition), offset)
        for partition, offset in plan.offsets.items()
    ]
    if arguments.json:
        names = ("topic", "partition", "offset", "new_offset")
        shape = {
            "group_id": arguments.id,
            "executed": arguments.execute,
            "offsets": [dict(zip(names, row, strict=True)) for row in rows],
        }
        print_json(shape)
    else:
        print_lines(table_lines(("TOPIC", "PARTITION", "OFFSET", "NEW-OFFSET"), rows))
    if not arguments.execute:
        print_to_stderr("nothing is changed yet; --execute sets the new offsets")


def _topic_option(text: str) -> tuple[str, tuple[int, ...] | None]:
    """Return the topic and the partitions of `--topic`, None for all; raises ValueError."""
    topic, colon, indexes = text.partition(":")
    if not colon:
        return topic, None
    parts = indexes.split(",")
    if not topic or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"--topic {text!r}: write TOPIC or TOPIC:0,1")
    return topic, tuple(map(int, parts))


async def _delete(client: KafkaClient, arguments: Namespace) -> None:
    from kafkalite.client.errors import UnknownNameError  # noqa: PLC0415 - imported if needed
    from kafkalite.client.groups import delete_groups, list_groups  # noqa: PLC0415 - as above

    known = [each.group_id for each in await list_groups(client)]
    ids = list(dict.fromkeys(arguments.ids))
    for group_id in ids:
        if group_id not in known:
            raise UnknownNameError("group", group_id, known)
    results = await delete_groups(client, ids)
    deleted = [group_id for group_id, error in results.items() if error is None]
    if arguments.json:
        print_json({"deleted": deleted})
    else:
        print_lines(f"deleted group {printable(group_id)}" for group_id in deleted)
    for error in results.values():
        if error is not None:
            raise error

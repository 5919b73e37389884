"""`kafkalite topic`: list, create, describe and delete the topics of any Kafka cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.cli.argument_types import whole_number
from kafkalite.cli.cluster_options import Action, add_actions, print_json, print_lines, run_action
from kafkalite.cli.streams import printable
from kafkalite.cli.tables import Coloured, in_colour, table_lines

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.topics import TopicConfig, TopicDescription


def add_options(parser: ArgumentParser) -> None:
    """Add the actions of `kafkalite topic`."""
    add_actions(
        parser,
        (
            Action("list", "List topics.", _add_list, _list),
            Action("create", "Create topics.", _add_create, _create),
            Action(
                "describe",
                "Show partitions, offsets and configurations of topics.",
                _add_describe,
                _describe,
            ),
            Action("delete", "Delete topics with their records.", _add_delete, _delete),
        ),
    )


def run(arguments: Namespace) -> None:
    """Run the chosen action; raises SystemExit if it fails."""
    run_action(arguments)


def _add_list(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--internal", action="store_true", help="list the internal topics of Kafka, too"
    )


def _add_names(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="TOPIC", help="name of a topic")


def _add_create(parser: ArgumentParser) -> None:
    _add_names(parser)
    parser.add_argument(
        "--partitions",
        type=whole_number,
        metavar="NUMBER",
        help="number of partitions [num.partitions of the broker]",
    )
    parser.add_argument(
        "--replication-factor",
        type=whole_number,
        metavar="NUMBER",
        help="number of replicas [default.replication.factor of the broker]",
    )
    parser.add_argument(
        "--config", action="append", metavar="KEY=VALUE", help="configuration; repeatable"
    )
    parser.add_argument(
        "--if-not-exists", action="store_true", help="do nothing if the topic exists"
    )


def _add_describe(parser: ArgumentParser) -> None:
    _add_names(parser)
    parser.add_argument(
        "--all-configs", action="store_true", help="show configurations with default values, too"
    )


def _add_delete(parser: ArgumentParser) -> None:
    _add_names(parser)
    parser.add_argument(
        "--if-exists", action="store_true", help="do nothing if there is no such topic"
    )


async def _list(client: KafkaClient, arguments: Namespace) -> None:
    from kafkalite.client.topics import list_topics  # noqa: PLC0415 - imported if needed

    topics = [
        each for each in await list_topics(client) if arguments.internal or not each.is_internal
    ]
    if arguments.json:
        print_json([_summary(each) for each in topics])
        return
    rows = [(each.name, len(each.partitions), each.replication_factor) for each in topics]
    print_lines(table_lines(("TOPIC", "PARTITIONS", "REPLICAS"), rows))


async def _create(client: KafkaClient, arguments: Namespace) -> None:
    from kafkalite.client.errors import BrokerError  # noqa: PLC0415 - imported if needed
    from kafkalite.client.topics import BROKER_DEFAULT, create_topic  # noqa: PLC0415 - as above
    from kafkalite.protocol.error_codes import ErrorCode  # noqa: PLC0415 - as above
    from kafkalite.server.settings import parse_config  # noqa: PLC0415 - as above

    configs = parse_config(arguments.config or ())
    created: list[str] = []
    for name in dict.fromkeys(arguments.names):
        try:
            await create_topic(
                client,
                name,
                partitions=_number(arguments.partitions, "--partitions", BROKER_DEFAULT),
                replication_factor=_number(
                    arguments.replication_factor, "--replication-factor", BROKER_DEFAULT
                ),
                configs=configs,
            )
        except BrokerError as error:
            if not (arguments.if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            continue
        created.append(name)
        if not arguments.json:
            print_lines([f"created topic {printable(name)}"])
    if arguments.json:
        print_json({"created": created})


def _number(given: int | None, option: str, default: int) -> int:
    if given is not None and given < 1:
        raise ValueError(f"{option} must be at least 1, not {given}")
    return default if given is None else given


async def _describe(client: KafkaClient, arguments: Namespace) -> None:
    from kafkalite.client.topics import find_topic, topic_configs  # noqa: PLC0415 - as needed

    shapes: list[dict[str, Any]] = []
    for name in dict.fromkeys(arguments.names):
        topic = await find_topic(client, name)
        configs = [
            each
            for each in await topic_configs(client, name)
            if not each.is_default or arguments.all_configs
        ]
        shape = await _described(client, topic, configs)
        if arguments.json:
            shapes.append(shape)
        else:
            print_lines(_description_lines(shape))
    if arguments.json:
        print_json(shapes)


def _summary(topic: TopicDescription) -> dict[str, Any]:
    from kafkalite.protocol.uuids import uuid_to_text  # noqa: PLC0415 - imported if needed

    return {
        "topic": topic.name,
        "topic_id": uuid_to_text(topic.topic_id),
        "internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "replication_factor": topic.replication_factor,
    }


async def _described(
    client: KafkaClient, topic: TopicDescription, configs: list[TopicConfig]
) -> dict[str, Any]:
    from kafkalite.client.epochs import TopicPartition  # noqa: PLC0415 - imported if needed
    from kafkalite.client.offsets import end_offsets, first_offsets  # noqa: PLC0415

    partitions = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
    starts = await first_offsets(client, partitions)
    ends = await end_offsets(client, partitions)
    return {
        **_summary(topic),
        "configs": {each.name: each.value for each in sorted(configs)},
        "partitions": [
            {
                "partition": each.partition,
                "leader": each.leader if each.leader >= 0 else None,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "start_offset": starts.get(partition),
                "end_offset": ends.get(partition),
            }
            for each, partition in zip(topic.partitions, partitions, strict=True)
        ],
    }


def _description_lines(shape: dict[str, Any]) -> list[str]:
    configs = [
        f"  {name}={'(sensitive)' if value is None else value}"
        for name, value in shape["configs"].items()
    ]
    rows = [
        (
            each["partition"],
            Coloured("none", "red") if each["leader"] is None else each["leader"],
            _nodes(each["replicas"]),
            _isr(each["isr"], each["replicas"]),
            each["start_offset"],
            each["end_offset"],
        )
        for each in shape["partitions"]
    ]
    header = ("PARTITION", "LEADER", "REPLICAS", "ISR", "START", "END")
    return [
        in_colour(f"{shape['topic']} (id {shape['topic_id']})", "bold"),
        *map(printable, configs),
        *table_lines(header, rows),
    ]


def _nodes(ids: list[int]) -> str:
    return ",".join(map(str, ids)) or "none"


def _isr(isr: list[int], replicas: list[int]) -> str | Coloured:
    text = _nodes(isr)
    return text if len(isr) == len(replicas) else Coloured(text, "yellow")


async def _delete(client: KafkaClient, arguments: Namespace) -> None:
    from kafkalite.client.errors import UnknownNameError  # noqa: PLC0415 - as above
    from kafkalite.client.topics import delete_topics, list_topics  # noqa: PLC0415 - as needed

    known = [each.name for each in await list_topics(client)]
    names = list(dict.fromkeys(arguments.names))
    for name in names:
        if name not in known and not arguments.if_exists:
            raise UnknownNameError("topic", name, known)
    deleted: list[str] = []
    results = await delete_topics(client, [name for name in names if name in known])
    for name, error in results.items():
        if error is None:
            deleted.append(name)
            if not arguments.json:
                print_lines([f"deleted topic {printable(name)}"])
    if arguments.json:
        print_json({"deleted": deleted})
    for error in results.values():
        if error is not None:
            raise error

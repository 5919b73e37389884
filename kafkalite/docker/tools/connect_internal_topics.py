"""`connect-internal-topics`: create the internal topics of a worker of Kafka Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.client.errors import BrokerError
from kafkalite.client.topics import BROKER_DEFAULT, create_topic
from kafkalite.docker.tools.arguments import (
    FAILED_STATUS,
    KafkaToolError,
    ToolParser,
    access_in,
    addresses_of,
    client_properties,
)
from kafkalite.docker.tools.running import run_client, run_tool, write_line
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_REPLICATION_FACTOR: Final = 3


class _Kind(NamedTuple):
    """A topic of a worker: the prefix of its properties, and its default number of partitions."""

    prefix: str
    partitions: int
    has_partitions: bool = True
    """Whether a property sets the number."""


class _Topic(NamedTuple):
    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


_KINDS: Final = (
    _Kind("offset.storage.", 25),
    _Kind("config.storage.", 1, has_partitions=False),
    _Kind("status.storage.", 5),
)
_NOT_CONFIGS: Final = ("topic", "replication.factor", "partitions")


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parser = ToolParser(name, "Manage the internal topics of Kafka Connect.")
        parser.add_argument("subcommand", choices=("create",))
        parser.add_values("worker-config", metavar="FILE")
        parsed = parser.parse(arguments)
        if not (parsed.worker_config or "").strip():
            parser.error("--worker-config must be specified and non-blank")
        properties = client_properties(parsed.worker_config, environment)
        write_line("Parsed arguments and loaded worker properties")
        write_line(f"Subcommand: {parsed.subcommand}")
        topics = list(_topics(properties))
        write_line("Running create command for internal topics")
        addresses = addresses_of(properties.get("bootstrap.servers"))
        access = access_in(properties, parsed.worker_config)
        write_line("Admin properties loaded for topic admin")
        status = run_client(addresses, access, lambda client: _create(client, topics))
        if not status:
            write_line("Command executed successfully")
        return status

    return run_tool(name, command)


def _topics(properties: Mapping[str, str]) -> Iterator[_Topic]:
    """Yield the topics that a worker needs; raises KafkaToolError."""
    for kind in _KINDS:
        settings = {
            key.removeprefix(kind.prefix): value
            for key, value in properties.items()
            if key.startswith(kind.prefix)
        }
        name = settings.get("topic", "").strip()
        if not name:
            raise KafkaToolError(f"{kind.prefix}topic must be specified in the worker config")
        configs = {key: value for key, value in settings.items() if key not in _NOT_CONFIGS}
        count = settings.get("partitions") if kind.has_partitions else None
        factor = settings.get("replication.factor", str(_REPLICATION_FACTOR))
        yield _Topic(
            name,
            kind.partitions if count is None else _count(f"{kind.prefix}partitions", count),
            _count(f"{kind.prefix}replication.factor", factor),
            {**configs, "cleanup.policy": "compact"},
        )


def _count(key: str, text: str) -> int:
    """Return a positive number, or -1 for the default of the broker; raises KafkaToolError."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1 and number != BROKER_DEFAULT:
        raise KafkaToolError(
            f"Invalid value {text} for configuration {key}: a number larger than 0, or -1 to use "
            "the broker's default"
        )
    return number


async def _create(client: KafkaClient, topics: Sequence[_Topic]) -> int:
    """Create the topics that do not exist; return the exit status."""
    status = 0
    for topic in topics:
        try:
            await create_topic(
                client,
                topic.name,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=topic.configs,
            )
        except BrokerError as error:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                write_line(f"Internal topic already exists: {topic.name}")
                continue
            write_line(f"Unexpected error: {error.reason}")
            status = FAILED_STATUS
            continue
        write_line(f"Created internal topic: {topic.name}")
    return status

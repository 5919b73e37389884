"""Commands to any Kafka cluster: their options for the connection, and how they run.

The exit status is 0 if the command succeeded, 1 if the cluster refused it or does not answer, and 2
for invalid arguments. An output whose reader has ended is no error, as with Kafka's tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.cli.access_options import (
    ACCESS_OPTIONS,
    OptionError,
    access_from,
    add_access_options,
)
from kafkalite.cli.output import FAILED_STATUS, USAGE_STATUS, as_json, exit_with_error, print_output
from kafkalite.cli.streams import open_closed_streams
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from kafkalite.client.access import Access
    from kafkalite.client.client import KafkaClient
    from kafkalite.server.addresses import Address

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
_RESPONSE_TIMEOUT_S: Final = 30.0


class ClusterAccess(NamedTuple):
    """The addresses of a cluster, and the settings of connections to it."""

    bootstrap: Sequence[Address]
    access: Access

    @property
    def servers(self) -> str:
        """The addresses as `host:port,…`."""
        return ",".join(map(str, self.bootstrap))


class Action(NamedTuple):
    """One of the actions of a command, such as `list` of `kafkalite topic`."""

    name: str
    about: str
    add_options: Callable[[ArgumentParser], None]
    run: Callable[[KafkaClient, Namespace], Awaitable[None]]


def add_cluster_options(parser: ArgumentParser) -> None:
    """Add the options for the addresses of a cluster and for TLS and SASL."""
    parser.add_argument(
        "--bootstrap-server",
        action="append",
        metavar="HOST:PORT",
        help="address of a broker, of kafkalite or of Kafka; repeatable, or separated by commas "
        f"[{DEFAULT_BOOTSTRAP}]",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="properties file of a Java client with security.protocol, sasl.* and ssl.*, in place "
        "of the options for TLS and SASL",
    )
    add_access_options(parser)


def add_json_option(parser: ArgumentParser, text: str = "print JSON") -> None:
    """Add the option for an output as JSON."""
    parser.add_argument("--json", action="store_true", help=text)


def add_actions(parser: ArgumentParser, actions: Iterable[Action]) -> None:
    """Add the actions of a command to any cluster, and the options of each."""
    choices = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for each in actions:
        action = choices.add_parser(
            each.name,
            help=each.about,
            description=each.about,
            allow_abbrev=False,
            formatter_class=parser.formatter_class,
        )
        each.add_options(action)
        add_json_option(action)
        add_cluster_options(action)
        action.set_defaults(parser=action, perform=each.run)


def run_action(arguments: Namespace) -> None:
    """Run the chosen action with a client of the cluster; raises SystemExit if it fails."""
    run_with_client(arguments, lambda client, _: arguments.perform(client, arguments))


def run_with_client(
    arguments: Namespace,
    command: Callable[[KafkaClient, ClusterAccess], Awaitable[None]],
) -> None:
    """Run a command with a client of the cluster; raises SystemExit if it fails.

    The command raises ValueError for invalid arguments, and ClientError.
    """
    # Imported here: a broker starts faster without them.
    import asyncio  # noqa: PLC0415

    from kafkalite.client.client import KafkaClient  # noqa: PLC0415
    from kafkalite.client.connection import UnreachableError  # noqa: PLC0415
    from kafkalite.client.errors import ClientError  # noqa: PLC0415

    open_closed_streams()

    async def run() -> None:
        cluster = cluster_access(arguments)
        async with KafkaClient(
            cluster.bootstrap, cluster.access, response_timeout_s=_RESPONSE_TIMEOUT_S
        ) as client:
            await command(client, cluster)

    try:
        asyncio.run(run())
    except (ClientError, UnreachableError) as error:
        exit_with_error(FAILED_STATUS, str(error))
    except ValueError as error:
        exit_with_error(USAGE_STATUS, str(error))


def cluster_access(arguments: Namespace) -> ClusterAccess:
    """Return the addresses and the access in the arguments; raises ValueError."""
    from kafkalite.client.bootstrap import bootstrap_addresses  # noqa: PLC0415 - imported if needed

    texts = arguments.bootstrap_server or [DEFAULT_BOOTSTRAP]
    return ClusterAccess(bootstrap_addresses(",".join(texts)), _access(arguments))


def _access(arguments: Namespace) -> Access:
    path = arguments.command_config
    if path is None:
        return access_from(arguments)
    for option in ACCESS_OPTIONS:
        if getattr(arguments, option.replace("-", "_")):
            raise OptionError(f"--command-config and --{option} cannot be combined")
    from kafkalite.client.access_properties import (  # noqa: PLC0415 - imported if needed
        AccessPropertiesError,
        access_of_text,
    )

    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return access_of_text(file.read())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OptionError(f"cannot read {path}: {reason}") from error
    except AccessPropertiesError as error:
        raise OptionError(f"{path}: {error}") from error


def print_lines(lines: Iterable[str]) -> None:
    """Print lines; see `print_text`."""
    print_text("".join(f"{line}\n" for line in lines))


def print_json(shape: object) -> None:
    """Print a value as JSON; see `print_text`."""
    print_text(as_json(shape))


def print_text(text: str) -> None:
    """Print a text; raises SystemExit with status 0 if the output has no reader any more."""
    if text and not print_output(text):
        raise SystemExit(0)

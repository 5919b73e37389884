"""Running of a tool: a client for its commands, and its exit status."""

from __future__ import annotations

import asyncio
import struct
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkalite.cli.streams import discard_output, end_output
from kafkalite.client.client import KafkaClient
from kafkalite.client.connection import UnreachableError
from kafkalite.client.errors import ClientError
from kafkalite.docker.tools.arguments import (
    FAILED_STATUS,
    KafkaToolError,
    ToolError,
    access_from,
    addresses_of,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from kafkalite.client.access import Access
    from kafkalite.server.addresses import Address

    Command = Callable[[KafkaClient, Namespace], Coroutine[None, None, int]]

_RESPONSE_TIMEOUT_S = 30.0


def run_tool(name: str, command: Callable[[], int]) -> int:
    """Run a tool; print the reason of a failure as one line, and return the exit status."""
    try:
        return _run(name, command)
    finally:
        end_output()


def _run(name: str, command: Callable[[], int]) -> int:
    try:
        return command()
    except KafkaToolError as error:
        write_error(str(error))
        return FAILED_STATUS
    except (ToolError, ClientError, UnreachableError, struct.error) as error:
        # A number of the arguments may not fit into its field of the request.
        what = "a number is out of the range of its field: " if type(error) is struct.error else ""
        print(f"{name}: {what}{error}", file=sys.stderr)  # noqa: T201 - the output of a program
        return FAILED_STATUS
    except BrokenPipeError:
        # Java's tools ignore an output without a reader.
        discard_output()
        return 0
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        path = f"{error.filename}: " if error.filename else ""
        print(f"{name}: {path}{reason}", file=sys.stderr)  # noqa: T201 - as above
        return FAILED_STATUS
    except KeyboardInterrupt:
        return FAILED_STATUS


def run_with_client(parsed: Namespace, environment: Mapping[str, str], command: Command) -> int:
    """Run a command with a client of the cluster that the options name; return its status."""
    addresses = addresses_of(
        parsed.bootstrap_server or getattr(parsed, "bootstrap_controller", None)
    )
    access = access_from(parsed.client_config, environment)
    return run_client(addresses, access, lambda client: command(client, parsed))


def run_client(
    addresses: Sequence[Address],
    access: Access,
    command: Callable[[KafkaClient], Coroutine[None, None, int]],
) -> int:
    """Run a command with a client of the cluster at addresses; return its status."""

    async def run() -> int:
        async with KafkaClient(addresses, access, response_timeout_s=_RESPONSE_TIMEOUT_S) as client:
            return await command(client)

    return asyncio.run(run())


def write_line(text: str, end: str = "\n") -> None:
    """Print a line of the output."""
    print(text, end=end, flush=True)  # noqa: T201 - the output of a program


def write_error(text: str) -> None:
    """Print a line of the error output."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - the output of a program


def write_log(level: str, text: str) -> None:
    """Print a line to the error output in the form of Kafka's logs."""
    now = datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    write_error(f"[{now}] {level} {text}")

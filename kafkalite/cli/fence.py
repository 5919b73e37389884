"""`kafkalite fence-producers`: fence producers of transactional ids in any Kafka cluster.

The exit status is 0 if all ids were fenced, 1 if an id was not fenced or if no broker answered, and
2 for invalid arguments.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kafkalite.cli.cluster_options import add_cluster_options, cluster_access
from kafkalite.cli.output import (
    FAILED_STATUS,
    USAGE_STATUS,
    exit_with_error,
    print_output,
    print_to_stderr,
)
from kafkalite.cli.streams import open_closed_streams, printable

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kafkalite.client.fencing import FencingResult

_DEFAULT_TIMEOUT = "30s"
_MAX_TIMEOUT_MS = 2**31 - 1


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `fence-producers`."""
    parser.add_argument(
        "ids",
        nargs="+",
        metavar="ID",
        help="transactional id; an unknown id is created, as in Kafka",
    )
    parser.add_argument(
        "--timeout",
        metavar="DURATION",
        default=_DEFAULT_TIMEOUT,
        help="time limit, such as 10s; also the transaction timeout of each id until its next "
        f"producer sets another [{_DEFAULT_TIMEOUT}]",
    )
    add_cluster_options(parser)


def run(arguments: Namespace) -> None:
    """Fence the producers of the given ids, and print each result; raises SystemExit."""
    # Imported here: a broker starts faster without them.
    import asyncio  # noqa: PLC0415

    from kafkalite.client.connection import UnreachableError  # noqa: PLC0415
    from kafkalite.client.fencing import fence_producers  # noqa: PLC0415

    open_closed_streams()
    try:
        timeout_ms = _timeout_ms(arguments.timeout)
        cluster = cluster_access(arguments)
    except ValueError as error:
        exit_with_error(USAGE_STATUS, str(error))
    try:
        results = asyncio.run(
            fence_producers(cluster.bootstrap, arguments.ids, timeout_ms, cluster.access)
        )
    except UnreachableError as error:
        exit_with_error(FAILED_STATUS, str(error))
    for result in results:
        _print_result(result)
    if any(result.error is not None for result in results):
        sys.exit(FAILED_STATUS)


def _print_result(result: FencingResult) -> None:
    name = printable(result.transactional_id)
    if result.error is None:
        print_output(f"{name}: producer id {result.producer_id}, epoch {result.producer_epoch}\n")
    else:
        print_to_stderr(f"transactional id {name!r}: {result.error}")


def _timeout_ms(text: str) -> int:
    from kafkalite.ports.times import duration_ms  # noqa: PLC0415 - see above

    timeout_ms = duration_ms(text)
    if not 0 < timeout_ms <= _MAX_TIMEOUT_MS:
        raise ValueError(f"--timeout {text!r} is not between 1ms and {_MAX_TIMEOUT_MS}ms")
    return timeout_ms
